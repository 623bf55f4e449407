"""Every equation that a page displays, with every fault: a fault does not stay unseen."""

import re
from functools import partial

import matplotlib.pyplot as plt
import nbformat
import pytest
import sympy as sp
from project import CHAPTERS, ROOT

import normbook.show
from normbook.show import Steps, equation
from normbook.show.steps import evaluated, same
from normlib.verify.derivations import i, k

pytestmark = pytest.mark.programs

DISPLAYS = re.compile(r"\bsteps\.(definition|output|gradient|consequence)\(|\bequation\(")


def faults(form):
    """The same with a sign turned, an index exchanged, a factor added, a term dropped."""
    with sp.evaluate(False):
        found = {"sign": -form, "factor": 2 * form} if form != 0 else {"not zero": sp.S.One}
        for entry in sorted(form.atoms(sp.Indexed), key=str):
            other = entry.base[i + 1] if entry.indices[0] == i else entry.base[k + 1]
            found[f"index of {entry}"] = form.xreplace({entry: other})
        if isinstance(form, sp.Add):
            for term in form.args:
                found[f"without {term}"] = sp.Add(*(t for t in form.args if t is not term))
    return found


def pages_with_equations():
    notebooks = {path.stem: nbformat.read(path, as_version=4) for path in CHAPTERS}
    sources = {
        name: [cell.source for cell in notebook.cells if cell.cell_type == "code"]
        for name, notebook in notebooks.items()
    }
    return {name: cells for name, cells in sources.items() if any(map(DISPLAYS.search, cells))}


PAGES = pages_with_equations()


@pytest.fixture(params=PAGES)
def displayed(request, monkeypatch):
    """What a page compares on its way to its last equation: the comparison, right sides, and what
    was derived."""
    cells, found, compare = PAGES[request.param], [], Steps.checked

    def recorded(steps, left, right, derived):
        found.extend((steps.equal, form, derived) for form in right)
        return compare(steps, left, right, derived)

    def recorded_equation(left, derived, *right, short=None):
        same_ = partial(same, short=short)
        found.extend((same_, sp.sympify(form), sp.sympify(derived)) for form in right)
        return equation(left, derived, *right, short=short)

    monkeypatch.setattr(Steps, "checked", recorded)
    monkeypatch.setattr(normbook.show, "equation", recorded_equation)
    last = max(number for number, cell in enumerate(cells) if DISPLAYS.search(cell))
    monkeypatch.chdir(ROOT / "chapters")  # where a page finds its data
    scope = {}
    for cell in cells[: last + 1]:
        exec(cell, scope)
    plt.close("all")
    return found


def test_no_fault_in_an_equation_of_a_page_stays_unseen(displayed):
    assert displayed
    for equal, form, derived in displayed:
        assert equal(evaluated(form), derived)
        for fault, wrong in faults(form).items():
            if not fault.startswith("without"):  # a term may be there to be shown to be zero
                assert not equal(evaluated(wrong), derived), f"{form}: {fault}"
