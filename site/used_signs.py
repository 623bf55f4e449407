"""The site's font with the signs that its formulas use, and no others."""

import base64
import logging
import re
import unicodedata
from collections.abc import Iterable
from html import unescape
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont

logging.getLogger("fontTools").setLevel(logging.WARNING)  # else it tells each step in a build
FORMULA = re.compile(r"<math\b.*?</math>", re.S)
TAG = re.compile(r"<[^>]+>")
ROOTS = re.compile(r"<m(?:sqrt|root)\b")


def signs(pages: Iterable[str]) -> set[str]:
    """The characters in the formulas of these pages, and the sign of a root, which is no text."""
    formulas = [formula for page in pages for formula in FORMULA.findall(page)]
    written = {sign for formula in formulas for sign in unescape(TAG.sub("", formula))}
    return written | ({"√"} if any(map(ROOTS.search, formulas)) else set())


def italic(sign: str) -> bool:
    """A browser draws a letter that stands alone by its italic form."""
    return sign == "\u210e" or unicodedata.name(sign, "").startswith("MATHEMATICAL ITALIC")


def keep(font: Path, used: set[str], target: Path) -> None:
    """Write the font without the glyphs that neither these characters nor their sizes need."""
    opened = TTFont(font, recalcTimestamp=False)
    known = map(chr, opened.getBestCmap())
    kept = [
        s for s in known if s in used or (italic(s) and unicodedata.normalize("NFKC", s) in used)
    ]
    subsetter = Subsetter(Options(layout_features=[], bidi_closure=False, notdef_outline=True))
    subsetter.populate(unicodes=map(ord, kept))
    subsetter.subset(opened)
    opened.save(target)


def as_script(font: Path, family: str) -> str:
    """A script that gives a page this font at once, as no file of a font does."""
    data = base64.b64encode(font.read_bytes()).decode()
    numbers = f"Uint8Array.from(atob('{data}'), sign => sign.charCodeAt(0))"
    return f"document.fonts.add(new FontFace('{family}', {numbers}));\n"
