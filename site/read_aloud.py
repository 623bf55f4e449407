"""What a page says to those who hear it: folds and tables have names of their own, a head is marked
as a head where it is one, and the contents of the book fold by parts. A Sphinx extension.

docutils writes what Markdown means: that a table has a head, and a fold a summary. What they are
called on this page, among others of their kind, stands in the heading above them.
"""

import re
from collections import Counter
from collections.abc import Callable
from html import escape, unescape

TAG = re.compile(r"<[^>]+>")


def text(html: str) -> str:
    return " ".join(unescape(TAG.sub("", html)).split())


# The contents of the book.

CAPTION = re.compile(
    r'<p aria-level="2" class="caption" role="heading"><span [^>]*>(.*?)</span></p>'
)
FOLD = '<summary><span class="toctree-toggle"'


def by_parts(contents: str) -> str:
    """Each part of the book as a fold; that of the page is open, and the first on other pages."""
    before, *parts = CAPTION.split(contents)
    folds = [*zip(parts[::2], parts[1::2], strict=True)]
    here = next((n for n, (_, pages) in enumerate(folds) if ' class="current' in pages), 0)
    made = (
        f'<details class="part"{" open" * (n == here)}><summary>{name}</summary>{pages}</details>\n'
        for n, (name, pages) in enumerate(folds)
    )
    named = FOLD.replace("<summary", '<summary aria-label="pages below"')
    return (before + "".join(made)).replace(FOLD, named)


def with_parts(contents: Callable) -> Callable:
    return lambda *args, **kwargs: by_parts(str(contents(*args, **kwargs)))


# Tables: the corner is the head of nothing, the entries of a list are its items, and a card has its
# heads at the left. A line of code ends at a point or an underscore.

UNSAID = ((re.compile(r"<th\b[^>]*>\s*(?:<p></p>)?\s*</th>"), "<td></td>"),)
UNSAID += ((re.compile(r'role="doc-biblioentry"'), 'role="listitem"'),)
CARD = re.compile(r'(?<=<div class="note glance admonition">).*?</table>', re.S)
ROW = re.compile(r"<(?:td|th)\b[^>]*>(.*?)</(?:td|th)>(.*?)(?=</tr>)", re.S)
TABLE = re.compile(r"<table\b.*?</table>", re.S)
CODE = re.compile(r'(?<=<span class="pre">)[^<]+')


def as_card(match: re.Match) -> str:
    whole = re.sub(r"</thead>\s*<tbody>", "", match[0].replace("<thead>", "<tbody>"))

    def row(cells: re.Match) -> str:
        return f'<th scope="row">{cells[1]}</th>' + re.sub(r"<(/?)th\b[^>]*>", r"<\1td>", cells[2])

    return ROW.sub(row, whole).replace("<table ", '<table aria-label="At a glance" ')


def with_breaks(table: re.Match) -> str:
    return CODE.sub(lambda code: re.sub(r"(?<=\w)([_.])(?=\w)", r"\1<wbr>", code[0]), table[0])


# Names, in the order of the page: a heading holds for what follows it.

PLACES = re.compile(
    r"<h[1-6]>(?P<heading>.*?)<a class=\"headerlink\"|<strong>(?P<exercise>\d+)\.</strong>"
    r"|<summary(?P<fold>[^>]*)>(?P<words>.*?)</summary>"
    r"|<table(?P<table>[^>]*)>(?!\s*<caption)(?=(?:\s*<thead>(?P<columns>.*?)</thead>)?)",
    re.S,
)
TURNED = re.compile(
    r'<p class="collapsed[^>]*>Show (.*?)</p>\s*<p class="expanded[^>]*>Hide \1</p>', re.S
)
TURN = r'<p class="admonition-title turn">\1</p>'  # the style sheet says "Show" or "Hide"
HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.S)


def with_names(body: str) -> str:
    """A fold whose words stand on the page more than once says of what it is; so does a table."""
    folds = (m["words"] for m in PLACES.finditer(body) if m["words"] is not None)
    often, seen = Counter(map(text, folds)), Counter()
    heading = exercise = ""

    def numbered(name: str) -> str:
        seen[name] += 1
        return escape(name if seen[name] == 1 else f"{name} {seen[name]}")

    def put(match: re.Match) -> str:
        nonlocal heading, exercise
        if match["heading"] is not None:
            heading, exercise = text(match["heading"]), ""
        elif match["exercise"]:
            exercise = f"exercise {match['exercise']}"
        elif match["words"] is not None:
            said = text(match["words"])
            given = match["fold"].replace(' aria-label="Toggle hidden content"', "")
            if often[said] > 1:
                name = numbered(f"{said}: {exercise or heading}")
                given += f' data-of="({name.removeprefix(escape(said))[2:]})"'
            return f"<summary{given}>{match['words']}</summary>"
        elif "aria-label" not in match["table"]:
            heads = ", ".join(filter(None, map(text, HEAD.findall(match["columns"] or ""))))
            name = numbered(f"{heading}: {heads}" if heads else heading)
            return f'<table aria-label="{name}"{match["table"]}>'
        return match[0]

    return PLACES.sub(put, body)


def well_said(body: str) -> str:
    for found, said in (*UNSAID, (TURNED, TURN), (TABLE, with_breaks), (CARD, as_card)):
        body = found.sub(said, body)
    return with_names(body)


def page(app, page, template, context, doctree) -> None:
    context["body"] = well_said(context.get("body", ""))
    context["generate_toctree_html"] = with_parts(context["generate_toctree_html"])


def setup(app) -> dict:
    app.connect("html-page-context", page, priority=850)  # after the theme, before what makes light
    return {"parallel_read_safe": True, "parallel_write_safe": True}
