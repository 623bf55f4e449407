"""All layers of the family: number systems, the edges, far from zero, and numbers by hand."""

from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
import torch
from numpy.testing import assert_allclose, assert_array_equal

import normlib
from normlib import evidence, verify
from normlib.evidence import CASES
from normlib.verify.pair import as_tuple
from normlib.verify.signature import as_called, data, keep_named

NORMS = [case for case in CASES if case.name != "batch_norm_inference"]  # with statistics of x


def name_of(case):
    return case.name


@pytest.mark.parametrize(
    "into",
    [lambda a: a + 0j, torch.tensor, np.vectorize(lambda v: sp.Float(v, 30), otypes=[object])],
)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_every_number_system_gives_the_same_values(case, into):
    rng = np.random.default_rng(2)
    forward, args = case.drawn(case.examples[2], rng)
    y, cache = forward(*args)
    dy = rng.standard_normal(y.shape)
    bound = {k: into(v) for k, v in data(forward).items()}
    other_y, other_cache = forward(*map(into, args), **bound)
    others = (other_y, *as_tuple(case.backward(into(dy), other_cache)))
    for ours, other in zip((y, *as_tuple(case.backward(dy, cache))), others, strict=True):
        assert_allclose(np.asarray(other, dtype=complex), ours, atol=1e-12)


def one_slice(case, args):
    """Where the entries stand that share a statistic with the first entry of x."""
    one = np.zeros(args[0].shape)
    one.flat[0] = 1.0
    return case.flat(**keep_named(case.flat, case.keywords)).mean(one, *args) != 0


@pytest.mark.parametrize("case", NORMS, ids=name_of)
def test_nan_stays_in_its_slice(case):
    rng = np.random.default_rng(4)
    forward, args = case.drawn(case.examples[3], rng)
    dy = rng.standard_normal(args[0].shape)
    y, cache = forward(*args)
    dx = as_tuple(case.backward(dy, cache))[0]
    inside = one_slice(case, args)
    spoilt = args[0].copy()
    spoilt.flat[0] = np.nan
    y_spoilt, cache = forward(spoilt, *args[1:])
    dx_spoilt = as_tuple(case.backward(dy, cache))[0]
    assert np.isnan(y_spoilt[inside]).all()
    assert_array_equal(y_spoilt[~inside], y[~inside])
    assert_array_equal(dx_spoilt[~inside], dx[~inside])


# float32 with a mean of 1e4 and a deviation of 1.

LARGE = [(4096, 64), (100_000, 8), (64, 16, 32, 32)]


@pytest.mark.parametrize("shape", LARGE)
@pytest.mark.parametrize("name", ["batch_norm", "layer_norm", "group_norm", "instance_norm"])
def test_in_float32_far_from_zero_the_errors_are_small_and_below_torchs(name, shape):
    if name == "instance_norm" and len(shape) == 2:
        shape = (1, 8, shape[0])  # positions in place of samples
    case, rng = getattr(evidence, name), np.random.default_rng(5)
    forward, (x, gamma, beta) = case.drawn(case.arguments(shape), rng)
    args = [a.astype(np.float32) for a in (x + 1e4, 0 * gamma + 1, 0 * beta)]
    dy = rng.standard_normal(shape).astype(np.float32)

    def compute(kind):
        y, cache = forward(*(a.astype(kind) for a in args))
        return y, case.backward(dy.astype(kind), cache)[0]

    tensors = [torch.tensor(a, requires_grad=True) for a in args]
    torch_y = as_called(case.reference, forward, 3)(*tensors)
    (torch_dx,) = torch.autograd.grad(torch_y, tensors[0], torch.tensor(dy))
    theirs = torch_y.detach().numpy(), torch_dx.numpy()
    for ours, other, truth in zip(compute(np.float32), theirs, compute(float), strict=True):
        error = np.abs(ours - truth).max()
        assert error < 1e-3 and error < np.abs(other - truth).max()


@pytest.mark.parametrize("shape", LARGE)
def test_in_float32_far_from_zero_running_statistics_and_scalings_keep_their_digits(shape):
    x = (1e4 + np.random.default_rng(9).standard_normal(shape)).astype(np.float32)
    start = np.zeros(shape[1], np.float32), np.ones(shape[1], np.float32)
    mean, var = normlib.update_running(*start, x, momentum=1.0)
    x = np.moveaxis(x, 1, -1).reshape(-1, shape[1])
    assert_allclose(mean, x.mean(axis=0, dtype=float), rtol=0, atol=1e-3)  # one ulp of 1e4
    assert_allclose(var, x.var(axis=0, ddof=1, dtype=float), rtol=1e-4)
    scaled, truth = (
        normlib.apply_scaling(a, normlib.fit_standard(a)) for a in (x, x.astype(float))
    )
    naive = (x - x.mean(axis=0)) / x.std(axis=0)
    assert scaled.dtype == np.float32 and np.abs(scaled - truth).max() < 1e-3
    assert np.abs(scaled - truth).max() < np.abs(naive - truth).max()


