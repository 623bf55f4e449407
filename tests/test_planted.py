"""Every planted error is caught at least twice, and the honest layer not at all."""

from functools import partial

import numpy as np
import pytest
from cases import batch_norm_args, inference_args

import normlib
from normlib import (
    batch_norm,
    batch_norm_backward,
    batch_norm_inference,
    batch_norm_inference_backward,
    verify,
)
from normlib.verify import evidence
from normlib.verify.planted import EDITS, falsify, planted_errors
from normlib.verify.run import WITNESSES

PAIR = batch_norm, batch_norm_backward
INFERENCE = batch_norm_inference, batch_norm_inference_backward
ARGS = batch_norm_args((8, 3), np.random.default_rng(0))
ERRORS = [error.name for error in planted_errors(*PAIR)]
WRONG_FORWARDS = ["ddof = 1, forward and backward", "eps outside the root, forward and backward"]


@pytest.fixture(scope="module")
def table() -> dict[str, set[str]]:
    """For each planted error, the witnesses that catch it."""
    found = falsify(*PAIR, ARGS, rng=np.random.default_rng(1), **evidence.batch_norm())
    assert found.caught.shape == (len(found.errors), len(WITNESSES))
    return {
        error: {w for w, hit in zip(found.witnesses, row, strict=True) if hit}
        for error, row in zip(found.errors, found.caught, strict=True)
    }


def test_at_least_twelve_different_errors_are_planted_in_batch_norm():
    assert len(set(ERRORS)) == len(ERRORS) >= 12


@pytest.mark.parametrize("error", ERRORS)
def test_each_planted_error_is_caught_by_two_witnesses_or_more(table, error):
    assert len(table[error]) >= 2


@pytest.mark.parametrize("error", WRONG_FORWARDS)
def test_a_wrong_forward_with_its_own_right_gradient_is_caught_by_the_reference_alone(table, error):
    assert "forward" in table[error]
    assert not table[error] & {"exact", "complex step", "central differences"}


def test_an_error_of_the_backward_alone_is_never_blamed_on_the_forward(table):
    for error in set(ERRORS) - {*WRONG_FORWARDS}:
        assert "forward" not in table[error], error


@pytest.mark.parametrize("witness", WITNESSES)
def test_every_witness_catches_something(table, witness):
    assert any(witness in caught for caught in table.values())


def test_the_honest_layer_is_caught_by_none():
    verdict = verify.backward(*PAIR, ARGS, rng=np.random.default_rng(1), **evidence.batch_norm())
    assert verdict.caught_by == ()


@pytest.mark.parametrize("error", EDITS)
def test_every_edit_finds_its_text_in_the_shipped_code(error):
    """An edit that has lost its place would drop out of the table in silence."""
    pairs = [
        (getattr(normlib, name), getattr(normlib, f"{name}_backward"))
        for name in normlib.__all__
        if f"{name}_backward" in normlib.__all__
    ]
    assert any(error in {twin.name for twin in planted_errors(*pair)} for pair in pairs)


def test_every_planted_twin_differs_from_the_shipped_layer_and_leaves_it_alone():
    dy = np.random.default_rng(2).standard_normal(ARGS[0].shape)

    def values(forward, backward) -> np.ndarray:
        y, cache = forward(*ARGS)
        return np.concatenate([np.ravel(a) for a in (y, *backward(dy, cache))])

    shipped = values(*PAIR)
    for error in planted_errors(*PAIR):
        assert not np.allclose(values(error.forward, error.backward), shipped, rtol=1e-7), (
            error.name
        )
    assert np.array_equal(values(*PAIR), shipped)


def test_twins_of_a_layer_with_bound_keywords_bind_them_too():
    for error in planted_errors(partial(batch_norm, eps=0.5), batch_norm_backward):
        y = error.forward(*ARGS)[0]
        # the variance is about 1: with eps = 1e-5 y would be larger by more than a tenth
        assert np.std(y - ARGS[2]) < 0.95 * np.std(batch_norm(*ARGS)[0] - ARGS[2]), error.name


def test_the_planted_errors_of_batch_norm_at_inference_are_caught_as_well():
    args = inference_args((6, 3), np.random.default_rng(3))
    for error in planted_errors(*INFERENCE):
        with pytest.raises(verify.VerificationError) as raised:
            verify.backward(error.forward, error.backward, args, rng=np.random.default_rng(4))
        assert len(raised.value.verdict.caught_by) >= 2, error.name
