"""Pages that can be found: what others see of a page before they open it, what the search finds by
its name, a page for addresses that are not there, and, where the site's own address is configured,
the list of its pages. A Sphinx extension.
"""

import json
import textwrap
from html import escape
from importlib.resources import files
from pathlib import Path

import claim_links
import index_words
from docutils import nodes
from docutils.nodes import make_id
from mathematics import mathml
from numpy import exp, linspace
from PIL import Image, ImageDraw, ImageFont

CARDS = "_cards"  # pictures that others show beside a link to a page
SIZE = (1200, 630)
INK, BLUE, ORANGE = "#1f2328", "#2f86d1", "#d9730d"
API = "chapters/api"


# What others see of a page.


def plain(node: nodes.Node) -> str:
    """The text of a paragraph, its formulas in the signs that they are drawn with."""
    if isinstance(node, nodes.math):
        signs = "".join(mathml(node.astext(), display=False).itertext())
        return signs.replace("ˆ", "\u0302")  # upon the letter before it
    if isinstance(node, nodes.Text):
        return node.astext()
    return "".join(map(plain, node.children))


def description(doctree) -> str:
    """The first sentences of a page, as one line, without the line of its verification."""
    if doctree is None:
        return ""
    texts = [plain(p) for p in doctree.findall(nodes.paragraph) if "verified" not in p["classes"]]
    return next((" ".join(text.split()) for text in texts if len(text) > 40), "")


def shortened(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " …"


def tags(**said: str) -> str:
    """Elements for the head of a page; without a text there is none."""
    named = {name.replace("__", ":"): text for name, text in said.items() if text}
    kind = {name: "property" if ":" in name else "name" for name in named}
    return "".join(f'\n<meta {kind[n]}="{n}" content="{escape(t)}" />' for n, t in named.items())


def font(size: int) -> ImageFont.FreeTypeFont:
    place = files("matplotlib") / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
    return ImageFont.truetype(str(place), size)


def card(title: str, site: str) -> Image.Image:
    """A page's title above the sign of the book: a bell curve moved to the centre."""
    picture = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(picture)
    lines = textwrap.wrap(title, 26)
    draw.multiline_text((80, 70), "\n".join(lines), INK, font(68), spacing=18)
    x = linspace(-4, 4, 200)
    for color, centre, deviation, width in ((ORANGE, 1.6, 0.45, 5), (BLUE, 0, 0.9, 8)):
        height = 120 * exp(-0.5 * ((x - centre) / deviation) ** 2) * (0.7 if centre else 1)
        draw.line([*zip(970 + 40 * x, 540 - height, strict=True)], color, width, "curve")
    draw.line([(800, 540), (1140, 540)], "#7d8590", 3)
    draw.text((80, 520), site, "#57606a", font(32))
    return picture.quantize(32)


# Pages that Sphinx makes have no text of ours.
MADE = {"genindex": "All terms that the book defines, with the place where each is explained."}


def head(app, page, template, context, doctree) -> None:
    base = app.config.html_baseurl.rstrip("/")
    said, picture = MADE.get(page) or shortened(description(doctree)), ""
    if base and doctree is not None:
        path = Path(app.outdir, CARDS, f"{make_id(page)}.png")
        path.parent.mkdir(exist_ok=True)
        card(context["title"], app.config.project or app.config.html_title).save(path)
        picture = f"{base}/{CARDS}/{path.name}"
    if said:
        context["metatags"] = context.get("metatags", "") + tags(
            description=said,
            og__title=context.get("title", ""),
            og__description=said,
            og__type="article",
            og__url=context.get("pageurl") or "",
            og__image=picture,
            twitter__card="summary_large_image" if picture else "",
        )


# What the search finds by its name.


def by_name(root: Path) -> dict[str, tuple[str, str]]:
    """Claims and functions, with the page and the anchor that each has for good."""
    found = {
        name: (f"chapters/{claim['page']}", f"claim-{name}")
        for name, claim in claim_links.claims(root).items()
        if "page" in claim
    }
    functions = index_words.functions(root / "normlib")
    return found | {name: (API, make_id(f"function-{name}")) for name in functions}


def complete(index: str, names: dict[str, tuple[str, str]]) -> str:
    """The index of the search with these names, and of the words of the book's index the
    definitions alone: every mention of a word would stand before the page on it."""
    start, end = index.index("{"), index.rindex("}") + 1
    known = json.loads(index[start:end])
    pages = {page: number for number, page in enumerate(known["docnames"])}
    terms = {
        entry: [place for place in places if place[1].startswith("term-")]
        for entry, places in known["indexentries"].items()
    }
    known["indexentries"] = {entry: places for entry, places in terms.items() if places}
    for name, (page, anchor) in names.items():
        if page in pages:
            known["indexentries"][name.lower()] = [[pages[page], anchor, True]]
    return index[:start] + json.dumps(known, separators=(",", ":")) + index[end:]


# The site as a whole.


def sitemap(base: str, pages: list[str]) -> str:
    places = "".join(f"<url><loc>{base}/{page}.html</loc></url>\n" for page in sorted(pages))
    frame = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    return f'<?xml version="1.0" encoding="utf-8"?>\n{frame}\n{places}</urlset>\n'


def whole(app, exception) -> None:
    if exception or app.builder.name != "html":
        return
    out, base = Path(app.outdir), app.config.html_baseurl.rstrip("/")
    index = out / "searchindex.js"
    if index.is_file():
        names = by_name(Path(app.srcdir))
        index.write_text(complete(index.read_text("utf-8"), names), encoding="utf-8")
    said = {"base": base, "project": app.config.html_title, "root": app.config.root_doc}
    (out / "404.html").write_text(app.builder.templates.render("404.html", said), encoding="utf-8")
    if base:
        (out / "sitemap.xml").write_text(sitemap(base, [*app.env.found_docs]), encoding="utf-8")
        (out / "robots.txt").write_text(f"Sitemap: {base}/sitemap.xml\n", encoding="utf-8")


def setup(app) -> dict:
    app.connect("html-page-context", head)
    app.connect("build-finished", whole)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
