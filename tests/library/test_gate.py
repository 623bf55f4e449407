"""The gate in front of a notebook: nbval compares what its cells print with what is stored."""

import re
import sys

import nbclient
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from project import ROOT, run

pytestmark = pytest.mark.programs


def test_a_cell_passes_only_if_it_prints_what_is_stored_and_ends_without_an_error(tmp_path):
    five, four = (new_output("stream", name="stdout", text=text) for text in ("5\n", "4\n"))
    sources = (("print(5)", five), ("print(5)", four), ("print(5)\nassert False", five))
    cells = [new_code_cell(s, outputs=[o], execution_count=1) for s, o in sources]
    nbformat.write(new_notebook(cells=cells), tmp_path / "gate.ipynb")
    settings = "-c", ROOT / "pyproject.toml", "--noconftest", "-r", "A"
    done = run(sys.executable, "-m", "pytest", *settings, tmp_path / "gate.ipynb")
    said = re.findall(r"^(PASSED|FAILED) .*::Cell (\d)", done.stdout, re.M)
    assert sorted(said) == [("FAILED", "1"), ("FAILED", "2"), ("PASSED", "0")], done.stdout


HIDDEN = """
import importlib.util, torch
print([importlib.util.find_spec(name) for name in ("project", "records")], hasattr(torch, "left"))
torch.left = True
"""


def test_a_kernel_sees_neither_tests_nor_tools_nor_what_another_kernel_has_changed():
    for _ in range(2):
        notebook = new_notebook(cells=[new_code_cell(HIDDEN)])
        nbclient.NotebookClient(notebook).execute()
        assert notebook.cells[0].outputs[0].text == "[None, None] False\n"
