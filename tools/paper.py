"""The pages of the built site as they stand on paper, in the order of _toc.yml.

Left out is what can only be clicked, and the code that the site folds. Folded texts stand open; the
solutions of the exercises come last. A link that leads nowhere is an error.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).resolve().parents[1]
PRESS = {path.name: path.read_text("utf-8") for path in (ROOT / "tools" / "press").iterdir()}
LEFT_OUT = {"explorers"}  # a list of what moves
SOLUTIONS = "solutions"  # the last page, which the site does not have
# What can only be clicked, and the code that the site folds.
CLICKED = ".headerlink, .toctree-wrapper, .genindex-jumpbox, .tag_explorer-blackboard, script, "
CLICKED += ".tag_explorer-training, .hide > summary, .hide > .cell_input"
LATE = ("loading", "decoding")  # what a picture is told on the site
ANSWER = re.compile(r"(the )?(check of \d+ and the )?solution", re.I)
EXERCISE = re.compile(r"^(\d+)\.$")
HEADING = re.compile("^h[1-6]$")


class Page(NamedTuple):
    name: str  # as in _toc.yml
    part: str
    depth: int  # below the root of the book
    article: Tag

    @property
    def slug(self) -> str:
        return self.name.replace("/", "-")

    @property
    def title(self) -> str:
        return self.article.find(HEADING, class_=False).get_text().strip()


def listed(toc: dict) -> Iterator[tuple[str, str, int]]:
    """Name, part and depth of every page, in the order of reading."""

    def below(entries: list, part: str, depth: int) -> Iterator[tuple[str, str, int]]:
        for entry in entries:
            yield entry["file"], part, depth
            yield from below(entry.get("sections", []), part, depth + 1)

    yield toc["root"], "", 0
    for part in toc.get("parts", [toc]):
        yield from below(part["chapters"], part.get("caption", ""), 1)


def parse(html: str) -> BeautifulSoup:
    return BeautifulSoup(html, "html.parser")


def read(site: Path, name: str, part: str, depth: int) -> Page:
    path = site / f"{name}.html"
    if not path.is_file():
        raise ValueError(f"expected the page {name} in {site}, found none; run make book")
    found = re.search(r"<article.*</article>", path.read_text(encoding="utf-8"), re.S)
    return Page(name, part, depth, parse(found[0]).article)


# What becomes of a page on its way to paper.


def unfold(article: Tag) -> None:
    """Open what is folded, and mark the solutions of exercises, with a way there and back."""
    for place, fold in enumerate(article.select("details")):
        words = fold.summary.get_text(" ", strip=True)
        hides = "hide" in fold.get("class", ())
        fold.name, fold.attrs = "div", {"class": ["hide" if hides else "unfolded"]}
        if ANSWER.match(words):
            before = fold.find_previous("strong", string=EXERCISE)
            told = re.findall(r"\d+", words)[-1:] if hides else before and [before.get_text()[:-1]]
            link = f'<a class="numbered" href="#to-{place}">Solution</a>'
            back = f'<a href="#at-{place}">Exercise {"".join(told or [])}</a>'
            whole = fold.find_parent(class_="cell") if hides else fold
            whole.insert_before(parse(f'<p class="answered" id="at-{place}">{link}</p>'))
            fold.summary.decompose()
            fold["class"], whole["class"] = [], ["solution"]
            whole.insert(0, parse(f'<p class="back" id="to-{place}">{back}</p>'))
        elif not hides:
            fold.summary.name = "p"


def drop(article: Tag) -> None:
    for part in article.select(CLICKED):
        if not part.decomposed:
            part.decompose()
    for cell in article.select(".cell"):
        if not cell.get_text(strip=True) and not cell.find("img"):
            cell.decompose()
    for picture in article.select("img"):
        picture.attrs = {key: value for key, value in picture.attrs.items() if key not in LATE}


def address(page: Page, href: str, names: set[str]) -> str | None:
    """Where a link of a page leads: out of the book, to an id in it, or nowhere on paper."""
    if re.match(r"[a-z]+:", href):
        return href
    path, _, anchor = href.partition("#")
    name = posixpath.normpath(posixpath.join(posixpath.dirname(page.name), path))
    name = name.removesuffix(".html") if path else page.name
    if name not in names:
        return None
    slug = name.replace("/", "-")
    return f"#{slug}--{unquote(anchor)}" if anchor and "=" not in anchor else f"#{slug}"


def settle(page: Page, names: set[str]) -> None:
    """Give ids that no other page has, links to them, and headings below that of the part."""
    for tag in page.article.select("[id]"):
        tag["id"] = f"{page.slug}--{tag['id']}"
    page.article["id"] = page.slug
    for link in page.article.select("a[href]"):
        link["href"] = address(page, link["href"], names)
        if link["href"] is None:
            link.unwrap()
        elif page.name == "genindex":
            link.attrs = {"class": "numbered", "href": link["href"]}
    for picture in page.article.select("img"):
        folder = posixpath.dirname(page.name)
        picture["src"] = posixpath.normpath(posixpath.join(folder, picture["src"]))
    for heading in page.article.find_all(HEADING):
        heading.name = f"h{min(6, int(heading.name[1]) + page.depth)}"


def answers(pages: Iterable[Page]) -> Page:
    """The solutions of all pages, taken from them, as a page of its own."""
    article = parse(f'<article id="{SOLUTIONS}"><h1>Solutions</h1></article>').article
    for page in pages:
        if solutions := [found.extract() for found in page.article.select(".solution")]:
            link = f'<a href="#{page.slug}">{escape(page.title)}</a>'
            article.extend([parse(f"<h2>{link}</h2>"), *solutions])
    return Page(SOLUTIONS, "", 0, article)


def places(pages: Iterable[Page]) -> list[tuple[str, str]]:
    """Each id, and the page that has it."""
    ids = ((page, [page.article, *page.article.select("[id]")]) for page in pages)
    return [(tag["id"], page.slug) for page, tags in ids for tag in tags]


def wrong(pages: list[Page]) -> list[str]:
    """The links to places that there are not, and ids that there are twice."""
    ids = Counter(name for name, _ in places(pages))
    links = ((page, a["href"][1:]) for page in pages for a in page.article.select("a[href^='#']"))
    dead = [f"a dead link on {page.name} to {to}" for page, to in links if not ids[to]]
    return dead + [f"{count} places with the id {name}" for name, count in ids.items() if count > 1]


def book(site: Path, toc: dict) -> list[Page]:
    """Every page of the site as it stands on paper, and the solutions."""
    pages = [read(site, *entry) for entry in listed(toc) if entry[0] not in LEFT_OUT]
    names, parts = {page.name for page in pages}, {""}
    for page in pages:
        unfold(page.article)
        drop(page.article)
        settle(page, names)
        if page.part not in parts:
            page.article.insert(0, parse(f'<h1 class="part">{escape(page.part)}</h1>'))
            parts.add(page.part)
    pages.append(answers(pages))
    if found := wrong(pages):
        raise ValueError(f"expected a whole book, got {'; '.join(found[:9])}; mend the pages")
    return pages


def contents(pages: list[Page]) -> str:
    """Parts and pages as lists within lists."""
    html, level = "", -1
    for before, page in zip([None, *pages], pages, strict=False):
        link = f'<a class="numbered" href="#{page.slug}">{escape(page.title)}</a>'
        entries = [(page.depth, link)]
        if page.part and page.part != before.part:
            entries.insert(0, (0, f"<span>{escape(page.part)}</span>"))
        for depth, entry in entries:
            down = "<ol>" if depth > level else "</li>" + "</ol></li>" * (level - depth)
            html, level = f"{html}{down}<li>{entry}", depth
    return html + "</li></ol>" * (level + 1)


def front(config: dict) -> str:
    said = {key: escape(str(config[key])) for key in ("title", "author", "copyright")}
    return PRESS["title.html"].format_map(said)
