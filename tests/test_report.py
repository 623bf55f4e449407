"""Every layer stands before every witness. Each of these tests writes the record of one layer."""

import numpy as np
import pytest
import record

from normlib import evidence, verify
from normlib.evidence import CASES
from normlib.verify.run import WITNESSES

NUMERIC = (
    "reference",
    "flat",
    "reference_twice",
    "varied",
    "plants",
)  # for the witnesses without algebra
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
    record_property(record.LAYER, entry)
    assert not verdict.red and {check.witness for check in verdict.checks} == set(WITNESSES)
    assert entry["caught"] == entry["planted"] == LAYERS[name][0].errors
