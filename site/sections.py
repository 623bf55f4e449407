"""The search: an index of the book's sections, made from the pages as they are built. A Sphinx
extension, in the place of Sphinx's own index of pages and of the scripts that read it.

A section is found by its heading, its page's title and its prose; so is a row of a table of
symptoms, a claim, a function and a term. Code and displayed formulas are no prose. The index is a
script, since a page in a folder may read no other file; _static/search.js asks for it and answers.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from string import ascii_letters, digits

from bs4 import BeautifulSoup, SoupStrainer, Tag
from docutils.nodes import make_id

INDEX = "search-index.js"
SYNONYMS = Path(__file__).with_name("synonyms.toml")
ASKED = Path(__file__).with_name("asked.toml")
SHOWN = 80  # characters of prose that are kept as they stand; of the rest the words alone
NOT_READ = {"404", "genindex", "index", "references", "report", "search"}
ARTICLE = SoupStrainer("article", class_="bd-article")
NO_PROSE = (
    "button, cite, nav, pre, script, style, summary:not(.ledger summary), svg, "
    "figcaption .headerlink, .headerlink, "
    ".cell_input, .verified, .toctree-wrapper, .eqno, div.math, dialog, .decision details"
)
BLOCKS = ["br", "caption", "dd", "div", "figcaption", "h1", "h2", "h3", "h4", "li", "p", "td", "th"]
HEADING = re.compile("h[1-4]")

# Tables of symptoms: their rows get anchors from their words. Behind a fold they stand once more.
SYMPTOMS = re.compile(
    r"<table\b[^>]*>\s*<thead>\s*<tr\b[^>]*><th\b[^>]*><p>(?:what you see|finding)<.*?</table>",
    re.S | re.I,
)
ROW = re.compile(r'<tr class="(row-\w+)">(<td><p>(.*?)</p>)', re.S)


def with_anchors(body: str) -> str:
    seen = set()

    def row(match: re.Match) -> str:
        name = f"symptom-{make_id(unescape(re.sub('<[^>]+>', '', match[3])))[:60].rstrip('-')}"
        if name in seen:
            return match[0]
        seen.add(name)
        return f'<tr class="{match[1]}" id="{name}">{match[2]}'

    return SYMPTOMS.sub(lambda table: ROW.sub(row, table[0]), body)


def text(*parts: Tag | None) -> str:
    return " ".join("".join(part.get_text() for part in parts if part).split())


def taken(soup: Tag) -> Iterator[tuple[str, str, str, str]]:
    """What has a place of its own, taken out of a page: kind, anchor, heading, prose."""
    for row in soup.select("tr[id^=symptom-]"):
        first, *rest = row.find_all("td")
        yield "symptom", row["id"], text(first), text(*rest)
        row.decompose()
    for card in soup.select("[id^=claim-]"):
        name, said = card["id"].removeprefix("claim-"), card.find("q")
        yield "claim", card["id"], name, text(said, card.find("strong"))
        card.decompose()
    for row in soup.select('table.ledger tr[id][data-page=""]'):  # which no card decides
        yield "claim", row["id"], row["id"], text(row.summary, row.find_all("td")[-1])
        row.decompose()
    for term in soup.select("dt[id^=term-]"):
        yield "term", term["id"], text(term), text(term.find_next_sibling("dd"))
        term.find_next_sibling("dd").decompose()
        term.decompose()
    for head in soup.select("p[id^=function-]"):
        about = [p for p in head.find_next_siblings(limit=1)]
        name = head.get_text().partition("(")[0]
        yield "function", head["id"], name, text(*about)
    for section in reversed(soup.select("section[id]")):  # the inner ones first
        head = section.find(HEADING)
        if head is None:
            continue
        heading = text(head)
        kind = "page" if head.name == "h1" else "section"
        head.decompose()
        yield kind, section["id"], heading, text(section)
        section.decompose()


def sections(page: str) -> list[tuple[str, str, str, str]]:
    """The sections of a page and what else is found in it, in no order."""
    soup = BeautifulSoup(page, "html.parser", parse_only=ARTICLE)
    for part in soup.select(NO_PROSE):
        part.decompose()
    for block in soup.find_all(BLOCKS):
        block.append(" ")
    return [*taken(soup)]


# The index.

# A name in code, a word, and what has a digit but is no number.
WORD = re.compile(r"[^\W\d]+_\w*[^\W_]|[^\W\d_]{3,}|[^\W_]*\d[^\W_]*[^\W\d_]+[^\W_]*")
COMMON = 1 / 12  # of the sections: a word that more of them have finds none of them
# What stands there is found at its own place: claims, exercises.
HELD_ELSEWHERE = {"all-claims", "errors-and-misprints", "the-exercises-of-the-pages", "exercises"}


def cut(prose: str) -> tuple[str, list[str]]:
    """The beginning of a text, and the words of the rest, each once."""
    if len(prose) <= SHOWN:
        return prose, []
    start = prose[:SHOWN].rsplit(" ", 1)[0]
    seen = {*WORD.findall(start.lower())}
    rest = dict.fromkeys(WORD.findall(prose[len(start) :].lower()))
    return f"{start} …", [word for word in rest if word not in seen]


LETTERS = ascii_letters + digits + "+-"


def code(number: int) -> str:
    """Two letters for a number below 4,096."""
    return LETTERS[number // 64] + LETTERS[number % 64]


def index(folder: Path) -> dict:
    """The index of the pages in a folder: of each its address and title; of each section the number
    of its page, kind, anchor, heading, the beginning of its prose, and what people ask. `rest` has
    a line for each, of the places in `words` of its other words: apart, it packs better."""
    pages, units, rests, counts = [], [], [], Counter()
    for path in sorted(folder.rglob("*.html")):
        page = path.relative_to(folder).with_suffix("").as_posix()
        found = [] if page in NOT_READ else sections(path.read_text(encoding="utf-8"))
        titles = [heading for kind, _, heading, _ in found if kind == "page"]
        if not titles:
            continue
        for kind, anchor, heading, prose in found:
            shown, rest = cut(prose)
            rest = [] if anchor in HELD_ELSEWHERE else rest
            counts.update(rest)
            units.append([len(pages), kind, anchor, heading, shown])
            rests.append(rest)
        pages.append([page, titles[0]])
    words = [word for word, count in counts.most_common() if count < COMMON * len(units)]
    place = {word: code(number) for number, word in enumerate(words)}
    lines = ["".join(place.get(word, "") for word in rest) for rest in rests]
    synonyms = tomllib.loads(SYNONYMS.read_text(encoding="utf-8"))
    asked = tomllib.loads(ASKED.read_text(encoding="utf-8"))
    for unit in units:
        unit += filter(None, [asked.get(pages[unit[0]][0], {}).get(unit[2])])
    found = {"pages": pages, "units": units, "rest": "\n".join(lines)}
    return found | {"words": " ".join(words), "letters": LETTERS} | synonyms


def as_script(found: dict) -> str:
    return (
        f"globalThis.searchIndex={json.dumps(found, ensure_ascii=False, separators=(',', ':'))};\n"
    )


# In the place of Sphinx's.


def without_sphinx(app) -> None:
    app.builder.search = False  # makes an index of pages, and a page that reads it


def page(app):
    yield "search", {}, "search.html"


def anchors(app, page, template, context, doctree) -> None:
    context["body"] = with_anchors(context.get("body", ""))


def finish(app, exception) -> None:
    if not exception and app.builder.name == "html":
        static = Path(app.outdir, "_static")
        for name in ("searchtools.js", "language_data.js", "doctools.js", "sphinx_highlight.js"):
            (static / name).unlink(missing_ok=True)
        (static / INDEX).write_text(as_script(index(Path(app.outdir))), encoding="utf-8")


def setup(app) -> dict:
    app.connect("builder-inited", without_sphinx)
    app.connect("html-collect-pages", page)
    app.connect("html-page-context", anchors, priority=600)
    app.connect("build-finished", finish, priority=950)  # once the style sheet has read the scripts
    return {"parallel_read_safe": True, "parallel_write_safe": True}
