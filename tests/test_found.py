"""A page is found by what it says of itself, and by the names that the search knows."""

import json
import shlex
import shutil
import sys
from pathlib import Path

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


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """An empty folder with a notebook and the wheels, after the first two lines of the page.

    What pip would fetch is there already, linked from this environment; it may fetch nothing.
    """
    folder = tmp_path_factory.mktemp("elsewhere")
    wheels = [wheel.name for wheel in run_page.build_wheels(folder)]
    first, second, _ = run_page.lines("ledger.ipynb", wheels)
    assert run("bash", "-c", first, cwd=folder).returncode == 0
    places = (Path(sys.prefix), folder / "book")
    here, there = (next(p.glob("lib/python*/site-packages")) for p in places)
    for path in here.iterdir():
        if (
            not path.name.startswith(("normlib", "normbook", "__editable__"))
            and not (there / path.name).exists()
        ):
            (there / path.name).symlink_to(path)
    result = run("bash", "-c", second, cwd=folder, PIP_NO_INDEX="1")
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


RUN = (
    "import sys, nbformat, nbclient, normbook, normlib\n"
    "assert 'elsewhere' in normlib.__file__ and 'elsewhere' in normbook.__file__\n"
    "nbclient.NotebookClient(nbformat.read(sys.argv[1], 4)).execute()"
)


def test_a_notebook_alone_in_a_folder_runs_by_the_lines_of_its_page(elsewhere):
    notebook = "frameworks.ipynb"  # it reads what is kept in the package
    shutil.copy(ROOT / "chapters" / notebook, elsewhere)
    *_, last = run_page.lines(notebook, ["any.whl"])
    command = shlex.split(last)
    assert command[1:] == ["-m", "jupyterlab", notebook]
    opened = run(command[0], "-m", "jupyterlab", "--version", cwd=elsewhere)
    assert opened.returncode == 0, opened.stderr
    result = run(command[0], "-c", RUN, notebook, cwd=elsewhere, OMP_NUM_THREADS="1")
    assert result.returncode == 0, result.stderr
