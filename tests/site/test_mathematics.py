"""Formulas become MathML when the site is built, drawn in signs of the site's font."""

import string
import unicodedata

import mathematics
import pytest

WRONG = {
    r"\nosuch x": "Unknown command",
    r"\frac{1}{": "end of input",
    r"\left( x": r"\right",
    r"\mathfrak{x}": "U+1D535",
    r"\Big(\frac ab\Big)^2": r"\left(",
    r"a \qquad \nosuch": "Unknown command",
}


@pytest.mark.parametrize("latex", WRONG)
def test_a_wrong_formula_is_told_with_its_reason(latex):
    with pytest.raises(ValueError, match="expected") as raised:
        mathematics.display(latex)
    assert WRONG[latex] in str(raised.value)


def test_the_font_has_the_italic_of_every_letter():
    """A browser draws a letter that stands alone as its mathematical italic."""
    signs = (chr(code) for code in range(0x1D434, 0x1D800))
    named = (s for s in signs if unicodedata.name(s, "").startswith("MATHEMATICAL ITALIC"))
    italics = {unicodedata.normalize("NFKC", sign): sign for sign in named} | {"h": "ℎ"}
    assert set(string.ascii_letters) <= set(italics)
    letters = mathematics.drawable() & set(italics)
    assert {italics[letter] for letter in letters} <= mathematics.drawable()
