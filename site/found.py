"""Pages that can be found: what they are about in a line, what the search finds by its name, a page
for addresses that are not there, and, where the site's own address is configured, the list of its
pages. A Sphinx extension.

sphinx-sitemap warns where no address is configured, which would stop the build; the page of
sphinx-notfound-page asks for files by addresses that a folder does not have.
"""

import json
from html import escape
from pathlib import Path

import claim_links
import index_words
from docutils import nodes
from docutils.nodes import make_id
from mathematics import mathml

API = "chapters/api"


# What a page is about.


def plain(node: nodes.Node) -> str:
    """The text of a paragraph, its formulas in the signs that they are drawn with."""
    if isinstance(node, nodes.math):
        try:
            signs = "".join(mathml(node.astext(), display=False).itertext())
        except ValueError:  # which the page itself reports
            signs = node.astext()
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


def shorten(text: str, most: int = 160) -> str:
    return text if len(text) <= most else text[:most].rsplit(" ", 1)[0] + " …"


# Pages that Sphinx makes have no text of ours.
MADE = {"genindex": "All terms that the book defines, with the place where each is explained."}


def head(app, page, template, context, doctree) -> None:
    said = MADE.get(page) or shorten(description(doctree))
    if said:
        tag = f'\n<meta name="description" content="{escape(said)}" />'
        context["metatags"] = context.get("metatags", "") + tag


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
