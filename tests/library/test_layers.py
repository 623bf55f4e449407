"""Batch norm and its core: numbers by hand, number systems, and the edges of floating point."""

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
import torch
from cases import batch_norm_args, inference_args
from numpy.testing import assert_allclose, assert_array_equal

from normlib import (
    batch_norm,
    batch_norm_backward,
    batch_norm_inference,
    batch_norm_inference_backward,
    standardize,
    update_running,
)

# Numbers by hand. With eps = 1/3 the variance 2/3 of 1, 2, 3 becomes 1, and all is rational.
# Two ulps are allowed wherever a third or a square root enters.
TWO_ULPS = {"rtol": 5e-16, "atol": 5e-16}


X, DY = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0], [2.0], [6.0]])


def test_batch_norm_of_1_2_3_has_the_values_found_by_hand():
    y, cache = batch_norm(X, np.array([2.0]), np.array([10.0]), eps=1 / 3)
    dx, dgamma, dbeta = batch_norm_backward(DY, cache)
    assert_allclose(y, [[8.0], [10.0], [12.0]], **TWO_ULPS)
    # d = 2 dy = 2, 4, 12 with mean 6; mean(d xhat) = 10/3
    assert_allclose(dx, [[-2 / 3], [-2.0], [8 / 3]], rtol=2e-15)
    assert_allclose((dgamma, dbeta), ([5.0], [9.0]), **TWO_ULPS)


def test_an_array_without_channels_gives_arrays_without_channels():
    x, none = np.ones((4, 0, 2)), np.ones(0)
    for values in (batch_norm(x, none, none)[0], *update_running(none, none, x)):
        assert values.size == 0


def test_inference_has_the_values_found_by_hand():
    one = [np.array([v]) for v in (1.0, 3.0, 4.0, 1.0)]  # mean, var, gamma, beta
    y, cache = batch_norm_inference(np.array([[3.0], [5.0]]), *one, eps=1.0)
    assert_array_equal(y, [[5.0], [9.0]])
    gradients = batch_norm_inference_backward(np.array([[1.0], [3.0]]), cache)
    by_hand = [[2.0], [6.0]], [-8.0], [-3.5], [7.0], [4.0]
    for ours, expected in zip(gradients, by_hand, strict=True):
        assert_array_equal(ours, expected)


# The number systems.


@pytest.mark.parametrize("kind", [float, int, np.float64, np.float32, Fraction])
def test_float32_stays_float32_whatever_type_eps_and_momentum_have(kind):
    x, mean, var, gamma, beta = (
        a.astype(np.float32) for a in inference_args((3, 2, 2), np.random.default_rng(0))
    )
    y, cache = batch_norm(x, gamma, beta, eps=kind(1))
    z, _ = batch_norm_inference(x, mean, var, gamma, beta, eps=kind(1))
    moved = update_running(mean, var, x, momentum=kind(1))
    every = (y, z, *batch_norm_backward(x, cache), *moved)
    assert {a.dtype for a in every} == {np.dtype(np.float32)}


def test_an_exact_eps_stays_exact_among_symbols_and_a_tensor_may_be_one():
    third = sp.Rational(1, 3)
    xhat, _ = standardize(np.array([[sp.Symbol("x")]]), axes=(0,), eps=third, center=False)
    assert xhat[0, 0].has(third)
    x, one, eps = torch.tensor([[0.0], [2.0]]), torch.ones(1), torch.tensor(9 / 16)
    y, _ = batch_norm(x, one, 0 * one, eps=eps)  # the root of 1 + 9/16 is 5/4
    assert_allclose(y.numpy(), [[-0.8], [0.8]], rtol=1e-6)


# The edges of floating point.


def test_at_inference_nan_stays_in_its_entry():
    x, *rest = inference_args((6, 3), np.random.default_rng(4))
    bad = x.copy()
    bad[1, 0] = np.nan
    spoilt, expected = batch_norm_inference(bad, *rest)[0], batch_norm_inference(x, *rest)[0]
    expected[1, 0] = np.nan
    assert_array_equal(spoilt, expected)


@pytest.mark.parametrize("shape", [(2, 3), (1, 3, 2), (2, 3, 1, 1)])
def test_two_values_a_channel_at_eps_zero_pass_no_gradient(shape):
    rng = np.random.default_rng(8)
    (x, gamma, beta), dy = batch_norm_args(shape, rng), rng.standard_normal(shape)
    _, cache = batch_norm(x, gamma, beta, eps=0.0)
    assert_allclose(np.abs(cache.standardized.xhat), 1, rtol=1e-13)
    size = (cache.standardized.rstd * np.abs(dy)).max() * np.abs(gamma).max()
    assert np.abs(batch_norm_backward(dy, cache)[0]).max() <= 1e-14 * size
