"""Every layer stands before every witness, and the report shows what was found on it."""

from collections import defaultdict

import numpy as np
import pytest
import records

import normlib
from normlib import evidence, verify
from normlib.evidence import CASES
from normlib.verify.run import WITNESSES

# for the witnesses without algebra
NUMERIC = "reference", "flat", "reference_twice", "varied", "plants"
LARGE = {"matrix": (16, 32), "images": (8, 12, 6, 5)}
SMALL = {"matrix": (6, 4), "images": (4, 4, 2, 3)}
LAYERS = {
    case.name if form == case.forms[0] else f"{case.name}, {form}": (case, form)
    for case in CASES
    for form in case.forms
}


def kept(name, args, verdict, caught):
    """The worst error of each argument and witness, and how many planted errors were caught.

    caught: planted errors × witnesses, as `verify.falsify` returns it.
    """
    worst = defaultdict(dict)
    for c in verdict.checks:
        row = worst[c.argument].get(c.witness, {"error": 0.0, "bound": c.bound, "failures": []})
        row["error"] = max(row["error"], float(c.error))
        row["failures"] += [c.failure] * bool(c.failure)
        worst[c.argument][c.witness] = row
    hits = [int(row.sum()) for row in caught]
    return {
        "name": name,
        "witnesses": [w for w in WITNESSES if any(w in row for row in worst.values())],
        "shapes": [list(a.shape) for a in args],
        "arguments": dict(worst),
        "not run": [list(pair) for pair in verdict.not_run],
        "planted": len(hits),
        "caught": sum(hit > 0 for hit in hits),
        "fewest": min(hits, default=0),
    }


def judged(forward, backward, args, **options):
    """The verdict, red or not."""
    return verify.backward(forward, backward, args, **options | {"raises": False})


def test_every_layer_of_the_library_is_examined():
    pairs = {n for n in normlib.__all__ if f"{n}_backward" in normlib.__all__}
    assert pairs - {"standardize"} == {name.split(",")[0] for name in LAYERS}


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_passes_every_witness_and_every_planted_error_is_caught(name, record_property):
    case, form = LAYERS[name]
    rng = np.random.default_rng(0)
    forward, args = case.drawn(case.arguments(LARGE[form]), rng)
    options = {"rng": np.random.default_rng(1), **evidence.of(forward)}
    verdict = judged(forward, case.backward, args, **options)
    forward, small = case.drawn(case.arguments(SMALL[form]), rng)
    options = {name: evidence.of(forward)[name] for name in NUMERIC}
    options["rng"] = np.random.default_rng(2)
    caught = verify.falsify(forward, case.backward, small, **options).caught
    entry = kept(name, args, verdict, caught)
    record_property(records.LAYER, entry)
    assert not verdict.red and {check.witness for check in verdict.checks} == set(WITNESSES)
    assert entry["planted"] == case.errors and entry["fewest"] >= 2
