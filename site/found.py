"""Pages that can be found: what they are about in a line, a page for addresses that are not there,
and, where the site's own address is configured, the list of its pages. A Sphinx extension.

sphinx-sitemap warns where no address is configured, which would stop the build; the page of
sphinx-notfound-page asks for files by addresses that a folder does not have.
"""

from html import escape
from pathlib import Path

from docutils import nodes
from mathematics import mathml

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


# The site as a whole.


def sitemap(base: str, pages: list[str]) -> str:
    places = "".join(f"<url><loc>{base}/{page}.html</loc></url>\n" for page in sorted(pages))
    frame = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
    return f'<?xml version="1.0" encoding="utf-8"?>\n{frame}\n{places}</urlset>\n'


def whole(app, exception) -> None:
    if exception or app.builder.name != "html":
        return
    out, base = Path(app.outdir), app.config.html_baseurl.rstrip("/")
    said = {"base": base, "project": app.config.html_title, "root": app.config.root_doc}
    (out / "404.html").write_text(app.builder.templates.render("404.html", said), encoding="utf-8")
    if base:
        (out / "sitemap.xml").write_text(sitemap(base, [*app.env.found_docs]), encoding="utf-8")
        (out / "robots.txt").write_text(f"Sitemap: {base}/sitemap.xml\n", encoding="utf-8")


def setup(app) -> dict:
    app.connect("html-page-context", head)
    app.connect("build-finished", whole)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
