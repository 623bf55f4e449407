"""What decides a claim by an experiment was settled before its seeds were run."""

import ast
import importlib
import json
import pkgutil
import re

import numpy as np
import pytest
import trials as tool
from project import ROOT, read_cells, run

from normbook import studies
from normbook.claims import EXPERIMENT, UNDECIDED, interval, register
from normbook.lab import training, trials
from normbook.lab.trials import Trial

EXPERIMENTS = {c.id: c for c in register().claims.values() if c.evidence == EXPERIMENT and c.trial}
FIRST_SEED = 1000


def every_trial():
    """All trials of the book by name, whether an entry names them or a page shows them only."""
    for found in pkgutil.iter_modules(studies.__path__):
        module = importlib.import_module(f"{studies.__name__}.{found.name}")
        for name, value in vars(module).items():
            if isinstance(value, Trial):
                yield f"{found.name}.{name}", value


TRIALS = dict(every_trial())
MODULES = {name: f"normbook/studies/{name.partition('.')[0]}.py" for name in TRIALS}
FILES = {name: f"normbook/data/trials/{name}.json" for name in TRIALS}


def test_an_interval_of_two_and_of_three_effects_has_the_ends_found_by_hand():
    # the tables of Student's t at 0.975: 12.706 with one degree of freedom, 4.303 with two
    for effects, half in (([1.0, 3.0], 12.706), ([1.0, 2.0, 3.0], 4.303 / np.sqrt(3))):
        low, mean, high = interval(effects)
        assert mean == 2 and np.allclose((low, high), (2 - half, 2 + half), atol=1e-3)


@pytest.mark.parametrize(
    "effects", [[1.0], [1.0, np.nan], [1.0, np.inf], [[1.0, 2.0], [3.0, 5.0]], 1.0]
)
def test_an_interval_of_what_are_not_effects_of_seeds_is_refused(effects):
    with pytest.raises(ValueError, match="a finite effect for each of two seeds"):
        interval(effects)


# The trials of the register.


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_trial_with_a_bound_for_its_claim(name):
    assert name in TRIALS[EXPERIMENTS[name].trial].bounds


def bounds_of_other_trials():
    """Claim, trial, bound: what was settled for a claim that another trial decides, or none."""
    for name, trial in TRIALS.items():
        for claim, bound in trial.bounds.items():
            entry = register().claims.get(claim)  # none for a control
            if entry and name != entry.trial:
                yield claim, name, bound


def unnamed(others, claims):
    said = {claim: claims[claim].also for claim, _, _ in others}
    return [o for o in others if f"{o[1]}, " not in said[o[0]] or f"bound {o[2]}" not in said[o[0]]]


def test_a_claim_has_one_deciding_trial_and_its_card_names_any_other_with_its_bound():
    """A bound that moves by adding a trial is seen."""
    claims, others = register().claims, [*bounds_of_other_trials()]
    assert others and unnamed(others, claims) == []
    claim, name, bound = others[0]
    for moved in ((claim, name, bound / 2), (claim, "another.TRIAL", bound)):
        assert unnamed([moved], claims) == [moved]


# Near the top a point is a large share of the errors left, so a new bar should be a share of them.
# These were read again: their intervals lie beyond the bar by so much, or so far from the top, that
# a share of the errors would say the same.
IN_POINTS = {"000-14", "000-40", "004-72", "ba2016-3", "frankle2021-1"}
POINTS = re.compile(r"\bpoints\b|\bin a hundred\b")


def barred_in_points(texts):
    """The claims that are decided by a bar in points, by the note that stands above its trial."""
    for claim, entry in EXPERIMENTS.items():
        name = entry.trial.partition(".")[2]
        note = re.search(rf"((?:^#.*\n)*)^{name} = Trial", texts[entry.trial], re.M)[1]
        if POINTS.search(note) and entry.verdict != UNDECIDED:
            yield claim


def test_no_new_claim_is_decided_by_an_absolute_bar_in_points_of_accuracy():
    texts = {name: (ROOT / path).read_text("utf-8") for name, path in MODULES.items()}
    assert {*barred_in_points(texts)} <= IN_POINTS
    texts = {name: text.replace("A tenth", "Two points") for name, text in texts.items()}
    assert {*barred_in_points(texts)} > IN_POINTS


def test_every_trial_has_ten_fresh_seeds_of_its_own_and_all_of_them_are_stored():
    for name, trial in TRIALS.items():
        assert trial.name == name and len(trial.seeds) >= 10 and min(trial.seeds) >= FIRST_SEED
        assert {len(column) for column in trial.results.values()} == {len(trial.seeds)}, name
    seeds = [seed for trial in TRIALS.values() for seed in trial.seeds]
    assert len({*seeds}) == len(seeds)


