"""Formulas become MathML when the site is built, drawn in signs of the site's font."""

import shutil
import string
import sys
import unicodedata

import mathematics
import mathematics_font
import nbformat
import pytest
import refresh
import run_page
import sympy as sp
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from project import ROOT, run

pytestmark = pytest.mark.programs

A, B, MU, GAMMA, VAR = sp.symbols(r"a b mu gamma \sigma^{2}", positive=True)
i, j, k, m = sp.symbols("i j k m", integer=True, positive=True)
X, D, XHAT = (sp.IndexedBase(name) for name in ("x", "dy", r"\hat{x}"))
F, W, V = sp.Function("f"), sp.MatrixSymbol("W", m, m), sp.MatrixSymbol("v", m, 1)
LOSS = sp.Symbol(r"\frac{\partial L}{\partial x_i}")
MEAN = sp.Sum(X[i], (i, 1, m)) / m
INNER = sp.Sum(D[j] * XHAT[j], (j, 1, m)) / m
DERIVED = [
    MEAN,
    sp.Sum((X[i] - MU) ** 2, (i, 1, m)) / m,
    sp.Eq(LOSS, GAMMA / sp.sqrt(VAR + A) * (D[k] - MEAN - XHAT[k] * INNER)),
    sp.Sum(sp.KroneckerDelta(i, k) * D[i], (i, 1, m)),
    sp.Derivative(F(A, B), A, (B, 2)),
    sp.Piecewise((A, A > 0), (0, True)),
    sp.Matrix([[A, B], [0, 1]]),
    sp.Trace(W * V * V.T),
    sp.Inverse(W) * sp.OneMatrix(m, 1) + sp.ZeroMatrix(m, 1),
    sp.Integral(sp.exp(-(A**2) / 2), (A, -sp.oo, sp.oo)),
    sp.Product(X[i], (i, 1, m)),
    sp.Max(A, B) + sp.Abs(A - B) + sp.floor(A) + sp.ceiling(B) + sp.sign(A),
    sp.log(A) + sp.tanh(B) + sp.erf(A) + sp.factorial(m) + sp.binomial(m, k),
    sp.Ne(A, B) & (A <= 1),
    sp.Mod(i, 3) + sp.root(A, 3) + sp.Float("1.5e-10") - sp.Rational(1, 3) * A,
    sp.Interval(0, 1, left_open=True),
    sp.Lambda(A, A**2),
    sp.symbols("alpha_1^2 xbar xhat xtilde xdot xprime eps_10"),
]


@pytest.mark.parametrize("expression", DERIVED, ids=lambda expression: str(expression)[:40])
def test_what_sympy_writes_is_converted(expression):
    for display in (True, False):
        assert len(mathematics.mathml(sp.latex(expression), display=display))


WRONG = {
    r"\nosuch x": "Unknown command",
    r"\frac{1}{": "end of input",
    r"\left( x": r"\right",
    r"x}": "Unmatched",
    r"a & b": "&",
    r"\begin{foo}x\end{foo}": "Unknown environment",
    r"\mathfrak{x}": "U+1D535",
    r"\text{naïve}": "U+00EF",
    r"\Big(\frac ab\Big)^2": r"\left(",
    r"a \qquad \nosuch": "Unknown command",
}


@pytest.mark.parametrize("latex", WRONG)
def test_a_wrong_formula_is_told_with_its_reason(latex):
    with pytest.raises(ValueError, match="expected") as raised:
        mathematics.display(latex)
    assert WRONG[latex] in str(raised.value)


def test_a_display_may_break_between_formulas_and_not_within_one():
    assert mathematics.display(r"a, \qquad b, \qquad\qquad c").count("<math") == 3
    assert mathematics.display(r"\begin{aligned} a \qquad b \end{aligned}").count("<math") == 1


def parentheses(latex):
    return {sign.get("stretchy") for sign in mathematics.mathml(latex, display=True).iter("mo")}


