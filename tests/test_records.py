"""A record says what its run saw; the report says what the records say, and what none saw."""

import json
import shutil
from types import SimpleNamespace

import check
import numpy as np
import pytest
import record
import recorder
import records
import rests
import small
import verification

import normlib
from normlib import verify

PAGE, LAYER = "chapters/norm", "layers/batch_norm"
CELLS = [f"{PAGE}.ipynb::Cell {i}" for i in range(3)]
EXAMINED = f"{rests.CASE_TEST}[batch_norm]"


@pytest.fixture
def root(tmp_path):
    return small.build(tmp_path)


# A run writes records.


def result(nodeid, outcome="passed", when="call", whole=3, **properties):
    """What pytest reports of one step of one test."""
    properties = [(recorder.WHOLE, whole), *properties.items()]
    report = SimpleNamespace(nodeid=nodeid, outcome=outcome, when=when, duration=0.5)
    report.passed, report.failed = outcome == "passed", outcome == "failed"
    report.user_properties = properties
    return report


def steps(nodeid, outcome="passed", **properties):
    return [
        result(nodeid, when="setup", **properties),
        result(nodeid, outcome, **properties),
        result(nodeid, when="teardown", **properties),
    ]


def run(root, *tests, doubt="", **options):
    """What the records say after a run of these tests, each a list of steps."""
    listener = recorder.Recorder(root, SimpleNamespace(**options))
    listener.doubt = doubt
    for report in (report for test in tests for report in test):
        listener.pytest_runtest_logreport(report)
    listener.pytest_sessionfinish()
    return records.latest(root)


def states(judged):
    return {unit: found.state for unit, found in judged.items() if found.state != records.UNSEEN}


def test_a_run_of_one_page_verifies_this_page_alone(root):
    judged = run(root, *map(steps, CELLS))
    assert states(judged) == {PAGE: records.VERIFIED}
    assert judged[PAGE].record["passed"] == 3 and judged[PAGE].record["seconds"] == 4.5


def test_a_run_of_one_layer_verifies_this_layer_alone_and_keeps_what_it_found(root):
    judged = run(root, steps(EXAMINED, layer={"name": "batch_norm"}))
    assert states(judged) == {LAYER: records.VERIFIED}
    assert judged[LAYER].record["layer"] == {"name": "batch_norm"}


def test_a_run_of_one_test_file_verifies_this_file_alone(root):
    file = "tests/test_layers.py"
    assert states(run(root, steps(f"{file}::test_it", whole=2))) == {}
    both = [steps(f"{file}::{name}", whole=2) for name in ("test_it", "test_that")]
    assert states(run(root, *both)) == {file: records.VERIFIED}


def test_what_is_no_unit_leaves_no_record(root):
    others = ("tests/fixtures/bad.ipynb::Cell 0", f"{rests.CASES}::test_another")
    assert states(run(root, *(steps(nodeid, whole=1) for nodeid in others))) == {}
    assert not (root / records.FOLDER).exists()


def test_a_run_of_some_cells_writes_nothing(root):
    assert states(run(root, *map(steps, CELLS[:2]))) == {}
    assert states(run(root, *map(steps, CELLS[:2]), steps(CELLS[2], "skipped"))) == {}
    begun = steps(CELLS[2])[:2]  # interrupted before its end
    assert states(run(root, *map(steps, CELLS[:2]), begun)) == {}
    assert not (root / records.FOLDER).exists()


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
def test_what_failed_is_recorded_even_if_the_run_stopped_there(root, when):
    run(root, *map(steps, CELLS))
    judged = run(root, [result(CELLS[0], "failed", when)])
    assert states(judged) == {PAGE: records.FAILED}
    assert "1 of 3 cells FAILED" in verification.line(judged[PAGE])[0]


def test_a_page_whose_worker_crashed_has_failed(root):
    crashed = SimpleNamespace(nodeid=CELLS[1], outcome="failed", when="???", duration=0)
    crashed.passed, crashed.user_properties = False, ()
    alone, later = run(root, [crashed]), run(root, steps(CELLS[0]), [crashed])
    assert states(alone) == states(later) == {PAGE: records.FAILED}
    assert (alone[PAGE].record["of"], later[PAGE].record["of"]) == (1, 3)


def test_a_layer_that_broke_before_it_was_measured_has_failed(root):
    judged = run(root, steps(EXAMINED, "failed"))
    assert states(judged) == {LAYER: records.FAILED}
    assert "1 of 1 FAILED" in verification.layer_html(judged[LAYER])


def test_a_skipped_test_of_a_file_is_counted(root):
    judged = run(root, steps("tests/test_layers.py::test_it", "skipped", whole=1))
    assert not verification.is_whole(judged["tests/test_layers.py"])
    assert "1 of 1 skipped" in verification.html(judged)


