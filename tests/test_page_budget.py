"""No page gives its reader more than one can take in."""

import sys

import nbformat
import page_budget as budget
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from project import ROOT, TOC, run

from normlib.evidence import CASES

PAGES = budget.budgeted(TOC)
FOLDED = {"tags": ["hide-input"]}
CHAPTERS_FOLDER = ROOT / "chapters"


def read(page):
    return nbformat.read(ROOT / f"{page}.ipynb", 4)


@pytest.mark.parametrize("page", PAGES)
def test_every_page_is_within_its_budget(page):
    found = list(budget.problems(page, budget.counted(read(page))))
    assert not found, "\n".join(found)


def test_every_layer_has_a_chapter_with_a_derivation():
    modules = {case.derivation.__module__.rsplit(".", 1)[1] for case in CASES}
    assert len(modules) > 4
    assert [m for m in modules if budget.derivation(read(f"chapters/{m}-norm")) is None] == []


def test_look_up_pages_and_claims_pages_may_be_as_long_as_they_must():
    chapters = [{"file": "chapters/a", "sections": [{"file": "chapters/claims/a"}]}]
    parts = [{"caption": "One", "chapters": chapters}]
    parts.append({"caption": budget.LOOK_UP, "chapters": [{"file": "chapters/b"}]})
    assert budget.budgeted({"parts": parts}) == ["chapters/a"]
    assert "chapters/ledger" not in PAGES and "chapters/batch-norm" in PAGES


def shown(kind, text, plain="shown"):
    return new_output("display_data", data={kind: text, "text/plain": plain})


def equation(number):
    return shown("text/latex", f"$$x = {number}$$")


def page(*cells):
    return budget.counted(new_notebook(cells=[*cells]))


def test_open_cells_and_shipped_source_and_code_in_the_prose_are_lines_of_code():
    source = shown("text/markdown", "```python\ndef f():\n\n    return 1\n```")
    found = page(
        new_code_cell("a = 1\n\nb = 2"),
        new_code_cell("Source(f)", outputs=[source], metadata=FOLDED),
        new_code_cell("Source(f)", outputs=[source]),
        new_markdown_cell("Prose.\n\n```python\nc = 3\n```\n\n```{note}\nProse.\n```"),
    )
    assert (found["cells"], found["lines"], found["code"]) == (2, 2 + 1 + 2 + 1, 6 + 3)


def test_words_are_those_of_the_prose_and_a_formula_is_one():
    found = page(
        new_markdown_cell("## Two words\n\nA {term}`batch` has [a mean](page) $\\mu$.\n$$x$$")
    )
    assert found["words"] == 2 + 6


def test_equations_count_once_and_only_as_open_outputs_of_the_derivation():
    derivation = new_markdown_cell("## Derivation\n\n$$typed = 1$$")
    typed = shown("text/latex", "$x = 9$", plain="<IPython.core.display.Math object>")
    symbol = shown("text/latex", "$x$")
    cells = [new_code_cell("s", outputs=[equation(1), equation(1), typed, symbol])]
    cells += [new_code_cell("s", outputs=[equation(2)], metadata={"tags": ["hide-cell"]})]
    elsewhere = new_markdown_cell("## Code"), new_code_cell("s", outputs=[equation(3)])
    assert page(derivation, *cells, *elsewhere)["missing"] == budget.EQUATIONS - 1
    six = [new_code_cell("s", outputs=[equation(n)], metadata=FOLDED) for n in range(6)]
    assert page(derivation, *six)["missing"] == 0
    assert page(*six)["missing"] == 0


LONG = {
    "cells": [new_code_cell("x") for _ in range(13)],
    "lines": [new_code_cell("x\n" * 121)],
    "code": [new_code_cell("x\n" * 301, metadata=FOLDED)],
    "wide": [new_code_cell("s", outputs=[shown("text/markdown", f"```python\n{'x' * 85}\n```")])],
    "words": [new_markdown_cell("word " * 2201)],
    "missing": [new_markdown_cell("## Derivation")],
}


@pytest.mark.parametrize("figure", LONG)
def test_a_page_that_is_beyond_in_one_figure_is_reported(figure):
    found = page(*LONG[figure])
    (line,) = budget.problems("p", {figure: found[figure]})
    assert f"expected {figure} to be at most {budget.MOST[figure]}, got" in line


def test_the_width_that_ruff_enforces_is_that_of_the_column(tmp_path):
    """In a page that is not listed, and in the source that pages show."""
    for folder in (CHAPTERS_FOLDER, ROOT / "normlib" / "layers"):
        config = ("--config", folder / "ruff.toml")
        for width, code in ((budget.COLUMN, 0), (budget.COLUMN + 1, 1)):
            planted = tmp_path / "planted.py"
            planted.write_text(f"a = {'1' * (width - 4)}\n")
            assert run(sys.executable, "-m", "ruff", "check", *config, planted).returncode == code
