"""A page is found by what it says of itself, and by the names that the search knows."""

import json
import shlex
import shutil
import sysconfig

import found
import pytest
import run_page
from docutils import nodes
from project import ROOT, run

pytestmark = pytest.mark.programs

CODE = "https://github.com/someone/norm"


def test_a_description_is_the_first_paragraph_and_not_the_line_of_its_verification():
    line = nodes.paragraph(text="Verified on 1 January 2026, says this line.", classes=["verified"])
    said = nodes.paragraph(text="The gradient of\nthe layer has lost two of its directions.")
    assert found.description(nodes.section("", line, said)) == (
        "The gradient of the layer has lost two of its directions."
    )
    assert found.description(None) == ""


def test_a_formula_is_described_by_its_signs():
    xhat, eps = nodes.math(text=r"\hat x"), nodes.math(text=r"\varepsilon")
    words = [*map(nodes.Text, ("The part along ", " goes, up to ", ", whatever the batch is."))]
    said = nodes.paragraph("", "", words[0], xhat, words[1], eps, words[2])
    assert found.description(nodes.section("", said)) == (
        "The part along x\u0302 goes, up to ε, whatever the batch is."
    )


def test_a_long_description_ends_with_a_word():
    text = found.shortened("word " * 50)
    assert len(text) <= 162 and text.endswith("word …")
    assert found.shortened("short") == "short"


def test_the_search_has_names_and_definitions_and_no_mere_mentions():
    known = {"docnames": ["chapters/api", "glossary"]}
    known["indexentries"] = {"rmsnorm": [[0, "index-of-rmsnorm", False], [1, "term-RMSNorm", True]]}
    known["indexentries"]["a word"] = [[0, "index-of-a-word", False]]
    names = {"rms_norm": ("chapters/api", "function-rms-norm"), "000-03": ("chapters/gone", "x")}
    index = found.complete(f"Search.setIndex({json.dumps(known)})", names)
    entries = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["indexentries"]
    assert entries == {
        "rmsnorm": [[1, "term-RMSNorm", True]],
        "rms_norm": [[0, "function-rms-norm", True]],
    }


# How to run a page.


def test_without_an_address_nothing_leads_to_a_repository():
    card = '<div class="decision" id="claim-1-2"><a href="x">1-2</a> <cite>'
    assert run_page.links("", "main", "chapters/a.ipynb") == {}
    assert run_page.disputable(card, "") == card
    assert run_page.disputable(card, CODE).count("Dispute%20of%20claim%201-2") == 1
    assert [*run_page.links("https://code.example/x", "main", "a.ipynb")] == ["edit this page"]
    assert [*run_page.links(CODE, "main", "glossary.md")] == ["edit this page"]


RUN = """
import jupyterlab, nbformat, normbook, normlib
assert "elsewhere" in normlib.__file__ and "elsewhere" in normbook.__file__
cells = nbformat.read("only-gamma-beta.ipynb", 4).cells
exec(next(cell.source for cell in cells if "import" in cell.source))
print(*trials.kept("data/gamma_beta.json"))
"""


def test_a_notebook_alone_in_a_folder_finds_all_that_it_needs_by_the_lines_of_its_page(tmp_path):
    """What pip would fetch (test_install) is there already, borrowed from this environment."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copy(ROOT / "chapters" / "only-gamma-beta.ipynb", folder)
    wheels = [wheel.name for wheel in run_page.build_wheels(folder)]
    first, second, third = run_page.lines("only-gamma-beta.ipynb", wheels)
    alone = {"cwd": folder, "PYTHONPATH": "", "PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1"}
    for line in (first, second):
        result = run("bash", "-c", line, **alone)
        assert result.returncode == 0, result.stdout + result.stderr
    (there,) = folder.glob("book/lib/python*/site-packages")
    (there / "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    python, *words = shlex.split(third)
    assert words == ["-m", "jupyterlab", "only-gamma-beta.ipynb"]
    result = run(python, "-c", RUN, **alone)
    assert result.stdout.split()[:2] == ["seeds", "runs"], result.stderr