def test_a_first_value_far_from_all_others_costs_no_digits():
    """It is what is subtracted first; the second mean removes what this leaves in float32."""
    x = np.random.default_rng(12).standard_normal((100_000, 2)).astype(np.float32)
    x[0] = far = 1e4
    gamma = np.ones(2, np.float32)
    truth, cache = normlib.batch_norm(*(a.astype(float) for a in (x, gamma, 0 * gamma)))
    y = normlib.batch_norm(x, gamma, 0 * gamma)[0]
    rounded = np.finfo(np.float32).eps * far * cache.standardized.rstd.max()  # of x - x[0]
    assert np.abs(y - truth)[1:].max() < 10 * rounded


@pytest.mark.parametrize(
    ("n", "fraction", "k"),
    [
        (100, 0.07, 7), (100, Fraction(7, 100), 7), (100, np.float32(0.07), 7), (16, 1 / 16, 1),
        (17, 1 / 16, 2), (3, 1 / 3, 1), (3, 2 / 3, 2), (10, 0.01, 1), (7, 1, 7), (7, 1.0, 7),
        (6, 5 / 6, 5), (6, np.float32(5 / 6), 5), (17, np.float32(9 / 17), 9), (3, 1e-9, 1),
        (100_003, 1 / 100_003, 1), (3, Fraction(10**9 + 1, 3 * 10**9), 2),
    ],
)  # fmt: skip
def test_partial_rms_norm_rounds_up_and_takes_a_float_for_what_was_meant(n, fraction, k):
    assert normlib.partial_rms_norm(np.ones(n), np.ones(n), fraction=fraction)[1].k == k


@pytest.mark.parametrize("w", [0.0, np.inf, -np.inf])
def test_weights_whose_sigma_cannot_divide_them_are_refused(w):
    one = np.ones(1)
    with pytest.raises(ValueError, match=rf"uᵀ W v to divide by, but it is .*: {w};"):
        normlib.spectral_norm(np.array([[w]]), one, one)
    assert normlib.spectral_norm(np.array([[-2.0]]), one, one)[0] == 1


def divide_by_lengths(v, g):
    """The layers that divide by the root of a sum of squares, on rows like these."""
    w, cache = normlib.weight_norm(v, g)
    dv, dg = normlib.weight_norm_backward(np.ones_like(v), cache)
    length = np.linalg.norm(v.astype(float))
    return w, dv * length, dg, *normlib.power_iteration(v, g, v[0] / v.max())


@pytest.mark.parametrize(
    ("dtype", "small", "large"), [(np.float32, 1e-17, 1e18), (np.float64, 1e-150, 1e153)]
)
def test_lengths_that_the_docstrings_allow_lose_no_digits_and_others_are_refused(
    dtype, small, large
):
    rng = np.random.default_rng(16)
    v, g = rng.uniform(-1, 1, (3, 50)), rng.standard_normal(3).astype(dtype)
    v = (v / np.linalg.norm(v, axis=1, keepdims=True)).astype(dtype)  # rows of length one
    expected, u = divide_by_lengths(v, g), np.finfo(dtype).eps / 2
    for scale in (small, large):
        for ours, theirs in zip(divide_by_lengths(v * dtype(scale), g), expected, strict=True):
            # the sums of 50 products, of both; at lengths of 1e-20 and 1e-155 it would be seen
            assert_allclose(ours, theirs, rtol=0, atol=200 * u * np.abs(theirs).max())
    for scale in (small * small, large * 100):
        far = v * dtype(scale)
        with np.errstate(over="ignore"):
            with pytest.raises(ValueError, match="squares"):
                normlib.weight_norm(far, g)
            with pytest.raises(ValueError, match="squares"):
                normlib.power_iteration(far, g, far[0] / far.max())


def test_power_iteration_finds_the_largest_singular_value_in_torchs_order():
    w = np.diag([3.0, 1.0])
    u, v = np.array([0.0, 1.0]), np.array([0.6, 0.8])
    u1, _ = normlib.power_iteration(w, u, v)
    expected = np.array([1.8, 0.8]) / np.hypot(1.8, 0.8)  # from v alone: u is not used
    assert_allclose(u1, expected, rtol=1e-15)
    u9, v9 = normlib.power_iteration(w, u, v, iterations=40)
    assert_allclose(u9 @ w @ v9, 3.0, rtol=1e-15)
    assert_array_equal(v, [0.6, 0.8])


def test_torchs_own_double_backward_of_weight_norm_is_still_wrong():
    """If this fails, PyTorch has fixed it: set reference_twice, and tell the readers."""
    case, rng = evidence.weight_norm, np.random.default_rng(9)
    forward, args = case.drawn(case.examples[0], rng)
    with pytest.raises(verify.VerificationError, match="double backward of torch's layer"):
        verify.backward(forward, case.backward, args, rng=rng, reference=case.reference)


def test_scalings_of_three_samples_have_the_values_found_by_hand():
    x = np.array([[1.0, -4.0, 7.0], [3.0, 4.0, 7.0], [4.0, 0.0, 7.0]])
    assert_array_equal(normlib.fit_min_max(x), ([1.0, -4.0, 7.0], [3.0, 8.0, 1.0]))  # to 0 … 1
