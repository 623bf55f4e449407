"""A page is called by the title that it has, wherever another page or a docstring names it."""

import re
from pathlib import PurePosixPath

import nbformat
from project import ROOT, TOC, listed

QUOTED = re.compile(r'\bchapters? (?:# )?"([^"]+)"', re.I)  # a comment may break before the title
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^()\s#]+)(?:#[^()\s]*)?\)")
PAGES = listed(TOC)
FOLDERS = ("normlib", "normbook", "tools", "site", "tests")
FILES = [p for f in FOLDERS for kind in ("py", "toml") for p in (ROOT / f).rglob(f"*.{kind}")]
FILES = [*ROOT.glob("*.md"), *(path for path in FILES if path.name != "test_titles.py")]


def said(page):
    """What a page says: of a notebook all cells and what they print."""
    if (page_ := ROOT / f"{page}.md").exists():
        return page_.read_text(encoding="utf-8")
    cells = nbformat.read(ROOT / f"{page}.ipynb", 4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    data = [output.get("data", {}) | {"text": output.get("text", "")} for output in outputs]
    printed = [
        v for d in data for kind, v in d.items() if isinstance(v, str) and "image" not in kind
    ]
    return "\n\n".join([*(cell.source for cell in cells), *printed])


SAID = {page: said(page) for page in PAGES}
TITLES = {page: re.search(r"^# (.+)", text, re.M)[1].strip() for page, text in SAID.items()}


def wrong_quotes(text):
    """The titles that a text quotes, and that no page has."""
    return [t for t in QUOTED.findall(" ".join(text.split())) if t not in TITLES.values()]


def target(page, link):
    """The page that a link on another page leads to, if it is one of the book."""
    parts = [*PurePosixPath(page).parent.parts, *PurePosixPath(link).parts]
    while ".." in parts[1:]:
        at = parts.index("..", 1)
        parts[at - 1 : at + 1] = []
    return "/".join(parts).removesuffix(".ipynb").removesuffix(".md")


def wrong_links(page, text):
    """The links that call a page by a title that it does not have. A text that begins with a small
    letter, or with an article, is a part of its sentence and no title."""
    for words, link in LINK.findall(text):
        title = TITLES.get(target(page, link), words)
        if words != title and (words in TITLES.values() or re.match(r"(?!The |An? )[A-Z]", words)):
            yield f"{page}: expected {title!r} for {link}, got {words!r}"


def test_every_page_has_a_short_title_of_its_own():
    assert len({*TITLES.values()}) == len(PAGES)
    assert [t for t in TITLES.values() if len(t) > 45 or t.endswith(("?", "."))] == []


def test_pages_code_and_documents_call_a_page_by_its_title():
    files = {str(path): path.read_text(encoding="utf-8") for path in FILES}
    assert {
        name: wrong for name, text in (SAID | files).items() if (wrong := wrong_quotes(text))
    } == {}
    assert [line for page, text in SAID.items() for line in wrong_links(page, text)] == []
