"""Mathematics as MathML, made when the site is built: a page needs no script to show a formula.

A Sphinx extension. A formula that cannot be converted, or that needs a sign which the site's font
does not have, is a warning that names page and formula, and `make book` stops at it.
"""

import re
from collections.abc import Callable
from functools import cache
from html import escape, unescape
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring, tostring

from docutils import nodes
from fontTools.ttLib import TTFont
from math_core import LatexError, LatexToMathML
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

FONT = Path(__file__).resolve().parents[1] / "_static" / "book-math.woff"
MAKER = "site/mathematics_font.py"
TALL = {"mfrac", "mtable", "munder", "munderover"}  # what parentheses grow with
SMALL = {"⊙", "⊗", "⊕"}  # Firefox takes them for sums
SCRIPTS = {"msub", "msup", "msubsup"}
BARS = {"\u0332", "¯"}  # math-core writes an overline as a line below
BREAK = r"\qquad"  # stands between formulas; where a page is narrow, a new line begins there
NUMBERED = re.compile(r"\\(begin|end)\{(align|equation|gather)\}")  # numbers are Sphinx's
NAMED = re.compile(r"&(?!(amp|lt|gt|quot|apos);)\w+;")

convert = LatexToMathML(fancy_error=False).convert_with_local_state
logger = logging.getLogger(__name__)


@cache
def drawable() -> set[str]:
    """The characters that the site's font has."""
    return set(map(chr, TTFont(FONT).getBestCmap()))


def check_signs(formula: Element) -> None:
    missing = set("".join(formula.itertext())) - drawable()
    if missing:
        got = " ".join(f"{sign} (U+{ord(sign):04X})" for sign in sorted(missing))
        raise ValueError(f"expected signs of the site's font, got {got}; try {MAKER}")


def settle_signs(formula: Element) -> None:
    """Say what a browser would decide otherwise."""
    for sign in formula.iter("mo"):
        if sign.text in SMALL:
            sign.set("largeop", "false")
        if sign.get("minsize") == "1.2em":  # \big, hardly larger
            sign.attrib = {"stretchy": "false"}


def settle_delimiters(formula: Element) -> None:
    """Let only those delimiters grow that have to: Chromium makes room for the largest of a kind.

    One that carries an exponent by itself does not grow there at all.
    """
    for row in formula.iter("mrow"):
        if not any(part.tag in TALL for part in row.iter()):
            for sign in row.findall("mo"):
                sign.attrib.setdefault("stretchy", "false")
    if any(script[0].get("minsize") for script in formula.iter() if script.tag in SCRIPTS):
        raise ValueError(r"expected \left( and \right) where an exponent follows, got \Big")


def drop_empty_rows(formula: Element) -> None:
    """Take an upright letter out of the row in which it stands beside an empty space: of a long
    page a tenth of the formulas' elements."""
    for parent in [*formula.iter()]:
        for place, row in enumerate(parent):
            if row.tag == "mrow" and len(row) == 2 and row[0].tag == "mspace" and not row[0].attrib:
                row[1].tail = row.tail
                parent[place] = row[1]


def say_means(formula: Element) -> None:
    """Let a bar be read as a mean, which it is but upon weights: W̄ has been divided by its norm."""
    for over in formula.iter("mover"):
        if over[1].text in BARS and not {"W", "w"} & {*"".join(over[0].itertext())}:
            over.set("intent", "mean($x)")
            over[0].set("arg", "x")


def mathml(latex: str, *, display: bool) -> Element:
    """A formula as MathML, or a ValueError that says what is wrong with it."""
    try:
        text = convert(NUMBERED.sub(r"\\\1{\2*}", latex), displaystyle=display)
    except LatexError as error:
        raise ValueError(f"expected LaTeX that math-core knows, got at character {error}") from None
    # XML has five named characters, HTML has all; U+FE00 chooses between two script alphabets,
    # of which the font has one.
    formula = fromstring(NAMED.sub(lambda name: unescape(name[0]), text).replace("\ufe00", ""))
    for step in (check_signs, settle_signs, settle_delimiters, drop_empty_rows, say_means):
        step(formula)
    return formula


def inline(latex: str) -> str:
    return tostring(mathml(latex, display=False), "unicode")


def display(latex: str) -> str:
    """A display as the formulas of which it consists, each in a box that can scroll."""
    try:
        parts = [mathml(part, display=True) for part in latex.split(BREAK) if part.strip()]
    except ValueError:  # wrong, or split within braces
        parts = [mathml(latex, display=True)]
    return "".join(f"<div>{tostring(part, 'unicode')}</div>" for part in parts)


def markup(node: nodes.Element, render: Callable[[str], str]) -> str:
    latex = node.astext().strip()
    try:
        return render(latex)
    except ValueError as wrong:
        logger.warning("in the formula %s: %s", latex, wrong, location=node)
        return escape(latex)


def open_box(self: HTML5Translator, node: nodes.Element, tag: str) -> None:
    """The box of a formula keeps what was typed, for those who copy it (page.js)."""
    typed = {"data-tex": node.astext().strip()}
    self.body.append(self.starttag(node, tag, "", CLASS="math notranslate", **typed))


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    open_box(self, node, "span")
    self.body.append(markup(node, inline) + "</span>")
    raise nodes.SkipNode


def visit_display(self: HTML5Translator, node: nodes.math_block) -> None:
    open_box(self, node, "div")
    self.body.append(markup(node, display))
    if node.get("number"):
        number, at = get_node_equation_number(self, node), node["ids"][0]
        self.body.append(
            f'<a class="eqno" href="#{at}" aria-label="Equation {number}">({number})</a>'
        )
    self.body.append("</div>\n")
    raise nodes.SkipNode


def number_displays(app, doctree: nodes.document) -> None:
    """On every page from 1, so that each can be quoted: page.html#eq-1. Sphinx counts those with an
    id (figure_numbers.py lets it begin anew on each page)."""
    for count, node in enumerate(doctree.findall(nodes.math_block), 1):
        node["number"] = count
        node["ids"] = node["ids"] or [f"eq-{count}"]


def setup(app) -> dict:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    app.connect("doctree-read", number_displays)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
