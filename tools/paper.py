"""The book on paper: the pages of the built site as one PDF, and as an EPUB.

    python tools/paper.py _build/html pdf

Both are made of the same pages, in the order of _toc.yml: without what can only be clicked, and
without the code that the site folds. Folded texts stand open; the solutions of the exercises come
last. A link that leads nowhere, or a page that is lost on the way, is an error.
"""

import io
import posixpath
import re
import sys
import tempfile
import time
import uuid
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import chromium
import pikepdf
import yaml
from bs4 import BeautifulSoup, Tag
from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
STYLE = ROOT / "tools" / "paper.css"
NAME = "normalization-layers"
LEFT_OUT = {"explorers"}  # a list of what moves
SOLUTIONS = "solutions"  # the last page, which the site does not have
WIDTH = 627  # pixels between the margins of A4; as in paper.css
# What can only be clicked, and the code that the site folds.
CLICKED = ".headerlink, .toctree-wrapper, .genindex-jumpbox, .tag_explorer-blackboard, script, "
CLICKED += ".tag_explorer-training, .hide > summary, .hide > .cell_input"
SCREEN = ("loading", "decoding", "role", "tabindex", "download", "data-board", "data-digits")
ANSWER = re.compile(r"(Show the )?(check of \d+ and the )?solution", re.I)
EXERCISE = re.compile(r"^(\d+)\.$")
HEADING = re.compile("^h[1-6]$")
# A link that the number of its page follows, or takes the place of a mere count.
NUMBERED = re.compile(r'(<a class="numbered" href="#([^"]+)">)(.*?)</a>', re.S)


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
    for tag in article.find_all(True):
        for name in SCREEN:
            tag.attrs.pop(name, None)


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
    dead = [f"a link on {page.name} to {to}, which is not there" for page, to in links if not ids[to]]
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
    base = config["sphinx"]["config"].get("html_baseurl", "")
    site = f'The site, with explorers and all code: <a href="{base}">{base}</a>.' if base else (
        "The site of the book has the explorers, and the code that is folded there and left out here."
    )  # fmt: skip
    licence = "Text and figures: CC BY 4.0. Code: MIT."
    title, author = escape(config["title"]), escape(config["author"])
    return (
        f'<div class="title"><p class="name">{title}</p><p>{author}, {config["copyright"]}</p>'
        f'<p class="imprint">{site} {licence}</p></div>'
    )


# The PDF.


def faces(site: Path) -> str:
    """The fonts: that of the site's formulas, and for the text those that come with matplotlib, so
    that the book is printed alike on every machine."""
    from matplotlib import get_data_path

    fonts, math = Path(get_data_path(), "fonts", "ttf"), site / "_static" / "book-math.woff"
    kinds = {"": "normal", "Bol": "bold", "Italic": "normal; font-style: italic"}
    kinds["BolIta"] = "bold; font-style: italic"
    found = [("Book Math", math, "normal"), ("Book Code", fonts / "DejaVuSansMono.ttf", "normal")]
    found += [("Book", fonts / f"STIXGeneral{k}.ttf", weight) for k, weight in kinds.items()]
    return "".join(
        f'@font-face {{ font-family: "{name}"; src: url("{path.as_uri()}"); font-weight: {weight} }}\n'
        for name, path, weight in found
    )


def heads(page: Page) -> str:
    """The running head of a page of the book: its part, and its title."""
    part, title = (text.replace("\\", "").replace('"', r"\"") for text in (page.part, page.title))
    boxes = f'@top-left {{ content: "{part}" }} @top-right {{ content: "{title}" }}'
    return f"@page {page.slug} {{ {boxes} }} #{page.slug} {{ page: {page.slug} }}\n"


