"""Pages that are there at once: pictures in a modern format that are loaded when they come into
view, one style sheet and one font with what is used of them, scripts that wait, code without marks
that have no colour. A Sphinx extension.

The scripts of the theme are left out: _static/page.js does what these pages need of them.
"""

import base64
import hashlib
import io
import re
import shutil
from pathlib import Path

import icons
import one_style_sheet
import used_signs
from docutils import nodes
from mathematics import FONT
from PIL import Image
from pygments.formatters import HtmlFormatter
from pygments.token import Name, Number, Operator, Punctuation, Text
from sphinx.highlighting import PygmentsBridge

# Pictures.

PICTURE = re.compile(r'<img\b[^>]*?\bsrc="((?:data:image/png;base64,|[^":]+/)[^"]+)"[^>]*>')
DATA = "data:image/png;base64,"
DOTS = 110  # an inch


def digest(data: bytes) -> str:
    """Of what is in a file: whoever has it under this name, or with this query, has it as it is."""
    return hashlib.sha256(data).hexdigest()[:16]


def webp(png: bytes, folder: Path) -> tuple[str, tuple[int, int]]:
    """Keep a picture without loss in WebP, which takes about 40 % of the bytes: its file's name,
    made from what is in it, and the size at which it is shown. A picture has as many dots an inch
    as its file says, and is shown at those of normbook/page.mplstyle."""
    with Image.open(io.BytesIO(png)) as image:
        path = folder / f"{digest(png)}.webp"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            image.save(path, lossless=True, method=4)
        dots = max(1, round(image.info.get("dpi", (DOTS, DOTS))[0] / DOTS))
        return path.name, (image.width // dots, image.height // dots)


def source(app, address: str) -> bytes | None:
    """The PNG behind the address of a picture in a page."""
    if address.startswith(DATA):
        return base64.b64decode(address.removeprefix(DATA))
    names = {name: uri for uri, name in app.builder.images.items()}
    found = names.get(address.rsplit("/", 1)[-1])
    return Path(app.srcdir, found).read_bytes() if found and found.endswith(".png") else None


def of_any_width(app, doctree) -> None:
    """A notebook keeps the size at which JupyterLab shows a picture. A page may be narrower; and
    for a picture with a size Sphinx adds a link to its file, which is not kept."""
    for image in doctree.findall(nodes.image):
        if "jupyter_execute" in image["uri"]:
            for key in ("width", "height"):
                image.attributes.pop(key, None)


def lighter_pictures(app, page: str, body: str) -> str:
    """With width and height, so that nothing moves when they come. All but the first wait until
    their place is near."""
    up = "../" * page.count("/") + app.builder.imagedir
    seen = 0

    def rewritten(match: re.Match) -> str:
        nonlocal seen
        png = source(app, match[1])
        if png is None:
            return match[0]
        name, (width, height) = webp(png, Path(app.outdir, app.builder.imagedir))
        seen += 1
        later = 'loading="lazy" decoding="async" ' if seen > 1 else ""
        tag = match[0].replace(match[1], f"{up}/{name}")
        return tag.replace("<img ", f'<img width="{width}" height="{height}" {later}', 1)

    return PICTURE.sub(rewritten, body)


# Style sheets and scripts.

THEME = ("basic.css", "styles/bootstrap.css", "styles/pydata-sphinx-theme.css")
# Scripts that a page needs only if it has what they work on.
WORKS_ON = {"ledger.js": 'class="ledger', "clipboard": "<pre"}
WORKS_ON |= {"copybutton": "<pre", "design-tabs.js": "sd-tab-set", "togglebutton": "togglebutton"}
# Jupyter Book puts every script of _static on every page; page.js asks for this one when it is
# needed. Those of Sphinx turn pages by keys and mark words, which this book does not do.
NEVER = {"sphinx-book-theme.js", "/search.js", "doctools.js", "sphinx_highlight.js"}
UNUSED = ("vendor", "scripts", "locales")  # of the theme: its fonts, scripts, translations


def version(folder: Path, names: list[str]) -> str:
    """Of the style sheet that is still to be written: another one when a file of ours changes."""
    own = [(folder / name).read_bytes() for name in names if (folder / name).is_file()]
    return digest(b"\n".join([*own, *map(str.encode, names)]))


def is_needed(script, body: str) -> bool:
    """What is written into a page for the scripts of other books counts as not needed."""
    if not script.filename:
        text = script.attributes.get("body", "")
        return "pagename" not in text and "toggle" not in text
    if any(name in script.filename for name in NEVER):
        return False
    works_on = (mark for name, mark in WORKS_ON.items() if name in script.filename)
    return all(mark in body for mark in works_on)


def defer(script):
    """The same script, run once the page is whole. A copy: another page may want it at once."""
    if not script.filename:
        return script
    return type(script)(
        script.filename, priority=script.priority, **script.attributes, defer="defer"
    )


FORMULA = re.compile(r"([(\[“]*)(<span class=\"math[^>]*>)(.*?</math>)</span>([,.;:!?)\]”]*)", re.S)


def with_signs_around(body: str) -> str:
    """Formulas with the signs beside them in one box: a line would begin with a comma elsewhere."""
    return FORMULA.sub(r"\2\1\3\4</span>", body)


def light_page(app, page, template, context, doctree) -> None:
    body = context.get("body", "")
    context["body"] = lighter_pictures(app, page, with_signs_around(body))
    own = [css.filename.removeprefix("_static/") for css in context["css_files"]]
    app.stylesheets = [*THEME, *own]
    context["stylesheet"] = version(Path(app.srcdir, "_static"), app.stylesheets)
    context["script_files"] = [js for js in context["script_files"] if is_needed(js, body)]
    context["script_files"] = [defer(js) for js in context["script_files"]]


def finish(app, exception) -> None:
    """Write the style sheet, and drop what no page asks for."""
    if exception or app.builder.name != "html":
        return
    static = Path(app.outdir, "_static")
    for folder in UNUSED:
        shutil.rmtree(static / folder, ignore_errors=True)
    for path in [*static.rglob("*.map"), *Path(app.outdir, "_images").glob("*.png")]:
        path.unlink()
    if hasattr(app, "stylesheets"):
        files = list(Path(app.outdir).rglob("*.html"))
        pages = [icons.drawn(path.read_text("utf-8")) for path in files]
        for path, text in zip(files, pages, strict=True):
            path.write_text(text, encoding="utf-8")
        font = static / FONT.name
        used_signs.keep(FONT, used_signs.signs(pages), font)
        script = used_signs.as_script(font, "Book Math")
        Path(f"{font}.js").write_text(script, encoding="utf-8")
        scripts = (p.read_text("utf-8") for p in static.rglob("*.js") if p.stem != font.name)
        known = one_style_sheet.names_in(pages, scripts)
        css = one_style_sheet.keep_needed(one_style_sheet.join(static, app.stylesheets), known)
        (static / "site.css").write_text(css, encoding="utf-8")


# Code.

PLAIN = (Name, Operator, Punctuation, Text)


class Sparse(HtmlFormatter):
    """Names, signs and numbers stay without a mark: most of the elements of code."""

    def _get_css_class(self, token) -> str:
        plain = token in PLAIN or token in Number or token is Text.Whitespace
        return "" if plain else super()._get_css_class(token)


def setup(app) -> dict:
    PygmentsBridge.html_formatter = Sparse
    app.connect("doctree-read", of_any_width)
    app.connect("html-page-context", light_page, priority=900)  # after those of the theme
    app.connect("build-finished", finish, priority=900)  # when the theme has its colours of code
    return {"parallel_read_safe": True, "parallel_write_safe": True}
