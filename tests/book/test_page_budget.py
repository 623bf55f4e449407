"""No page gives its reader more than one can take in."""

import sys

import nbformat
import page_budget as budget
from project import ROOT, TOC, run

from normlib.evidence import CASES

CHAPTERS_FOLDER = ROOT / "chapters"


def read(page):
    return nbformat.read(ROOT / f"{page}.ipynb", 4)


def test_every_page_is_within_its_budget():
    counted = {page: budget.counted(read(page)) for page in budget.budgeted(TOC)}
    found = [line for page, figures in counted.items() for line in budget.problems(page, figures)]
    assert not found, "\n".join(found)
    # and there was something to count
    assert all(figures["words"] > 200 and figures["cells"] > 0 for figures in counted.values())
    assert "chapters/batch-norm" in counted and "chapters/ledger" not in counted


def test_every_layer_has_a_chapter_with_a_derivation():
    modules = {case.derivation.__module__.rsplit(".", 1)[1] for case in CASES}
    assert len(modules) > 4
    assert [m for m in modules if budget.derivation(read(f"chapters/{m}-norm")) is None] == []


def test_the_width_that_ruff_enforces_is_that_of_the_column(tmp_path):
    """In a page that is not listed, and in the source that pages show."""
    for folder in (CHAPTERS_FOLDER, ROOT / "normlib" / "layers"):
        config = ("--config", folder / "ruff.toml")
        for width, code in ((budget.COLUMN, 0), (budget.COLUMN + 1, 1)):
            planted = tmp_path / "planted.py"
            planted.write_text(f"a = {'1' * (width - 4)}\n")
            assert run(sys.executable, "-m", "ruff", "check", *config, planted).returncode == code
