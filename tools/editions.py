"""The book to take away: the pages of the built site as one PDF, and as an EPUB.

    python tools/editions.py _build/html pdf

Chromium prints the PDF; it knows running heads, but no page numbers of other places.
"""

import io
import re
import sys
import tempfile
import time
import uuid
import zipfile
from html import escape
from pathlib import Path

import chromium
import matplotlib
import paper
import pikepdf
import store
import yaml
from bs4 import Tag
from paper import Page
from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ("_toc.yml", "_config.yml")
NAME = "normalization-layers"
FONTS = Path(matplotlib.get_data_path(), "fonts", "ttf")
WIDTH = 627  # pixels between the margins of A4; as in paper.css
PRINTED = {"prefer_css_page_size": True, "print_background": True, "outline": True, "tagged": True}
# A link that the number of its page follows, or takes the place of a mere count.
NUMBERED = re.compile(r'(<a class="numbered" href="#([^"]+)">)(.*?)</a>', re.S)


# The PDF.


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
        raise ValueError(
            f"expected in the PDF {', '.join(sorted(lost)[:9])}, found none; mend paper.css"
        )
    return found


def tidy_outline(file: pikepdf.Pdf) -> None:
    """Fold the outline, and say once what Chromium says twice: a heading that it moved on to the
    next page."""
    with file.open_outline() as outline:
        items = [*outline.root]
        for item in items:
            half = item.title[: len(item.title) // 2]
            item.title, item.is_closed = half if half * 2 == item.title else item.title, True
            items += item.children


def pdf(site: Path, config: dict, pages: list[Page], path: Path) -> str:
    """Print the book until its page numbers are those that it states, which is twice."""
    css = "".join([paper.PRESS["faces.css"], paper.PRESS["paper.css"], *map(heads, pages)])
    css = css.replace("SITE", site.as_uri()).replace("FONTS", FONTS.as_uri())
    title = escape(config["title"])
    head = f'<html lang="en"><meta charset="utf-8"><title>{title}</title><style>{css}</style>'
    nav = f'<nav><p class="contents">Contents</p>{paper.contents(pages)}</nav>'
    html = "".join([head, paper.front(config), nav, *(str(page.article) for page in pages)])
    html = html.replace('src="_images', f'src="{(site / "_images").as_uri()}')
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        text, numbers = Path(folder, "book.html"), {}
        browser = playwright.chromium.launch(executable_path=chromium.path(), args=["--no-sandbox"])
        sheet = browser.new_page(viewport={"width": WIDTH, "height": 900})
        sheet.emulate_media(media="print")
        for _ in range(4):
            text.write_text(numbered(html, numbers), encoding="utf-8")
            sheet.goto(text.as_uri())
            sheet.evaluate(paper.PRESS["fit.js"], WIDTH)
            printed = io.BytesIO(sheet.pdf(**PRINTED))
            with pikepdf.open(printed) as file:
                before, numbers = numbers, page_numbers(file, html)
                tidy_outline(file)
                file.save(path, object_stream_mode=pikepdf.ObjectStreamMode.generate)
                count = len(file.pages)
            if numbers == before:
                break
        browser.close()
    return f"{count} pages"


# The EPUB.

TYPES = {".xhtml": "application/xhtml+xml", ".css": "text/css"}
TYPES |= {".woff": "font/woff", ".png": "image/png"}
MARKS = {"nav": "<nav epub", "mathml": "<math"}  # a property of a file, and what shows it
STYLES = ("displaystyle", "scriptlevel")
FACE = '@font-face { font-family: "Book Math"; src: url("book-math.woff"); }\n'
FACE += (
    "div.math > div { max-width: 100%; padding: 0.15em; overflow-x: auto; overflow-y: hidden; }\n"
)


def file(title: str, body: str) -> str:
    return paper.PRESS["page.xhtml"].format(title=escape(title), body=body)


def xhtml(page: Page, homes: dict[str, str]) -> str:
    """A page as a file of its own."""
    for link in page.article.select("a[href^='#']"):
        link["href"] = f"{homes[link['href'][1:]]}.xhtml{link['href']}"
    for formula in page.article.select("math"):
        formula["xmlns"] = "http://www.w3.org/1998/Math/MathML"
        for part in formula.select("[intent], [arg]"):  # which the schema of EPUB does not know
            part.attrs = {k: v for k, v in part.attrs.items() if k not in ("intent", "arg")}
        for part in formula.select(", ".join(f":not(mstyle)[{name}]" for name in STYLES)):
            given = {name: part.attrs.pop(name) for name in STYLES if name in part.attrs}
            part.wrap(Tag(name="mstyle", attrs=given))  # where every MathML knows them
    for picture in page.article.select("img"):
        picture["src"] = f"{Path(picture['src']).stem}.png"
    return file(page.title, str(page.article))


def png(path: Path) -> bytes:
    """A picture as every reading device knows it."""
    with Image.open(path) as image:
        image.save(kept := io.BytesIO(), "png", optimize=True)
    return kept.getvalue()


def item(name: str, data: str | bytes) -> str:
    kind = TYPES[Path(name).suffix]
    has = [mark for mark, text in MARKS.items() if kind == TYPES[".xhtml"] and text in data]
    properties = f' properties="{has[0]}"' if has else ""
    return f'<item id="file-{name}" href="{name}" media-type="{kind}"{properties}/>'


def epub(site: Path, config: dict, pages: list[Page], path: Path) -> str:
    """Pack the pages as files, with what they need, and say what there is."""
    homes, title = dict(paper.places(pages)), config["title"]
    nav = re.sub('class="numbered" href="#([^"]+)"', r'href="\1.xhtml"', paper.contents(pages))
    pictures = {img["src"] for page in pages for img in page.article.select("img")}
    files = {"title.xhtml": file(title, paper.front(config))}
    files["nav.xhtml"] = file(title, f'<nav epub:type="toc"><h1>Contents</h1>{nav}</nav>')
    files |= {f"{page.slug}.xhtml": xhtml(page, homes) for page in pages}
    spine = "".join(f'<itemref idref="file-{name}"/>' for name in files)
    files |= {f"{Path(src).stem}.png": png(site / src) for src in sorted(pictures)}
    files["book-math.woff"] = (site / "_static" / "book-math.woff").read_bytes()
    files["paper.css"] = FACE + paper.PRESS["paper.css"].partition("@page")[0]
    files["book.opf"] = paper.PRESS["book.opf"].format(
        id=uuid.uuid5(uuid.NAMESPACE_URL, title),
        title=escape(title),
        author=escape(config["author"]),
        now=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        manifest="\n".join(item(*entry) for entry in files.items()),
        spine=spine,
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        packed.writestr("META-INF/container.xml", paper.PRESS["container.xml"])
        for name, data in files.items():
            packed.writestr(f"book/{name}", data)
    return f"{len(pages)} chapters"


MAKERS = {"pdf": pdf, "epub": epub}


def offer(site: Path, root: str) -> None:
    """Say on the first page what there is to take away, with its size."""
    there = {kind: path for kind in MAKERS if (path := site / f"{NAME}.{kind}").is_file()}
    links = ", ".join(
        f'<a href="{path.name}" download>{kind.upper()} ({path.stat().st_size / 1e6:.0f} MB)</a>'
        for kind, path in there.items()
    )
    said = f'<p class="editions">The book to print, or to read elsewhere: {links}.</p>'
    first = site / f"{root}.html"
    text = re.sub(r'<p class="editions">.*?</p>', "", first.read_text(encoding="utf-8"))
    store.write(first, text.replace("</article>", f"{said}</article>"))


def main(site: Path, kind: str) -> None:
    toc, config = (yaml.safe_load((ROOT / name).read_text("utf-8")) for name in SETTINGS)
    path = site / f"{NAME}.{kind}"
    try:
        if kind == "pdf" and not chromium.path():
            raise ValueError("expected Chromium, found none; on Debian: apt install chromium")
        said = MAKERS[kind](site, config, paper.book(site, toc), path)
    except ValueError as wrong:
        sys.exit(f"editions: {wrong}")
    offer(site, toc["root"])
    print(f"{path}: {said}, {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2])