def numbered(html: str, numbers: dict[str, int]) -> str:
    """The text with the number of its page after each link that is to have one. Before the numbers
    are known they have as much room."""

    def link(found: re.Match) -> str:
        start, place, words = found.groups()
        number = f'<span class="number">{numbers.get(place, 888)}</span>'
        count = re.fullmatch(r"\[\d+\]", words)
        return f"{start}{number}</a>" if count else f"{start}{words} {number}</a>"

    return NUMBERED.sub(link, html)


def page_numbers(printed: pikepdf.Pdf, html: str) -> dict[str, int]:
    """On which page of the PDF each place stands whose number is asked for."""
    numbers = {page.objgen: number for number, page in enumerate(printed.pages, 1)}
    found = {str(name)[1:]: numbers[at[0].objgen] for name, at in printed.Root.Dests.items()}
    if lost := {place for _, place, _ in NUMBERED.findall(html)} - {*found}:
        raise ValueError(f"expected in the PDF {', '.join(sorted(lost)[:9])}, found none; mend {STYLE}")
    return found


# What is wider than the page becomes smaller, and what is short stays on one page.
FIT = """width => { for (const box of document.querySelectorAll("table, pre, .math > div")) {
  const room = box.parentElement.clientWidth || width, needed = box.scrollWidth;
  if (needed > room + 1) box.style.fontSize = `${Math.max(0.5, room / needed * 0.99)}em`;
  if (box.offsetHeight < 400) box.style.breakInside = "avoid"; } }"""


def pdf(site: Path, config: dict, pages: list[Page], path: Path) -> str:
    """Print the book twice: the page numbers of the contents are known after the first time."""
    css = faces(site) + STYLE.read_text(encoding="utf-8") + "".join(map(heads, pages))
    start = f'<html lang="en"><meta charset="utf-8"><title>{escape(config["title"])}</title><style>{css}'
    nav = f'<nav><p class="contents">Contents</p>{contents(pages)}</nav>'
    html = "".join([start, "</style>", front(config), nav, *(str(page.article) for page in pages)])
    html = html.replace('src="_images', f'src="{(site / "_images").resolve().as_uri()}')
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        text, numbers = Path(folder, "book.html"), {}
        browser = playwright.chromium.launch(executable_path=chromium.path(), args=["--no-sandbox"])
        sheet = browser.new_page(viewport={"width": WIDTH, "height": 900})
        sheet.emulate_media(media="print")
        for _ in range(2):
            text.write_text(numbered(html, numbers), encoding="utf-8")
            sheet.goto(text.as_uri())
            sheet.evaluate(FIT, WIDTH)
            printed = sheet.pdf(
                prefer_css_page_size=True, print_background=True, outline=True, tagged=True
            )
            with pikepdf.open(io.BytesIO(printed)) as pages:
                numbers = page_numbers(pages, html)
                pages.save(path, object_stream_mode=pikepdf.ObjectStreamMode.generate)
                count = len(pages.pages)
        browser.close()
    return f"{count} pages"


# The EPUB.

PAGE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en">
<head><title>{}</title><link rel="stylesheet" href="paper.css"/></head>
<body>{}</body></html>
"""
CONTAINER = """<?xml version="1.0"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="book/book.opf" media-type="application/oebps-package+xml"/>
</rootfiles></container>
"""
PACKAGE = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="id">urn:uuid:{}</dc:identifier><dc:title>{}</dc:title>
<dc:creator>{}</dc:creator><dc:language>en</dc:language><dc:rights>CC BY 4.0</dc:rights>
<meta property="dcterms:modified">{}</meta></metadata>
<manifest>
{}
</manifest>
<spine>{}</spine></package>
"""
TYPES = {"xhtml": "application/xhtml+xml", "css": "text/css", "woff": "font/woff", "png": "image/png"}
STYLES = ("displaystyle", "scriptlevel")
FACE = '@font-face { font-family: "Book Math"; src: url("book-math.woff"); }\n'


