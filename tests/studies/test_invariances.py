"""The table of invariances: proved and measured alike, and a layer gone wrong turns a cell over."""

import numpy as np
import pytest

import normlib
from normbook.studies import invariances
from normbook.studies.invariances import CHANGES, LAYERS, NO, YES, answers, gaps, proof
from normlib.verify.planted import plant, plant_in

TABLE = {  # as printed by Ba et al. (2016) and Zhang and Sennrich (2019), and four rows of ours
    "batch": "101110",
    "weight": "101000",
    "layer": "110101",
    "RMS": "100101",
    "partial RMS": "100101",
    "group": "110101",
    "instance": "101111",
    "spectral": "100000",
    "mean-only batch": "101010",
}
CENTRE = "centered(x, axes) if center else x"


def expected(name: str) -> tuple[str, ...]:
    return tuple(YES if said == "1" else NO for said in TABLE[name])


def twin(norm, shipped: str, changed: str):
    backward = getattr(normlib, f"{norm.__name__}_backward")
    return plant_in(norm, backward, plant("twin", "standardize", shipped, changed))[0]


@pytest.mark.parametrize("name", LAYERS)
def test_every_cell_is_measured_as_expected(name):
    assert answers(gaps(name, draws=50)) == expected(name)


def test_a_layer_without_its_mean_turns_a_cell_over_in_the_measured_table_and_in_the_proof():
    wrong = invariances.of_summed_inputs(twin(normlib.layer_norm, CENTRE, "x"))
    assert answers(gaps("layer", wrong, draws=20)) == expected("RMS") != expected("layer")
    net, shift = invariances.net_of_symbols("layer"), CHANGES["W' = W + 1cᵀ"]
    assert invariances.is_identity(LAYERS["layer"], shift, net)
    assert not invariances.is_identity(wrong, shift, net)


def test_a_layer_that_became_blind_has_no_counterexample_and_no_proof_of_a_no(monkeypatch):
    centred = twin(normlib.rms_norm, CENTRE, "centered(x, axes)")
    monkeypatch.setitem(LAYERS, "RMS", invariances.of_summed_inputs(centred))
    assert invariances.counterexample("RMS", CHANGES["W' = W + 1cᵀ"]) is None
    assert proof("RMS", "W' = W + 1cᵀ") == YES


@pytest.mark.parametrize("name", LAYERS)
def test_counterexamples_agree_with_the_shipped_layer_in_floating_point(name):
    net = invariances.example(name)
    for change in CHANGES.values():
        found = invariances.counterexample(name, change)
        if found:
            floats = invariances.Net(*(part.astype(float) for part in net))
            moved = change(floats, 2.0, invariances.SHIFT.astype(float))
            seen = [LAYERS[name](n, 0.0) for n in (floats, moved)]
            exact = float(found.before), float(found.after)
            np.testing.assert_allclose([y[found.entry] for y in seen], exact, atol=1e-12)


def test_the_singular_vectors_of_a_matrix_of_whole_numbers_are_exact():
    w = invariances.example("spectral").w
    u, v = invariances.leading_vectors(w + invariances.SHIFT)
    assert u @ (w + invariances.SHIFT) @ v == 3
    floats = invariances.leading_vectors((w + invariances.SHIFT).astype(float))
    assert abs(abs(float((u * floats[0]).sum())) - 1) < 1e-12
    assert abs(abs(float((v * floats[1]).sum())) - 1) < 1e-12
