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
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import icons
import numpy as np
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
ALT = re.compile(r'\balt="[^"]*"')
DATA = "data:image/png;base64,"
DOTS = 110  # an inch


def digest(data: bytes) -> str:
    """Of what is in a file: whoever has it under this name, or with this query, has it as it is."""
    return hashlib.sha256(data).hexdigest()[:16]


def runs(marked: np.ndarray, least: int) -> list[tuple[int, int]]:
    """Where a row of marks is set for at least so many, from and to."""
    edges = np.flatnonzero(np.diff(np.r_[0, marked.astype(int), 0])).reshape(-1, 2)
    return [(start, end) for start, end in edges.tolist() if end - start >= least]


def panels(image: Image.Image) -> list[tuple[int, int]]:
    """Where the panels that stand side by side begin, and where their axes do: behind the axis
    before, the first strip wider than a space that is empty from top to bottom. One, if there
    are two axes without such a strip between them."""
    pixels = np.asarray(image.convert("RGB"))
    axes = max((runs(row, pixels.shape[1] // 7) for row in pixels.max(-1) < 90), key=len)
    empty = runs((pixels == pixels[0, 0]).all(axis=(0, 2)), 14)
    strips = [
        [((a + b) // 2, start) for a, b in empty if end - 4 < a and b < start + 4]
        for (_, end), (start, _) in pairwise(axes)
    ]
    first = (0, axes[0][0] if axes else 0)
    return [first, *(strip[0] for strip in strips)] if all(strips) else [first]


class Piece(NamedTuple):
    """A part of a picture, and what it needs of the page in its own points."""

    file: str
    width: int
    height: int
    scale: bool  # not a panel: the scale of the first, for the one behind it that has none


def webp(png: bytes, folder: Path) -> list[Piece]:
    """Keep a picture without loss in WebP, which takes about 40 % of the bytes, in pieces that a
    phone can show one below the other. A picture has as many dots an inch as its file says, and
    is shown at those of normbook/page.mplstyle."""
    with Image.open(io.BytesIO(png)) as image:
        dots = max(1, round(image.info.get("dpi", (DOTS, DOTS))[0] / DOTS))

        def piece(left: int, right: int, scale: bool = False) -> Piece:
            path = folder / f"{digest(png)}-{left}-{right}.webp"
            if not path.exists():
                folder.mkdir(parents=True, exist_ok=True)
                image.crop((left, 0, right, image.height)).save(path, lossless=True, method=4)
            width = right // dots - left // dots
            return Piece(path.name, width, image.height // dots, scale)

        pieces, found = [], panels(image)
        for (left, axis), (right, _) in pairwise([*found, (image.width, 0)]):
            bare = left > 0 and axis - left < 12 * dots
            pieces += [piece(0, found[0][1], scale=True)] if bare else []
            pieces.append(piece(left, right))
        return pieces


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
        pieces = webp(png, Path(app.outdir, app.builder.imagedir))
        seen += 1
        later = 'loading="lazy" decoding="async" ' if seen > 1 else ""
        tags, lines, whole = [], [], sum(p.width for p in pieces if not p.scale)
        for n, p in enumerate(pieces):
            # On a phone: in a line of its own, or behind the scale.
            behind = pieces[n - 1] if n and pieces[n - 1].scale else None
            beside = pieces[n + 1] if p.scale else behind
            lines.append(p.width + (beside.width if beside else 0))
            wide = f"width: {100 * p.width / whole:.3f}%; "
            narrow = f"--narrow: min({99.9 * p.width / lines[-1]:.1f}%, {p.width}px)"
            style = f'style="{wide}{narrow}" ' if len(pieces) > 1 else ""
            style += 'class="scale" ' if p.scale else ""
            tag = match[0].replace(match[1], f"{up}/{p.file}")
            tag = ALT.sub('alt="(the picture goes on)"', tag) if tags else tag
            size = f'<img width="{p.width}" height="{p.height}" {style}{later}'
            tags.append(tag.replace("<img ", size, 1))
        if len(pieces) == 1:
            return tags[0]
        style = f"width: {whole}px; --line: {max(lines)}px"
        return f'<span class="panels" style="{style}">{"".join(tags)}</span>'

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