def test_a_run_that_proves_nothing_about_this_folder_records_no_page_and_says_so(root):
    lines = []
    listener = recorder.Recorder(root, SimpleNamespace(nbval_lax=True))
    for report in (report for cell in CELLS for report in steps(cell)):
        listener.pytest_runtest_logreport(report)
    assert "nbval_lax" in listener.kept_back and not (root / records.FOLDER).exists()
    listener.pytest_terminal_summary(
        SimpleNamespace(write_line=lambda text, **_: lines.append(text))
    )
    assert "No page was recorded" in lines[0]


def test_notebooks_that_import_the_library_of_another_folder_are_seen(root, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert "another folder" in recorder.Recorder(root, SimpleNamespace()).doubt
    monkeypatch.setenv("PYTHONPATH", str(root))
    assert recorder.Recorder(root, SimpleNamespace()).doubt == ""


def test_a_file_edited_while_it_was_tested_does_not_count_as_verified(root):
    listener = recorder.Recorder(root, SimpleNamespace())
    listener.doubt = ""
    small.edit(root, f"{PAGE}.ipynb", small.DECIDES, "decide('000-01', 2)")
    for report in (report for cell in CELLS for report in steps(cell)):
        listener.pytest_runtest_logreport(report)
    assert states(records.latest(root)) == {PAGE: records.CHANGED}


# Records of several machines make one report.


def made(root, unit=PAGE, day=1, **changes):
    tree = rests.read(root)
    file = f"{unit}.ipynb" if unit in small.PAGES else unit if ".py" in unit else rests.CASES
    found = {"unit": unit, "file": file, "date": f"2026-01-{day:02}T00:00:00+00:00"}
    found |= {"passed": 3, "failed": 0, "skipped": 0, "of": 3, "seconds": 1.0, "layer": None}
    found |= {"machine": "m", "versions": {"python": "3"}, "rests": rests.of(tree, unit)}
    return found | changes


def all_made(root):
    return [made(root, unit) for unit in rests.units(rests.read(root))]


def judged(root, *known):
    return records.judged(rests.read(root), [*known])


def test_records_in_folders_of_their_own_make_one_report(root, tmp_path_factory):
    everything = all_made(root)
    for machine, share in (("a", everything[::2]), ("b", everything[1::2])):
        other = tmp_path_factory.mktemp(machine)
        for one in share:
            records.write(other, one)
        shutil.copytree(other / records.FOLDER, root / records.FOLDER / machine)
    found = records.latest(root)
    assert len(records.read(root)) == len(found) == len(everything)
    assert verification.verdict([*found.values()]) == (verification.GOOD, "good")


def test_of_two_records_of_one_unit_the_newer_counts(root):
    good, bad = made(root, day=1), made(root, day=2, failed=1)
    for known in ((good, bad), (bad, good)):
        assert judged(root, *known)[PAGE].state == records.FAILED
    good["date"] = "2026-01-03T00:00:00+00:00"
    assert judged(root, bad, good)[PAGE].state == records.VERIFIED


def test_a_record_of_the_tree_as_it_is_counts_before_a_newer_one_of_another_tree(root):
    old, new = made(root, day=1), made(root, day=2, rests={"chapters/norm.ipynb": "0"})
    assert judged(root, new)[PAGE].state == records.CHANGED
    assert judged(root, new, old)[PAGE].state == judged(root, old, new)[PAGE].state == "verified"


def test_a_record_of_what_is_no_longer_there_says_nothing(root):
    gone = made(root) | {"unit": "chapters/gone"}
    assert states(judged(root, gone)) == {}


def test_what_is_no_record_is_named(root):
    records.write(root, made(root))
    path = next((root / records.FOLDER).rglob("*.json"))
    path.write_text("{")
    with pytest.raises(ValueError, match=r"expected a record in .*norm\.json"):
        records.read(root)


# The report says what they say.


def test_the_line_of_a_page_says_what_its_record_says(root):
    def line(*known):
        return verification.line(judged(root, *known)[PAGE])

    assert line() == (verification.NO_RUN, "unknown")
    assert line(made(root)) == ("Verified on 1 January 2026: 3 cells agreed.", "good")
    assert line(made(root, failed=1)) == ("1 of 3 cells FAILED on 1 January 2026.", "bad")
    changed = ("Changed since it was verified on 1 January 2026.", "unknown")
    assert line(made(root, rests={})) == changed
    assert line(made(root, rests={}, failed=1))[1] == "bad"  # a failure stays visible


def test_a_report_of_everything_says_so_and_one_without_a_record_too(root):
    whole = verification.html(judged(root, *all_made(root)))
    assert verification.GOOD in whole and "not run" not in whole
    assert verification.NO_RUN in verification.html(judged(root))


@pytest.mark.parametrize("unit", [PAGE, LAYER, "tests/test_layers.py"])
@pytest.mark.parametrize(
    ("change", "said", "kind"),
    [
        (None, "not run", "unknown"),
        ({"rests": {}}, "verified on 1 January 2026, but", "unknown"),
        ({"failed": 1, "passed": 2}, "1 of 3 FAILED on 1 January 2026", "bad"),
        ({"skipped": 1, "passed": 2}, "1 of 3 skipped on 1 January 2026", "unknown"),
    ],
)
def test_a_report_names_whatever_it_did_not_see(root, unit, change, said, kind):
    known = [one for one in all_made(root) if one["unit"] != unit]
    known += [made(root, unit, **change)] if change else []
    html = verification.html(judged(root, *known))
    assert f'<th scope="row">{unit}</th><td>{said}' in html and verification.GOOD not in html
    assert html.startswith(f'<p class="verified {kind}">')


def test_each_machine_is_named_with_its_packages(root):
    known = all_made(root)
    known[0]["versions"] = {"python": "4"}
    html = verification.html(judged(root, *known))
    assert "m: python 4" in html and f"machine of {len(known) - 1} records" in html


RNG = np.random.default_rng(0)
ARGS = RNG.standard_normal((6, 4)), RNG.uniform(0.5, 2, 4)


def layer_html(root, backward):
    """How a report shows RMSNorm before the witnesses that take no derivation."""
    try:
        verdict = verify.backward(
            normlib.rms_norm, backward, ARGS, rng=RNG, shapes=(((2, 3), (3,)),)
        )
    except verify.VerificationError as raised:
        verdict = raised.verdict
    entry = record.layer("rms_norm", ARGS, verdict, np.ones((7, 8), bool))
    known = made(root, LAYER, layer=json.loads(json.dumps(entry)))
    return verification.layer_html(judged(root, known)[LAYER])


def test_an_honest_layer_stands_in_the_report_with_its_errors_and_bounds(root):
    text = layer_html(root, normlib.rms_norm_backward)
    assert "bad" not in text and "&lt; 1e-10" in text and "exact" in text and "(6, 4)" in text
    assert "7 of 7, each by 8 or more" in text and "Not run: general size" in text


def test_a_wrong_layer_stands_in_the_report_in_red_with_its_worst_entry(root):
    def wrong(dy, cache):
        dx, *rest = normlib.rms_norm_backward(dy, cache)
        return 1.01 * dx, *rest

    text = layer_html(root, wrong)
    assert "FAILED: worst at entry" in text and '<strong class="bad">1e-02' in text


# What is stale runs again.


def targets(root, *known):
    stale, left = check.sorted_out(rests.read(root), [*known])
    return {check.target(found.unit) for found in stale}, left


def test_what_is_as_it_was_does_not_run_again(root):
    assert targets(root, *all_made(root)) == (set(), [])


def test_a_page_a_layer_and_a_test_file_run_again_when_they_are_stale(root):
    known = all_made(root)
    assert targets(root, *(one for one in known if one["unit"] != LAYER))[0] == {EXAMINED}
    small.edit(root, "chapters/claims/topic.ipynb", "runs.read()", "runs.readline()")
    expected = {"chapters/claims/topic.ipynb", "tests/test_files.py"}
    assert targets(root, *known)[0] == expected
    known[0]["failed"] = 1
    assert targets(root, *known)[0] == expected | {f"{known[0]['unit']}.ipynb"}


@pytest.mark.parametrize("line", ["import subprocess", "from project import ROOT, run"])
def test_a_test_file_that_starts_programs_is_left_to_make_test_and_named(root, line):
    small.edit(root, "tests/test_files.py", "from project import ROOT", line)
    assert targets(root, *all_made(root)[:-2])[1] == ["tests/test_files.py"]


def test_why_something_is_stale_is_said(root):
    reasons = [check.reason(judged(root, *known)[PAGE]) for known in ([], [made(root, failed=1)])]
    assert reasons == ["has no record", "failed"]
    known = made(root)
    small.edit(root, "requirements.lock", "2", "3")
    assert check.reason(judged(root, known)[PAGE]) == "rests on requirements.lock, which changed"


def test_a_check_hands_to_pytest_what_is_stale_and_says_what_it_leaves(root, monkeypatch, capsys):
    commands = []
    monkeypatch.setattr(check, "ROOT", root)
    monkeypatch.setattr(
        check.subprocess,
        "run",
        lambda command, cwd: commands.append(command) or SimpleNamespace(returncode=1),
    )
    for one in all_made(root):
        records.write(root, one)
    assert check.main([]) == 0 and not commands
    small.edit(root, "tests/test_files.py", "from project import ROOT", "import subprocess")
    assert check.main([]) == 0 and not commands
    small.edit(root, "tests/test_layers.py", "assert", "assert not")
    assert check.main(["-q"]) == 1 and commands[0][3:] == ["-q", "tests/test_layers.py"]
    said = capsys.readouterr().out
    assert "tests/test_layers.py rests on tests/test_layers.py, which changed" in said
    assert "Left to make test, which runs everything: tests/test_files.py" in said
