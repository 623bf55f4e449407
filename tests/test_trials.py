"""What decides a claim by an experiment was settled before its seeds were run."""

import ast
import importlib
import itertools
import json
import pkgutil

import numpy as np
import pytest
import trials as tool
from project import ROOT, run

from normlib import experiments
from normlib.claims import EXPERIMENT, Interval, interval, register
from normlib.experiments import trials
from normlib.experiments.trials import Trial

EXPERIMENTS = {c.id: c for c in register().claims.values() if c.evidence == EXPERIMENT and c.trial}
FIRST_SEED = 1000


def every_trial():
    """All trials of the library by name, whether an entry names them or a page shows them only."""
    for found in pkgutil.iter_modules(experiments.__path__):
        module = importlib.import_module(f"{experiments.__name__}.{found.name}")
        for name, value in vars(module).items():
            if isinstance(value, Trial):
                yield f"{found.name}.{name}", value


TRIALS = dict(every_trial())
MODULES = {name: f"normlib/experiments/{name.partition('.')[0]}.py" for name in TRIALS}
FILES = {name: f"normlib/data/trials/{name}.json" for name in TRIALS}


def test_an_interval_holds_the_mean_of_normal_effects_in_95_of_100_draws():
    rng = np.random.default_rng(0)
    found = [interval(rng.normal(3, 2, size=10)) for _ in range(2000)]
    share = np.mean([each.low < 3 < each.high for each in found])
    assert abs(share - 0.95) < 3 * np.sqrt(0.95 * 0.05 / 2000)


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


def test_an_interval_is_shown_by_its_mean_and_its_ends():
    assert str(Interval(0.1234, 0.5, 1)) == "0.5 (0.123 to 1)"


# The trials of the register.


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_trial_with_a_bound_for_its_claim(name):
    assert name in TRIALS[EXPERIMENTS[name].trial].bounds


@pytest.mark.parametrize("name", TRIALS)
def test_every_trial_has_ten_fresh_seeds_and_all_of_them_are_stored(name):
    found = json.loads((ROOT / FILES[name]).read_text("utf-8"))
    assert found["seed"] == [*TRIALS[name].seeds] and len(found["seed"]) >= 10
    assert min(found["seed"]) >= FIRST_SEED
    assert {len(column) for column in found.values()} == {len(found["seed"])}


def shared(seeds):
    """The pairs of names whose seeds have one in common."""
    return [(a, b) for a, b in itertools.combinations(seeds, 2) if {*seeds[a]} & {*seeds[b]}]


def test_no_two_trials_share_a_seed():
    assert shared({name: trial.seeds for name, trial in TRIALS.items()}) == []
    assert shared({"a": range(3), "b": range(2, 4), "c": range(4, 6)}) == [("a", "b")]


DRAWS = {"default_rng", "manual_seed", "RandomState", "seed"}


def seeds_in(source):
    """The whole numbers that a source hands to a random generator, or binds to a name of seeds."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            given = node.args if called in DRAWS else []
            if called != "Trial":
                given = [*given, *(k.value for k in node.keywords if k.arg in ("seed", "seeds"))]
        elif isinstance(node, ast.Assign) and "seed" in ast.unparse(node.targets[0]).lower():
            given = [node.value]
        else:
            continue
        yield from numbers(given)


def numbers(expressions):
    constants = (n for e in expressions for n in ast.walk(e) if isinstance(n, ast.Constant))
    return [c.value for c in constants if type(c.value) is int]


def sources():
    for path in [*ROOT.glob("normlib/**/*.py"), *ROOT.glob("tools/*.py")]:
        yield path.name, path.read_text("utf-8")
    for path in ROOT.glob("chapters/**/*.ipynb"):
        cells = json.loads(path.read_text("utf-8"))["cells"]
        code = (c for c in cells if c["cell_type"] == "code")
        yield path.name, "\n".join("".join(cell["source"]) for cell in code)


def test_seeds_of_trials_are_used_by_nothing_else():
    taken = {seed for trial in TRIALS.values() for seed in trial.seeds}
    elsewhere = {(name, seed) for name, source in sources() for seed in seeds_in(source)}
    assert not {pair for pair in elsewhere if pair[1] in taken}


def test_a_seed_that_something_else_uses_is_seen():
    assert [*seeds_in("rng = np.random.default_rng(1003)\nx = f(7)")] == [1003]
    assert [*seeds_in("SEEDS = (1, 2)\nrun(seed=5)")] == [1, 2, 5]
    assert [*seeds_in("SHAPE = Trial(run, seeds=range(1000, 1010))")] == []


# What was settled beforehand.


def settled(source, name):
    """The bounds and the seeds that a module assigns to a trial, as they are written."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            given = {k.arg: k.value for k in node.value.keywords}
            return {key: ast.unparse(given[key]) for key in ("seeds", "bounds")}
    return None


def at_commit(commit, path):
    found = run("git", "show", f"{commit}:{path}")
    return found.stdout if found.returncode == 0 else None


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_bounds_and_seeds_of_a_trial_were_committed_before_it_was_run(name):
    claim = EXPERIMENTS[name]
    if run("git", "cat-file", "-e", claim.setup).returncode:
        pytest.skip("the commit of the set-up is not here: there is no whole git history")
    path, attribute = MODULES[claim.trial], claim.trial.partition(".")[2]
    before = at_commit(claim.setup, path)
    now = settled((ROOT / path).read_text("utf-8"), attribute)
    assert now and before and settled(before, attribute) == now
    assert at_commit(claim.setup, FILES[claim.trial]) is None


def test_a_trial_whose_bound_was_moved_is_seen():
    written = "SHAPE = Trial(run, seeds=range(1000, 1010), bounds={'a': 0.5})"
    assert settled(written, "SHAPE") != settled(written.replace("0.5", "0.4"), "SHAPE")
    assert settled(written, "OTHER") is None  # and not the same as settled


# Trials are run, kept, and run again.


def measured(seed):
    return {"effect": float(np.random.default_rng(seed).normal()), "seed squared": float(seed**2)}


def test_what_a_trial_measured_is_kept_and_a_seed_of_it_can_be_repeated(monkeypatch, tmp_path):
    small = Trial(measured, seeds=range(10), bounds={})
    monkeypatch.setattr(tool, "FOLDER", tmp_path)
    monkeypatch.setattr(tool, "named", lambda _: small)
    tool.main(["small"])
    found = trials.stored(tmp_path / "small.json")
    assert [*found["seed"]] == [*range(10)] and len(found["effect"]) == 10
    assert trials.off(small, found) < 1e-5
    other = small._replace(run=lambda seed: measured(seed + 1))
    assert trials.off(other, found) > 0.1


def test_a_trial_that_does_not_exist_is_refused():
    with pytest.raises(SystemExit, match=r"expected MODULE\.TRIAL"):
        tool.named("nowhere.TRIAL")