def test_delimiters_grow_around_what_is_tall_and_only_there():
    assert parentheses(r"\left(\frac ab\right)") == {None}
    assert parentheses(r"\left(x\right)") == parentheses(r"\big(x\big)") == {"false"}


def test_script_letters_and_products_are_drawn_alike_in_every_browser():
    assert "ℒ" in mathematics.inline(r"\mathcal L")  # without a choice between two alphabets
    assert 'largeop="false"' in mathematics.inline(r"a \odot b")


def test_an_environment_with_numbers_leaves_them_to_sphinx():
    assert "(1)" not in mathematics.display(r"\begin{align}a &= b\end{align}")


def test_the_font_has_the_characters_that_its_maker_lists():
    listed = {chr(code) for code in mathematics_font.characters()}
    assert {sign for sign in listed if unicodedata.name(sign, "")} == mathematics.drawable()


def test_the_font_has_the_italic_of_every_letter():
    """A browser draws a letter that stands alone as its mathematical italic."""
    signs = (chr(code) for code in range(0x1D434, 0x1D800))
    named = (s for s in signs if unicodedata.name(s, "").startswith("MATHEMATICAL ITALIC"))
    italics = {unicodedata.normalize("NFKC", sign): sign for sign in named} | {"h": "ℎ"}
    assert set(string.ascii_letters) <= set(italics)
    letters = mathematics.drawable() & set(italics)
    assert {italics[letter] for letter in letters} <= mathematics.drawable()


def shown(**data):
    """A cell whose output is this."""
    return new_code_cell("show()", outputs=[new_output("display_data", data=data)])


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The folder of a small book with right and wrong formulas, and what its build said."""
    tree = tmp_path_factory.mktemp("book")
    parts = ("_config.yml", "_static", "_templates", "tools", *run_page.PARTS)
    for name in parts:
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tree / name)
    shutil.copytree(ROOT / "normbook" / "claims", tree / "normbook" / "claims")
    cells = [
        new_markdown_cell("# Outputs"),
        shown(**{"text/latex": r"$\displaystyle \hat{x}_{k}$"}),
        shown(**{"text/markdown": "As Markdown:\n\n$$\ns^2\n$$"}),
        shown(**{"text/latex": r"$\displaystyle \wrongoutput$"}),
    ]
    nbformat.write(new_notebook(cells=cells, metadata=refresh.KERNEL), tree / "outputs.ipynb")
    pages = {
        "intro.md": "# Right $y$\n\nAbove, {eq}`one`.\n\n$$\na = b\n$$ (one)\n",
        "wrong.md": "# Wrong\n\nA $\\wronginline$.\n\n$$\n\\wrongdisplay\n$$\n",
        "_toc.yml": "format: jb-book\nroot: intro\nchapters:\n- file: wrong\n- file: outputs\n",
        "glossary.md": "",
        "references.bib": "",
    }
    for name, text in pages.items():
        (tree / name).write_text(text)
    start = "from jupyter_book.cli.main import main; main()"
    return tree, run(sys.executable, "-c", start, "build", tree, "-q", "-W", "-n", "--keep-going")


def test_a_wrong_formula_stops_the_build_and_is_named_with_its_page(book):
    _, result = book
    assert result.returncode != 0
    said = [line for line in result.stderr.splitlines() if "WARNING" in line]
    places = {"inline": "wrong.md:3", "display": "wrong.md:5", "output": "outputs.ipynb"}
    assert len(said) == len(places), result.stderr
    for where, place in places.items():
        assert any(place in line and rf"\wrong{where}:" in line for line in said), said


def test_formulas_of_pages_and_outputs_are_mathml_and_ask_for_no_script(book):
    html = book[0] / "_build" / "html"
    intro, outputs = ((html / f"{p}.html").read_text() for p in ("intro", "outputs"))
    assert intro.count("<math") >= 2 and '<span class="eqno">(1)' in intro
    assert outputs.count("<math") == 2 and "$$" not in outputs
    assert "MathJax" not in intro + outputs
