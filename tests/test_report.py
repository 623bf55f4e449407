"""Every layer stands before every witness, and what they found reaches the site as it is."""

import json

import conftest
import numpy as np
import pytest
import record
import verification
from conftest import LAYER, Recorder
from project import CHAPTERS, ROOT

import normlib
from normlib import evidence, verify
from normlib.evidence import CASES
from normlib.verify.run import WITNESSES

NUMERIC = ("reference", "flat", "reference_twice", "plants")  # for the witnesses without algebra
LARGE = {"matrix": (16, 32), "images": (8, 12, 6, 5)}
SMALL = {"matrix": (6, 4), "images": (4, 4, 2, 3)}
LAYERS = {
    case.name if form == case.forms[0] else f"{case.name}, {form}": (case, form)
    for case in CASES
    for form in case.forms
}


def examine(name, backward=None):
    """The verdict on a layer, red or not, and what is kept of it for the report."""
    case, form = LAYERS[name]
    rng = np.random.default_rng(0)
    forward, args = case.drawn(case.arguments(LARGE[form]), rng)
    options = {"rng": np.random.default_rng(1), **evidence.of(forward)}
    try:
        verdict = verify.backward(forward, backward or case.backward, args, **options)
    except verify.VerificationError as raised:
        verdict = raised.verdict
    forward, small = case.drawn(case.arguments(SMALL[form]), rng)
    options = {name: evidence.of(forward)[name] for name in NUMERIC}
    options["rng"] = np.random.default_rng(2)
    caught = verify.falsify(forward, case.backward, small, **options).caught
    return verdict, record.layer(name, args, verdict, caught)


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_passes_every_witness_and_every_planted_error_is_caught(name, record_property):
    verdict, entry = examine(name)
    record_property(LAYER, entry)
    assert not verdict.red and {check.witness for check in verdict.checks} == set(WITNESSES)
    assert entry["caught"] == entry["planted"] == LAYERS[name][0].errors


def test_every_layer_of_the_library_is_in_the_report():
    pairs = {n for n in normlib.__all__ if f"{n}_backward" in normlib.__all__}
    assert pairs - {"standardize"} == {case.name for case in CASES}


@pytest.fixture(scope="module")
def wrong():
    """What is kept of a batch norm whose dx is 1 % too large."""

    def planted(dy, cache):
        dx, *rest = normlib.batch_norm_backward(dy, cache)
        return 1.01 * dx, *rest

    return examine("batch_norm", planted)[1]


def made(layers=(), failed=0, page="chapters/batch-norm"):
    return record.compose(ROOT, [*layers], {page: [3, failed]}, {"passed": 9, "failed": failed})


def test_a_wrong_layer_stands_in_the_report_in_red_with_its_worst_entry(wrong):
    text = verification.html(made([wrong]))
    assert "FAILED: worst at entry" in text and '<strong class="bad">1e-02' in text


def test_an_honest_layer_stands_in_the_report_with_its_errors_and_bounds():
    _, entry = examine("rms_norm")
    text = verification.html(made([entry]))
    assert "bad" not in text and "&lt; 1e-10" in text and "exact" in text and "(16, 32)" in text


def test_the_line_of_a_page_says_what_its_run_said():
    page = "chapters/batch-norm"
    assert verification.line(None, page, ROOT) == (verification.NO_RUN, "unknown")
    assert verification.line(made(), page, ROOT)[1] == "good"
    assert verification.line(made(failed=1), page, ROOT)[1] == "bad"
    assert verification.line(made(page="chapters/rms-norm"), page, ROOT)[1] == "unknown"


@pytest.mark.parametrize("changed", ["library", "digest"])
def test_what_has_changed_since_its_run_no_longer_counts_as_verified(changed):
    page = "chapters/batch-norm"
    found = made()
    (found if changed == "library" else found["pages"][page])[changed] = "another"
    text, kind = verification.line(found, page, ROOT)
    assert "hanged since" in text or "has changed" in text
    assert kind == "unknown"


def test_a_site_without_a_run_says_so():
    assert verification.NO_RUN in verification.html(None)


class Result:
    """What pytest reports of one test."""

    def __init__(self, nodeid, outcome="passed", when="call", properties=()):
        self.nodeid, self.outcome, self.when = nodeid, outcome, when
        self.user_properties = properties
        self.passed, self.failed = outcome == "passed", outcome == "failed"


def recorded(tmp_path, monkeypatch, *results):
    """The file that a run with these results writes, or None."""
    monkeypatch.setattr(conftest, "FILE", str(tmp_path / "report.json"))
    recorder = Recorder()
    for result in results:
        recorder.pytest_runtest_logreport(result)
    recorder.pytest_sessionfinish()
    return verification.read(tmp_path / "report.json")


def all_pages():
    return [Result(f"chapters/{path.name}::Cell 0") for path in CHAPTERS]


def test_a_whole_run_is_written_down_and_its_failures_too(tmp_path, monkeypatch, wrong):
    layer = Result("tests/test_report.py::x", properties=[(LAYER, json.loads(json.dumps(wrong)))])
    failing = Result(f"chapters/{CHAPTERS[0].name}::Cell 1", outcome="failed")
    broken = Result("tests/test_x.py::y", outcome="failed", when="setup")
    found = recorded(tmp_path, monkeypatch, *all_pages(), failing, broken, layer)
    assert found["tests"]["failed"] == 2 and len(found["layers"]) == 1
    assert found["pages"][f"chapters/{CHAPTERS[0].stem}"]["failed"] == 1


def test_a_run_that_did_not_see_everything_writes_nothing(tmp_path, monkeypatch, wrong):
    layer = Result("tests/test_report.py::x", properties=[(LAYER, wrong)])
    assert recorded(tmp_path, monkeypatch, *all_pages()) is None
    assert recorded(tmp_path, monkeypatch, *all_pages()[1:], layer) is None