# What was settled beforehand.


def read_settings(source, name):
    """The bounds and the seeds that a module assigns to a trial, as they are written."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            given = {k.arg: k.value for k in node.value.keywords}
            return {key: ast.unparse(given[key]) for key in ("seeds", "bounds")}
    return None


def at_commit(commit, path):
    """What a file held then, where it lies now or where it lay until it moved."""
    once = path.replace("normbook/studies", "normlib/experiments").replace("normbook", "normlib")
    tried = (run("git", "show", f"{commit}:{place}") for place in (path, once))
    return next((found.stdout for found in tried if found.returncode == 0), None)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_bounds_and_seeds_of_a_trial_were_committed_before_it_was_run(name):
    claim = EXPERIMENTS[name]
    if run("git", "rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("there is no whole git history")
    path, attribute = MODULES[claim.trial], claim.trial.partition(".")[2]
    before = at_commit(claim.setup, path)
    now = read_settings((ROOT / path).read_text("utf-8"), attribute)
    assert now and before and read_settings(before, attribute) == now
    held = at_commit(claim.setup, FILES[claim.trial])  # of a trial that was set up again: others
    assert not held or not {*json.loads(held)["found"]["seed"]} & {*TRIALS[claim.trial].seeds}


# Trials are run, kept, and begun again.


@pytest.mark.parametrize("name", TRIALS)
def test_a_page_repeats_the_beginning_of_every_trial(name):
    repeating = (cell.source for _, cell in read_cells() if ".repeat()" in cell.source)
    assert any(re.search(rf"\b{name.partition('.')[2]}\b", source) for source in repeating)


FORGED = {
    "other seeds": lambda values: [*values[1:], values[0]],
    "another sign": lambda values: [-value for value in values],
    "a row less": lambda values: values[:-1],
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("name", TRIALS)
def test_forged_results_are_refused(name, forge, monkeypatch, tmp_path):
    stored = json.loads((ROOT / FILES[name]).read_text("utf-8"))
    stored["found"] |= {k: forge(v) for k, v in stored["found"].items() if k != "seed"}
    (tmp_path / f"{name}.json").write_text(json.dumps(stored), "utf-8")
    monkeypatch.setattr(trials, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=f"{name}: expected the numbers"):
        _ = TRIALS[name].results


def trained(seed):
    """Twelve steps of descent on (w − seed)², which part by seed; and what needs no training."""
    walk = training.walk({"w": 1.0}, lambda p, _: (0.0, {"w": 2 * (p["w"] - seed)}), range(12), 0.1)
    *_, last = walk
    return {"weight": last.after["w"], "effect": float(np.random.default_rng(seed).normal())}


SMALL = Trial(trained, seeds=range(10), bounds={})


@pytest.fixture
def small(monkeypatch, tmp_path):
    """A trial whose seeds were run, and whose file lies in a folder of its own."""
    monkeypatch.setattr(trials, "FOLDER", tmp_path)
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    monkeypatch.setattr(tool, "find_trial", lambda _: SMALL)
    here = {"begin": tool.begin, "measure": tool.measure}
    monkeypatch.setattr(tool, "under", lambda _, function, *given: here[function](*given))
    tool.main([SMALL.name])
    return SMALL


def test_what_a_trial_measured_is_kept_and_its_beginning_can_be_repeated(small):
    assert [*small.results["seed"]] == [*range(10)] and len(small.results["effect"]) == 10
    assert small.stored()["beginning"]["steps"] == [12]
    small.repeat()


@pytest.mark.parametrize(
    "run",
    [
        lambda seed: trained(seed + 1),
        lambda seed: {name: -value for name, value in trained(seed).items()},
        lambda seed: trained(seed) | {"weight": trained(seed)["weight"] * (1 + 1e-5)},
    ],
    ids=["another seed", "another sign", "another measure"],
)
def test_a_trial_that_is_no_longer_what_was_run_is_seen(small, monkeypatch, run):
    monkeypatch.setattr(Trial, "name", small.name)
    with pytest.raises(AssertionError, match=small.name):
        small._replace(run=run).repeat()


def sides(found, bounds):
    """For each measure and bound, whether the interval lies above, below or across."""
    ends = {name: interval(values) for name, values in found.items()}
    return {
        (name, bound): np.sign(each.low - bound) + np.sign(each.high - bound)
        for name, each in ends.items()
        for bound in bounds
    }


PARTING = [name for name, trial in TRIALS.items() if trial.elsewhere]


@pytest.mark.parametrize("name", PARTING)
def test_no_interval_changes_its_side_of_a_bound_under_another_instruction_set(name):
    trial = TRIALS[name]
    bounds = {*trial.bounds.values()}
    assert sides(trial.elsewhere, bounds) == sides(trial.results, bounds)
