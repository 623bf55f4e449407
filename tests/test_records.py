"""A record says what its run saw; the report says what the records say, and what none saw."""

import json
import shlex
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
import yaml
from project import ROOT

import normlib
from normlib import verify

PAGE, LAYER = "chapters/norm", "layers/batch_norm"
CELLS = [f"{PAGE}.ipynb::Cell {i}" for i in range(3)]
FILE = "tests/test_layers.py"
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


@pytest.mark.parametrize(
    ("unit", "tests"),
    [(PAGE, CELLS), (LAYER, [EXAMINED]), (FILE, [f"{FILE}::test_{n}" for n in ("a", "b", "c")])],
)
def test_a_whole_run_of_one_unit_verifies_this_one_alone(root, unit, tests):
    judged = run(root, *(steps(test, layer={"name": "kept"}) for test in tests))
    assert states(judged) == {unit: records.VERIFIED}
    record = judged[unit].record
    assert (record["passed"], record["seconds"]) == (len(tests), 1.5 * len(tests))
    assert record["layer"] == {"name": "kept"}


def test_a_run_of_some_cells_writes_nothing(root):
    for last in ([], steps(CELLS[2], "skipped"), steps(CELLS[2])[:2]):  # the last one interrupted
        assert states(run(root, *map(steps, CELLS[:2]), last)) == {}
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


def test_a_skipped_test_of_a_file_is_counted(root):
    judged = run(root, steps(f"{FILE}::test_it", "skipped", whole=1))
    assert not verification.is_whole(judged[FILE])
    assert "1 of 1 skipped" in verification.html(judged)


def test_a_run_that_proves_nothing_about_this_folder_records_no_page(root, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(root))
    assert recorder.Recorder(root, SimpleNamespace()).doubt == ""
    assert "nbval_lax" in recorder.Recorder(root, SimpleNamespace(nbval_lax=True)).doubt
    monkeypatch.delenv("PYTHONPATH")
    doubt = recorder.Recorder(root, SimpleNamespace()).doubt
    assert "another folder" in doubt and states(run(root, *map(steps, CELLS), doubt=doubt)) == {}


def test_a_file_edited_while_it_was_tested_does_not_count_as_verified(root):
    listener = recorder.Recorder(root, SimpleNamespace())
    listener.doubt = ""
    small.edit(root, f"{PAGE}.ipynb")
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


def test_of_two_records_the_newer_counts_unless_only_the_older_is_of_the_tree_as_it_is(root):
    old, failed, other = made(root), made(root, day=2, failed=1), made(root, day=3, rests={})
    for known, state in (
        ((old, failed), records.FAILED),
        ((old, other), records.VERIFIED),
        ((other,), records.CHANGED),
    ):
        assert judged(root, *known)[PAGE].state == judged(root, *known[::-1])[PAGE].state == state


# The report says what they say.


def test_the_line_of_a_page_says_what_its_record_says(root):
    def line(*known):
        return verification.line(judged(root, *known)[PAGE])

    assert line() is None  # without a run there is nothing to say
    assert line(made(root)) == ("Verified on 1 January 2026: 3 cells agreed.", "good")
    assert line(made(root, failed=1)) == ("1 of 3 cells FAILED on 1 January 2026.", "bad")
    changed = ("Changed since it was verified on 1 January 2026.", "unknown")
    assert line(made(root, rests={})) == changed
    assert line(made(root, rests={}, failed=1))[1] == "bad"  # a failure stays visible


def test_a_report_of_everything_says_so(root):
    whole = verification.html(judged(root, *all_made(root)))
    assert verification.GOOD in whole and "not run" not in whole and verification.EMPTY not in whole


def test_a_report_without_a_record_says_what_would_stand_there_and_what_makes_it(root):
    empty = verification.html(judged(root))
    assert verification.EMPTY in empty and "<table" not in empty
    for word in ("make test", "make book", "machine", "not verified", "layer", "page"):
        assert word in empty


# What is published carries the records of the run that verified it.

WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))["jobs"]