def xhtml(page: Page, homes: dict[str, str]) -> str:
    """A page as a file of its own."""
    for link in page.article.select("a[href^='#']"):
        link["href"] = f"{homes[link['href'][1:]]}.xhtml{link['href']}"
    for formula in page.article.select("math"):
        formula["xmlns"] = "http://www.w3.org/1998/Math/MathML"
        for part in formula.select(", ".join(f":not(mstyle)[{name}]" for name in STYLES)):
            given = {name: part.attrs.pop(name) for name in STYLES if name in part.attrs}
            part.wrap(Tag(name="mstyle", attrs=given))  # where every MathML knows them
    for picture in page.article.select("img"):
        picture["src"] = f"{Path(picture['src']).stem}.png"
    return PAGE.format(escape(page.title), page.article)


def png(path: Path) -> bytes:
    """A picture as every reading device knows it."""
    with Image.open(path) as image:
        image.save(kept := io.BytesIO(), "png", optimize=True)
    return kept.getvalue()


def item(name: str, data: str | bytes) -> str:
    has = "nav" if name == "nav.xhtml" else "mathml" if name.endswith("xhtml") and "<math" in data else ""
    properties = f' properties="{has}"' if has else ""
    kind = TYPES[name.rpartition(".")[2]]
    return f'<item id="file-{name}" href="{name}" media-type="{kind}"{properties}/>'


def epub(site: Path, config: dict, pages: list[Page], path: Path) -> str:
    homes = dict(places(pages))
    nav = re.sub('class="numbered" href="#([^"]+)"', r'href="\1.xhtml"', contents(pages))
    nav = f'<nav epub:type="toc"><h1>Contents</h1>{nav}</nav>'
    pictures = {img["src"] for page in pages for img in page.article.select("img")}
    title, author = escape(config["title"]), escape(config["author"])
    files = {"title.xhtml": PAGE.format(title, front(config)), "nav.xhtml": PAGE.format(title, nav)}
    files |= {f"{page.slug}.xhtml": xhtml(page, homes) for page in pages}
    spine = "".join(f'<itemref idref="file-{name}"/>' for name in files)
    files |= {f"{Path(src).stem}.png": png(site / src) for src in sorted(pictures)}
    files["book-math.woff"] = (site / "_static" / "book-math.woff").read_bytes()
    files["paper.css"] = FACE + STYLE.read_text(encoding="utf-8").partition("@page")[0]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    manifest = "\n".join(item(name, data) for name, data in files.items())
    name = uuid.uuid5(uuid.NAMESPACE_URL, config["title"])
    files["book.opf"] = PACKAGE.format(name, title, author, now, manifest, spine)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        packed.writestr("META-INF/container.xml", CONTAINER)
        for name, data in files.items():
            packed.writestr(f"book/{name}", data)
    return f"{len(pages)} chapters"


MAKERS = {"pdf": pdf, "epub": epub}


def offer(site: Path, root: str) -> None:
    """Say on the first page what there is to take away, with its size."""
    sizes = {kind: (site / f"{NAME}.{kind}") for kind in MAKERS}
    links = [
        f'<a href="{file.name}" download>{kind.upper()} ({file.stat().st_size / 1e6:.0f} MB)</a>'
        for kind, file in sizes.items()
        if file.is_file()
    ]
    path = site / f"{root}.html"
    text = re.sub(r'<p class="editions">.*?</p>', "", path.read_text(encoding="utf-8"))
    said = f'<p class="editions">The book to print or to read offline: {", ".join(links)}.</p>'
    path.write_text(text.replace("</article>", f"{said}</article>"), encoding="utf-8")


def main(site: Path, kind: str) -> None:
    read_yaml = (yaml.safe_load((ROOT / f"_{n}.yml").read_text("utf-8")) for n in ("toc", "config"))
    toc, config = read_yaml
    site = site.resolve()
    path = site / f"{NAME}.{kind}"
    said = MAKERS[kind](site, config, book(site, toc), path)
    offer(site, toc["root"])
    print(f"{path}: {said}, {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
