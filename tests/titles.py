"""The titles of the pages, and where one is quoted: after the word chapter, or as a link's text."""

import re
from pathlib import PurePosixPath

import nbformat
from project import ROOT, TOC, listed

QUOTED = re.compile(r'\bchapters? (?:# )?"([^"]+)"', re.I)  # a comment may break before the title
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^()\s#]+)(?:#[^()\s]*)?\)")


def path_of(page):
    """The file of a page of the contents."""
    notebook = ROOT / f"{page}.ipynb"
    return notebook if notebook.exists() else ROOT / f"{page}.md"


def texts(path):
    """What a file says: of a notebook all cells and what they print."""
    if path.suffix != ".ipynb":
        return [path.read_text(encoding="utf-8")]
    cells = nbformat.read(path, 4).cells
    data = [
        o.get("data", {}) | {"text": o.get("text", "")} for c in cells for o in c.get("outputs", [])
    ]
    printed = [
        text
        for d in data
        for kind, text in d.items()
        if isinstance(text, str) and "image" not in kind
    ]
    return [cell.source for cell in cells] + printed


def titles():
    """The title of every page by its name in the contents."""
    heads = {page: re.search(r"^# (.+)", texts(path_of(page))[0], re.M) for page in listed(TOC)}
    return {page: head[1].strip() for page, head in heads.items() if head}


def target(page, link):
    """The page that a link on another page leads to, if it is one of the book."""
    parts = [*PurePosixPath(page).parent.parts, *PurePosixPath(link).parts]
    while ".." in parts[1:]:
        at = parts.index("..", 1)
        parts[at - 1 : at + 1] = []
    return "/".join(parts).removesuffix(".ipynb").removesuffix(".md")


def wrong_quotes(text, known):
    """The titles that a text quotes, and that no page has."""
    return [
        title for title in QUOTED.findall(" ".join(text.split())) if title not in known.values()
    ]


def wrong_links(page, text, known):
    """The links that call a page by a title that it does not have. A text that begins with a small
    letter, or with an article, is a part of its sentence and no title."""
    for said, link in LINK.findall(text):
        title = known.get(target(page, link), said)
        if said != title and (said in known.values() or re.match(r"(?!The |An? )[A-Z]", said)):
            yield f"{page}: expected {title!r} for {link}, got {said!r}"