def step(job, words):
    """The number of the only step of a job that uses or runs this, and what it is given."""
    said = [f"{s.get('uses', '')} {s.get('run', '')}" for s in WORKFLOW[job]["steps"]]
    (number,) = (n for n, text in enumerate(said) if words in text)
    return number, WORKFLOW[job]["steps"][number].get("with", {})


def test_every_part_of_the_tests_hands_its_records_on_or_fails():
    (tested, _), (kept, given) = step("test", ".ci/run"), step("test", "actions/upload-artifact")
    assert step("test", "actions/checkout")[1] == {"fetch-depth": 0}  # some ask the history
    assert tested < kept and given["path"] == records.FOLDER
    assert given["if-no-files-found"] == "error"
    assert given["name"] == "records-${{ matrix.part }}"  # none overwrites another
    parts = WORKFLOW["test"]["strategy"]["matrix"]["part"]
    assert parts == [*range(1, len(parts) + 1)]
    command = WORKFLOW["test"]["steps"][tested]["run"]
    assert command == f".ci/run PART=${{{{ matrix.part }}}}/{len(parts)}"


def test_the_published_site_is_built_from_the_records_of_the_tests_before_it():
    assert WORKFLOW["publish"]["needs"] == "test"
    found, given = step("publish", "actions/download-artifact")
    built, _ = step("publish", "make book")
    packed, site = step("publish", "actions/upload-pages-artifact")
    sent, _ = step("publish", "actions/deploy-pages")
    assert found < built < packed < sent
    assert given == {"pattern": "records-*", "path": records.FOLDER}
    assert site["path"] == "_build/html"


def test_a_site_without_its_records_is_not_published(root):
    built, _ = step("publish", "make book")
    checked, _ = step("publish", "grep")
    packed, _ = step("publish", "actions/upload-pages-artifact")
    assert built < checked < packed
    command = WORKFLOW["publish"]["steps"][checked]["run"]
    *_, words, file = shlex.split(command)
    assert (ROOT / file.removeprefix("_build/html/")).with_suffix(".ipynb").is_file()
    assert words in verification.line(judged(root, made(root))[PAGE])[0]
    assert words not in verification.line(judged(root, made(root, rests={}))[PAGE])[0]


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


def test_a_page_a_layer_and_a_test_file_run_again_when_they_are_stale(root):
    known = all_made(root)
    assert targets(root, *known) == (set(), [])
    assert targets(root, *(one for one in known if one["unit"] != LAYER))[0] == {EXAMINED}
    small.edit(root, f"{PAGE}.ipynb")
    expected = {f"{PAGE}.ipynb", "chapters/ledger.ipynb", "tests/test_files.py"}
    assert targets(root, *known)[0] == expected
    known[-1]["failed"] = 1
    assert targets(root, *known)[0] == expected | {known[-1]["unit"]}


def test_why_something_is_stale_is_said(root):
    for known, said in (([], "has no record"), ([made(root, failed=1)], "failed")):
        assert check.reason(judged(root, *known)[PAGE]) == said
    known = made(root), made(root, LAYER)
    small.edit(root, "tests/cases.py")
    assert check.reason(judged(root, *known)[LAYER]) == "rests on helpers in tests, which changed"
    for path in ("normlib/__init__.py", "requirements.lock"):
        small.edit(root, path)
    assert check.reason(judged(root, *known)[PAGE]) == "rests on normlib and 1 more, which changed"


def test_a_check_hands_to_pytest_what_is_stale_and_says_what_it_leaves(root, monkeypatch, capsys):
    commands = []

    def called(command, cwd):
        commands.append(command[3:])
        return SimpleNamespace(returncode=1)

    monkeypatch.setattr(check, "ROOT", root)
    monkeypatch.setattr(check.subprocess, "run", called)
    left = root / "tests" / "test_files.py"
    left.write_text("import pytest\npytestmark = pytest.mark.programs\n")
    for one in all_made(root):
        records.write(root, one)
    assert check.main([]) == 0 and not commands
    small.edit(root, "README.md")
    assert check.main(["-q"]) == 1 and commands == [["-q", "chapters/ledger.ipynb"]]
    said = capsys.readouterr().out
    assert "chapters/ledger rests on the other files, which changed" in said
    assert "Left to make test, which runs everything: tests/test_files.py" in said
