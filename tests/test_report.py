"""Every layer stands before every witness, and what they found reaches the site as it is."""

import json
from fractions import Fraction
from functools import partial

import conftest
import numpy as np
import pytest
import record
import verification
from cases import batch_norm_args, inference_args
from conftest import LAYER, Recorder
from project import CHAPTERS, ROOT

import normlib
from normlib import verify
from normlib.verify import evidence
from normlib.verify.run import WITNESSES

NUMERIC = ("reference", "flat", "reference_twice")  # what the witnesses without algebra take
SIZES = {"large": ((16, 32), (8, 12, 6, 5)), "small": ((6, 4), (4, 4, 2, 3))}


def layers(size):
    """Name: forward, arguments, evidence. Matrices, and images where the layer is made for them."""
    rng = np.random.default_rng(0)
    (rows, columns), image = SIZES[size]
    matrix = batch_norm_args((rows, columns), rng)
    images = batch_norm_args(image, rng)
    features = (matrix[0], *batch_norm_args((1, columns), rng)[1:])
    w = rng.standard_normal((rows, columns))
    u, v = normlib.power_iteration(w, rng.standard_normal(rows), rng.standard_normal(columns))
    return {
        "batch_norm": (normlib.batch_norm, matrix, evidence.batch_norm()),
        "batch_norm, images": (normlib.batch_norm, images, evidence.batch_norm(4)),
        "batch_norm_inference": (
            normlib.batch_norm_inference,
            inference_args((rows, columns), rng),
            evidence.batch_norm_inference(),
        ),
        "layer_norm": (normlib.layer_norm, features, evidence.layer_norm()),
        "rms_norm": (normlib.rms_norm, features[:2], evidence.rms_norm()),
        "partial_rms_norm": (
            partial(normlib.partial_rms_norm, fraction=Fraction(2, 5)), features[:2],
            evidence.partial_rms_norm(Fraction(2, 5)),
        ),
        "group_norm": (partial(normlib.group_norm, groups=2), images, evidence.group_norm(2)),
        "instance_norm": (normlib.instance_norm, images, evidence.instance_norm(4)),
        "mean_only_batch_norm": (
            normlib.mean_only_batch_norm,
            (matrix[0], matrix[2]),
            evidence.mean_only_batch_norm(),
        ),
        "weight_norm": (
            normlib.weight_norm, (w, rng.uniform(0.5, 2, rows)), evidence.weight_norm()
        ),
        "spectral_norm": (
            partial(normlib.spectral_norm, u=u, v=v), (w,), evidence.spectral_norm(u, v)
        ),
    }  # fmt: skip


NAMES = [*layers("small")]


def backward_of(forward):
    return getattr(normlib, f"{getattr(forward, 'func', forward).__name__}_backward")


def examine(name, backward=None):
    """The verdict on a layer, red or not, and what is kept of it for the report."""
    forward, args, known = layers("large")[name]
    backward = backward or backward_of(forward)
    try:
        verdict = verify.backward(forward, backward, args, rng=np.random.default_rng(1), **known)
    except verify.VerificationError as raised:
        verdict = raised.verdict
    forward, small, known = layers("small")[name]
    options = {key: known[key] for key in NUMERIC if key in known}
    options["rng"] = np.random.default_rng(2)
    caught = verify.falsify(forward, backward_of(forward), small, **options).caught
    return verdict, record.layer(name, args, verdict, caught)


@pytest.mark.parametrize("name", NAMES)
def test_every_layer_passes_every_witness_and_every_planted_error_is_caught(name, record_property):
    verdict, entry = examine(name)
    record_property(LAYER, entry)
    assert not verdict.red and {check.witness for check in verdict.checks} == set(WITNESSES)
    assert entry["caught"] == entry["planted"] >= 6


def test_every_layer_of_the_library_is_in_the_report():
    pairs = {n for n in normlib.__all__ if f"{n}_backward" in normlib.__all__}
    assert pairs - {"standardize"} == {name.split(",")[0] for name in NAMES}


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
