"""A small book, built once: right pages become what they should, and wrong ones are all named."""

import re
import shutil
import sys

import nbformat
import pytest
import refresh
import run_page
import yaml
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from project import ROOT, run

from normbook.claims import HOLDS, LIMIT

pytestmark = pytest.mark.programs

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
SITE, CODE = "https://book.example/norm", "https://github.com/someone/norm"
CLAIMS = "chapters/claims/rms-normalization"  # one of the book's own pages
CARD = "claims/rms-normalization.ipynb#cell-id=claim-"
INTRO = f"""# A formula in a title: $y$

A first page that says what stands here of $\\hat x$. Above, {{eq}}`one`.

$$
a = b
$$ (one)

```{{cell-picture}} chapters/outputs.ipynb drawn
What *it* shows.
```

A [short claim: holds](chapters/{CARD}002-08), [002-07](chapters/{CARD}002-07), [page](wrong.md).
"""
OUTPUTS = [
    {"text/latex": r"$\displaystyle \hat{x}_{k}$"},
    {"text/markdown": "As Markdown:\n\n$$\ns^2\n$$"},
    {"text/markdown": f"| verdict | claim |\n|---|---|\n| holds | [002-08]({CARD}002-08) |"},
    {"text/latex": r"$\displaystyle \wrongoutput$"},
]
# What is wrong on a page, and what is said of it.
WRONG = {
    r"A $\wronginline$.": r"wrong.md:3: WARNING: in the formula \wronginline: ",
    "$$\n\\wrongdisplay\n$$": r"wrong.md:5: WARNING: in the formula \wrongdisplay: ",
    f"[unknown: holds](chapters/{CARD}000-77)": "expected the id of a claim, got '000-77'",
    "[elsewhere: holds](intro.md#cell-id=claim-002-08)": "claims/rms-normalization, got intro; ",
    f"[open: not checkable here](chapters/{CARD}000-61)": "decides claim 000-61, no page, got",
    f"[otherwise: holds](chapters/{CARD}002-07)": "the verdict on claim 002-07, 'holds, with a",
    f"[no verdict](chapters/{CARD}002-08)": "the verdict on claim 002-08, 'holds'",
    "```{cell-picture} chapters/outputs.ipynb title\n```": "with 0 in outputs.ipynb; it has: drawn",
    f"[bare: holds](chapters/{CARD.replace('cell-id=', '')}002-08)": "write #cell-id=claim-002-08",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of the site, built with the project's own settings and with addresses of its own,
    and what the build said."""
    tree = tmp_path_factory.mktemp("small")
    names = ("tools", "site", "normlib", "normbook", "_static", "_templates", "glossary.md")
    for name in (*names, "references.bib"):
        (tree / name).symlink_to(ROOT / name)
    (tree / CLAIMS).parent.mkdir(parents=True)
    shutil.copy(ROOT / f"{CLAIMS}.ipynb", (tree / CLAIMS).parent)
    shown = [new_code_cell("show()", outputs=[new_output("display_data", d)]) for d in OUTPUTS]
    picture = new_output("display_data", {"image/png": PNG})
    shown.append(new_code_cell("draw()", id="drawn", outputs=[picture]))
    shown[-1].metadata["mystnb"] = {"image": {"alt": "A line."}}
    cells = [new_markdown_cell("# Outputs", id="title"), *shown]
    outputs = new_notebook(cells=cells, metadata=refresh.KERNEL)
    nbformat.write(outputs, tree / "chapters" / "outputs.ipynb")
    (tree / "intro.md").write_text(INTRO)
    (tree / "wrong.md").write_text("\n\n".join(["# Wrong", *WRONG]))
    pages = "".join(f"- file: {page}\n" for page in ("wrong", "chapters/outputs", CLAIMS))
    (tree / "_toc.yml").write_text(f"format: jb-book\nroot: intro\nchapters:\n{pages}")
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    config["sphinx"]["config"]["html_baseurl"] = f"{SITE}/"
    config["sphinx"]["config"]["html_theme_options"]["repository_url"] = CODE
    (tree / "_config.yml").write_text(yaml.safe_dump(config))
    start = "from jupyter_book.cli.main import main; main()"
    said = run(sys.executable, "-c", start, "build", tree, "-q", "-W", "-n", "--keep-going")
    return tree / "_build" / "html", said


@pytest.fixture
def text(built):
    return lambda page: (built[0] / page).read_text("utf-8")


def test_what_is_wrong_stops_the_build_and_is_named_and_what_is_right_is_not(built):
    _, said = built
    lines = [line for line in said.stderr.splitlines() if re.search("WARNING|ERROR", line)]
    assert said.returncode != 0
    assert [part for part in WRONG.values() if not any(part in line for line in lines)] == []
    assert not any("intro.md" in line for line in lines)
    (only,) = [line for line in lines if "outputs.ipynb:" in line]
    assert r"in the formula \displaystyle \wrongoutput: expected LaTeX" in only


def test_formulas_of_pages_and_outputs_are_mathml_and_ask_for_no_script(text):
    intro, outputs = text("intro.html"), text("chapters/outputs.html")
    assert intro.count("<math") >= 2 and 'aria-label="Equation 1">(1)</a>' in intro
    assert outputs.count("<math") == 2 and "$$" not in outputs
    assert "MathJax" not in intro + outputs


def test_a_page_is_described_by_its_first_paragraph_with_the_signs_of_its_formulas(text):
    said = "A first page that says what stands here of x\u0302."
    assert f'<meta name="description" content="{said}' in text("intro.html")


def test_a_page_without_code_shows_the_picture_of_a_cell(text):
    shown = text("intro.html").partition("cell-picture")[2]
    assert 'alt="A line."' in shown and ".webp" in shown and "What <em>it</em>" in shown


def badges(page):
    """The links to claims of a built page: words, address, verdict."""
    for attributes, words in re.findall(r"<a ([^>]*data-verdict=[^>]*)>(.*?)</a>", page, re.S):
        told = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))
        yield re.sub("<[^>]+>", "", words), told["href"], told["data-verdict"]


def test_a_link_to_a_claim_carries_its_verdict_in_a_text_and_in_an_output(text):
    assert [*badges(text("intro.html"))] == [
        ("short claim: holds", f"{CLAIMS}.html#claim-002-08", HOLDS),
        ("002-07", f"{CLAIMS}.html#claim-002-07", LIMIT),
    ]
    href = "claims/rms-normalization.html#claim-002-08"
    assert [*badges(text("chapters/outputs.html"))] == [("002-08", href, HOLDS)]


def test_where_addresses_are_configured_pages_say_them(text):
    page = text(f"{CLAIMS}.html")
    assert f'<link rel="canonical" href="{SITE}/{CLAIMS}.html"' in page
    assert f'href="{CODE}/edit/main/{CLAIMS}.ipynb"' in page
    assert f"mybinder.org/v2/gh/someone/norm/main?urlpath=lab/tree/{CLAIMS}.ipynb" in page
    assert page.count("dispute this verdict") == page.count('<div class="decision"') > 5
    assert f'href="{CODE}/issues/new?title=Dispute%20of%20claim%20' in page
    library, own = (f"{SITE}/{name}" for name in run_page.wheel_names())
    assert f"pip install {library} {own}" in page
