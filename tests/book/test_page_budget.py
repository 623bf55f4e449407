"""No page gives its reader more than one can take in."""

import nbformat
import page_budget as budget
from project import ROOT, TOC

from normlib.evidence import CASES


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
