"""What a reader is told of the last run: a failure shows, a change shows, and nothing else does."""

from types import SimpleNamespace

import numpy as np
import pytest
import records
import verification
from records import CHANGED, FAILED, SKIPPED, UNSEEN, VERIFIED
from test_report import judged, kept

import normlib

PAGE, TEST, READER = "chapters/norm.ipynb", "tests/test_norm.py", "tests/test_pages.py"
REST = {READER: "from project import ROOT", "normlib/__init__.py": "", "README.md": ""}
CELLS = [f"{PAGE}::Cell {i}" for i in range(3)]


@pytest.fixture
def root(tmp_path):
    for name, text in {PAGE: "{}", TEST: "", **REST}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def steps(nodeid, outcome="passed", when="call", **said):
    """What pytest reports of one test, which ends early if its call does not."""
    for step in ("setup", "call", "teardown"):
        result = outcome if step == when else "passed"
        report = SimpleNamespace(nodeid=nodeid, when=step, duration=0.5, outcome=result)
        report.passed = result == "passed"
        report.user_properties = [(records.WHOLE, 3), *said.items()]
        yield report


def run(root, *reports, doubt="", edited=None):
    """What is known after a run in which these were reported."""
    listener = records.Recorder(root, SimpleNamespace())
    listener.doubt = doubt
    if edited:
        (root / edited).write_text("another")
    for report in reports:
        listener.pytest_runtest_logreport(report)
    return records.latest(root)


def states(known):
    return {file: found.state for file, found in known.items() if found.state != UNSEEN}


def passed(*nodeids):
    return [report for nodeid in nodeids for report in steps(nodeid)]


def test_a_page_is_verified_when_each_of_its_cells_has_passed_and_not_before(root):
    assert verification.line(run(root)[PAGE]) is None
    assert states(run(root, *passed(*CELLS)[:-1])) == {}  # interrupted in the last one
    known = run(root, *passed(*CELLS))
    assert states(known) == {PAGE: VERIFIED}
    known[PAGE].record.update(date="2026-01-01T00:00:00+00:00", commit="abc")
    said = "Verified on 1 January 2026 at commit abc: 3 cells agreed.", "good"
    assert verification.line(known[PAGE]) == said


def test_a_skipped_cell_does_not_count_nor_a_cell_compared_loosely(root):
    known = run(root, *passed(*CELLS[:2]), *steps(CELLS[2], "skipped"))
    assert states(known) == {PAGE: SKIPPED} and verification.line(known[PAGE]) is None
    assert "1 of 3 skipped" in verification.html(known)
    (root / records.FOLDER / f"{PAGE}.json").unlink()
    assert states(run(root, *passed(*CELLS), doubt="lax")) == {}
    loose = records.Recorder(root, SimpleNamespace(nbval_lax=True))
    assert "nbval_lax" in loose.doubt
    assert "another folder" in records.Recorder(root, SimpleNamespace()).doubt


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
def test_a_failure_is_recorded_at_once_and_never_says_verified(root, when):
    run(root, *passed(*CELLS))
    known = run(root, *steps(CELLS[0], "failed", when))
    assert verification.line(known[PAGE])[0].startswith("1 of 3 cells FAILED")
    assert verification.verdict([*known.values()]) == (verification.BAD, "bad")
    (root / PAGE).write_text("changed")
    assert states(records.latest(root)) == {PAGE: FAILED}


def test_a_page_whose_worker_crashed_has_failed(root):
    crashed = SimpleNamespace(nodeid=CELLS[1], outcome="failed", when="???", duration=0)
    crashed.passed, crashed.user_properties = False, ()
    assert states(run(root, crashed)) == {PAGE: FAILED}


@pytest.mark.parametrize(
    ("path", "turned"),
    [
        (PAGE, {PAGE, READER}),
        (TEST, {TEST, READER}),
        ("README.md", {READER}),
        ("normlib/__init__.py", {PAGE, TEST, READER}),
    ],
)
def test_a_change_turns_what_rests_on_it_and_nothing_else(root, path, turned):
    run(root, *passed(*CELLS, *(f"{file}::{i}" for file in (TEST, READER) for i in range(3))))
    (root / path).write_text("changed")
    known = records.latest(root)
    assert states(known) == {f: CHANGED if f in turned else VERIFIED for f in known}
    said, _ = verification.line(known[PAGE])
    assert said.startswith("Changed since" if PAGE in turned else "Verified on")


def test_a_page_edited_while_it_ran_is_not_verified(root):
    assert states(run(root, *passed(*CELLS), edited=PAGE)) == {PAGE: CHANGED}


@pytest.mark.parametrize("factor", [1, 1.01])
def test_a_wrong_layer_stands_in_the_report_in_red_and_an_honest_one_does_not(factor):
    def backward(dy, cache):
        dx, dgamma = normlib.rms_norm_backward(dy, cache)
        return factor * dx, dgamma

    rng = np.random.default_rng(0)
    args = rng.standard_normal((6, 4)), rng.uniform(0.5, 2, 4)
    verdict = judged(normlib.rms_norm, backward, args, rng=rng, shapes=(((2, 3), (3,)),))
    entry = kept("rms_norm", args, verdict, np.ones((7, 8), bool))
    found = records.Found(verification.LAYERS, VERIFIED, {"layers": {"rms_norm": entry}})
    html = "".join(verification.layers(found))
    assert "7 of 7, each by 8 or more" in html and "(6, 4)" in html
    assert ('<strong class="bad">1e-02' in html and "FAILED: worst" in html) is (factor != 1)
