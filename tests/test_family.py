"""The other layers of the family, each against torch's own: shapes, float32, and the edges."""

import math
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import sympy as sp
import torch
from numpy.testing import assert_allclose, assert_array_equal

import normlib
from normlib import verify
from normlib.verify import evidence

# name: forward, backward, evidence for x, the shapes of the other arguments for a shape of x
FAMILY = {
    "layer_norm": [
        ((5,), 1), ((4, 5), 1), ((1, 5), 1), ((2, 3, 4), 1), ((2, 3, 4), 2), ((2, 3, 4), 3),
        ((2, 3, 2, 4), 2), ((2, 1, 3, 1, 4), 3), ((3, 1, 4), 2), ((1, 2, 2, 2, 2), 4),
    ],
    "rms_norm": [
        ((5,), 1), ((4, 5), 1), ((4, 1), 1), ((2, 3, 4), 2), ((2, 3, 2, 4), 3),
        ((2, 1, 3, 1, 4), 2), ((1, 1, 1, 1, 3), 1),
    ],
    "partial_rms_norm": [
        ((5,), 1), ((4, 6), 1), ((4, 1), 1), ((2, 3, 5), 1), ((2, 1, 2, 7), 1),
    ],
    "group_norm": [
        ((2, 4), 1), ((2, 4), 2), ((3, 4, 5), 4), ((3, 4, 5), 1), ((1, 6, 2, 3), 3),
        ((2, 2, 1, 2, 3), 2), ((2, 4, 1, 1), 2),
    ],
    "instance_norm": [((2, 3, 4), 3), ((1, 1, 5), 1), ((2, 3, 2, 2), 3), ((2, 3, 2, 1, 2), 3)],
    "mean_only_batch_norm": [((4, 3), 0), ((1, 3), 0), ((4, 3, 2), 0), ((2, 3, 2, 1, 2), 0)],
    "weight_norm": [((4, 5), 0), ((1, 5), 0), ((4, 1), 0), ((4, 3, 2), 0), ((4, 3, 2, 2, 1), 0)],
    "spectral_norm": [((4, 5), 0), ((1, 5), 0), ((5, 1), 0), ((4, 3, 2), 0), ((4, 3, 2, 2), 0)],
}  # fmt: skip
CASES = [pytest.param(n, *case, id=f"{n}-{case}") for n, cases in FAMILY.items() for case in cases]
FRACTION = Fraction(2, 5)
STATISTICS = [name for name in FAMILY if name not in ("weight_norm", "spectral_norm")]


def problem(name, shape, extra, rng, offset=0.0):
    """Forward (keywords bound), backward, arguments and evidence of a layer for a shape of x."""
    x = offset + rng.standard_normal(shape)
    trailing, channels = shape[len(shape) - extra :], shape[1:2]
    forward, backward = getattr(normlib, name), getattr(normlib, f"{name}_backward")
    if name == "spectral_norm":
        flat = x.reshape(len(x), -1)
        u, v = normlib.power_iteration(x, *map(rng.standard_normal, flat.shape))
        return partial(forward, u=u, v=v), backward, (x,), evidence.spectral_norm(u, v)
    known = {
        "layer_norm": lambda: evidence.layer_norm(len(shape), extra),
        "rms_norm": lambda: evidence.rms_norm(len(shape), extra),
        "partial_rms_norm": lambda: evidence.partial_rms_norm(FRACTION),
        "group_norm": lambda: evidence.group_norm(extra),
        "instance_norm": lambda: evidence.instance_norm(len(shape)),
        "mean_only_batch_norm": lambda: evidence.mean_only_batch_norm(len(shape)),
        "weight_norm": lambda: evidence.weight_norm(len(shape)),
    }[name]()
    parameters = {
        "layer_norm": (trailing, trailing),
        "rms_norm": (trailing,),
        "partial_rms_norm": (trailing,),
        "weight_norm": (shape[:1],),
        "mean_only_batch_norm": (channels,),
    }.get(name, (channels, channels))
    bound = {"group_norm": {"groups": extra}, "partial_rms_norm": {"fraction": FRACTION}}
    forward = partial(forward, **bound[name]) if name in bound else forward
    return forward, backward, (x, *map(rng.standard_normal, parameters)), known


def gradients(backward, dy, cache):
    found = backward(dy, cache)
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize(("name", "shape", "extra"), CASES)
def test_forward_and_backward_agree_with_torchs_own_layer(name, shape, extra):
    rng = np.random.default_rng(0)
    forward, backward, args, known = problem(name, shape, extra, rng, offset=1.0)
    y, cache = forward(*args)
    dy = rng.standard_normal(y.shape)
    tensors = [torch.tensor(a, requires_grad=True) for a in args]
    theirs = known["reference"](*tensors)
    # The largest cancelling term: all sums here have at most a few dozen terms of size one,
    # divided by the deviation, whose inverse is the largest factor in the Jacobian.
    scale = max(1.0, float(np.abs(y).max()), float(np.abs(dy).max()) / np.std(args[0]))
    assert_allclose(y, theirs.detach().numpy(), atol=1e-10 * scale, rtol=0)
    grads = torch.autograd.grad(theirs, tensors, torch.tensor(dy))
    for ours, reference in zip(gradients(backward, dy, cache), grads, strict=True):
        assert_allclose(ours, reference.numpy(), atol=1e-10 * scale, rtol=0)


@pytest.mark.parametrize(("name", "shape", "extra"), CASES)
def test_float32_stays_float32_and_nothing_is_written_to(name, shape, extra):
    rng = np.random.default_rng(1)
    forward, backward, args, _ = problem(name, shape, extra, rng)
    bound = {k: v.astype(np.float32) for k, v in verify.problem.data(forward).items()}
    args = [a.astype(np.float32) for a in args]
    dy = rng.standard_normal(forward(*args, **bound)[0].shape).astype(np.float32)
    for a in (*args, dy, *bound.values()):
        a.setflags(write=False)
    y, cache = forward(*args, **bound)
    first, again = gradients(backward, dy, cache), gradients(backward, dy, cache)
    assert {a.dtype for a in (y, *first)} == {np.dtype(np.float32)}
    for one, other in zip(first, again, strict=True):
        assert_array_equal(one, other)


def into_symbols(a):
    return np.vectorize(sp.Float, otypes=[object])(a, 30)


@pytest.mark.parametrize("into", [lambda a: a + 0j, torch.tensor, into_symbols])
@pytest.mark.parametrize("name", FAMILY)
def test_every_number_system_gives_the_same_values(name, into):
    shape, extra = FAMILY[name][2]
    rng = np.random.default_rng(2)
    forward, backward, args, _ = problem(name, shape, extra, rng)
    y, cache = forward(*args)
    dy = rng.standard_normal(y.shape)
    bound = {k: into(v) for k, v in verify.problem.data(forward).items()}
    other_y, other_cache = forward(*map(into, args), **bound)
    others = (other_y, *gradients(backward, into(dy), other_cache))
    for ours, other in zip((y, *gradients(backward, dy, cache)), others, strict=True):
        assert_allclose(np.asarray(other, dtype=complex), ours, atol=1e-12)


def slices(name, x, extra):
    """x with one row a slice: what shares a statistic. A view, so that it can be filled."""
    if name == "mean_only_batch_norm":
        return [x[:, channel] for channel in range(x.shape[1])]
    if name in ("layer_norm", "rms_norm", "partial_rms_norm"):
        return list(x.reshape(math.prod(x.shape[: x.ndim - extra]), -1))
    groups = x.reshape(x.shape[0], extra, -1)
    return [groups[n, g] for n in range(x.shape[0]) for g in range(extra)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, 1e4 + 0.1, -3e7])
@pytest.mark.parametrize("name", [n for n in STATISTICS if "rms" not in n])
def test_a_constant_slice_gives_exactly_beta_and_finite_gradients(name, value, dtype):
    rng = np.random.default_rng(3)
    shape, extra = FAMILY[name][2]
    forward, backward, args, _ = problem(name, shape, extra, rng)
    x, *parameters = (a.astype(dtype) for a in args)
    slices(name, x, extra)[0][...] = value
    y, cache = forward(x, *parameters)
    beta = parameters[-1]
    beside_x = beta if name == "layer_norm" else beta.reshape(1, -1, *[1] * (x.ndim - 2))
    expected = np.broadcast_to(beside_x, shape)
    assert_array_equal(slices(name, y, extra)[0], slices(name, expected, extra)[0])
    at_zero = forward(x, *parameters[:-1], 0 * beta)[0]
    assert_array_equal(slices(name, at_zero, extra)[0], 0)
    for gradient in gradients(backward, rng.standard_normal(y.shape).astype(dtype), cache):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("name", STATISTICS)
def test_nan_stays_in_its_slice(name):
    rng = np.random.default_rng(4)
    shape, extra = FAMILY[name][3]
    forward, backward, args, _ = problem(name, shape, extra, rng)
    dy = rng.standard_normal(shape)
    y, cache = forward(*args)
    dx = gradients(backward, dy, cache)[0]
    spoilt = args[0].copy()
    slices(name, spoilt, extra)[0].flat[0] = np.nan
    y_spoilt, cache = forward(spoilt, *args[1:])
    dx_spoilt = gradients(backward, dy, cache)[0]
    assert np.isnan(slices(name, y_spoilt, extra)[0]).all()
    for clean, other in ((y, y_spoilt), (dx, dx_spoilt)):
        for a, b in zip(
            slices(name, clean, extra)[1:], slices(name, other, extra)[1:], strict=True
        ):
            assert_array_equal(a, b)


LARGE = [(4096, 64), (100_000, 8), (64, 16, 32, 32)]


@pytest.mark.parametrize("shape", LARGE)
@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "instance_norm"])
def test_in_float32_far_from_zero_the_error_is_small_and_below_torchs(name, shape):
    if name == "instance_norm" and len(shape) == 2:
        shape = (8, 8, shape[0])  # positions in place of samples
    rng = np.random.default_rng(5)
    extra = {"layer_norm": 1, "group_norm": 4}.get(name, 0)
    forward, _, args, known = problem(name, shape, extra, rng, offset=1e4)
    x, gamma, beta = (a.astype(np.float32) for a in args)
    gamma, beta = 0 * gamma + 1, 0 * beta
    truth = forward(*(a.astype(float) for a in (x, gamma, beta)))[0]
    ours = np.abs(forward(x, gamma, beta)[0] - truth).max()
    torchs = known["reference"](*map(torch.tensor, (x, gamma, beta))).numpy()
    assert ours < 1e-3 and ours < np.abs(torchs - truth).max()


def test_group_norm_joins_layer_and_instance_norm_at_its_ends():
    rng = np.random.default_rng(6)
    x, gamma, beta = rng.standard_normal((3, 4, 2, 5)), np.ones(4), np.zeros(4)
    one, _ = normlib.group_norm(x, gamma, beta, groups=1)
    each, _ = normlib.group_norm(x, gamma, beta, groups=4)
    ones = np.ones(x.shape[1:])
    assert_allclose(one, normlib.layer_norm(x, ones, 0 * ones)[0], atol=1e-13)
    assert_array_equal(each, normlib.instance_norm(x, gamma, beta)[0])


def test_partial_rms_norm_measures_the_first_features_and_divides_all():
    y, _ = normlib.partial_rms_norm(np.array([3.0, 4.0, 100.0]), np.ones(3), fraction=0.5, eps=0.0)
    assert_allclose(y, np.array([3.0, 4.0, 100.0]) / np.sqrt(12.5), rtol=1e-15)  # (9 + 16) / 2


@pytest.mark.parametrize(
    ("n", "fraction", "k"),
    [
        (100, 0.07, 7), (100, Fraction(7, 100), 7), (100, np.float32(0.07), 7), (16, 1 / 16, 1),
        (17, 1 / 16, 2), (3, 1 / 3, 1), (3, 2 / 3, 2), (10, 0.01, 1), (7, 1, 7), (7, 1.0, 7),
    ],
)  # fmt: skip
def test_partial_rms_norm_rounds_up_and_takes_a_float_for_the_decimal_it_prints(n, fraction, k):
    assert normlib.partial_rms_norm(np.ones(n), np.ones(n), fraction=fraction)[1].k == k


def test_partial_rms_norm_of_all_features_is_rms_norm_forward_and_backward():
    x, dy = np.random.default_rng(11).standard_normal((2, 4, 5))
    gamma = np.arange(1.0, 6)
    y, cache = normlib.partial_rms_norm(x, gamma, fraction=1)
    expected, other = normlib.rms_norm(x, gamma)
    assert_allclose(y, expected, rtol=1e-14)
    pairs = normlib.partial_rms_norm_backward(dy, cache), normlib.rms_norm_backward(dy, other)
    for one, two in zip(*pairs, strict=True):
        assert_allclose(one, two, atol=1e-13)


def test_weight_norm_of_3_4_is_g_times_three_and_four_fifths():
    w, cache = normlib.weight_norm(np.array([[3.0, 4.0]]), np.array([10.0]))
    dv, dg = normlib.weight_norm_backward(np.array([[1.0, 0.0]]), cache)
    assert_allclose(w, [[6.0, 8.0]], rtol=5e-16)
    # dg = 3/5; dv = 10/5 · ((1, 0) - 3/5 · (3/5, 4/5)) = 2 · (16/25, -12/25)
    assert_allclose((dg[0], *dv[0]), (0.6, 1.28, -0.96), rtol=2e-15)


def test_power_iteration_finds_the_largest_singular_value_in_torchs_order():
    w = np.diag([3.0, 1.0])
    u, v = np.array([0.0, 1.0]), np.array([0.6, 0.8])
    u1, _ = normlib.power_iteration(w, u, v)
    expected = np.array([1.8, 0.8]) / np.hypot(1.8, 0.8)  # from v alone: u is not used
    assert_allclose(u1, expected, rtol=1e-15)
    u9, v9 = normlib.power_iteration(w, u, v, iterations=40)
    assert_allclose(u9 @ w @ v9, 3.0, rtol=1e-15)
    assert_array_equal(v, [0.6, 0.8])


def test_the_errors_of_a_mean_have_no_effect_on_rms_norm_and_are_named():
    forward, backward, args, known = problem("rms_norm", (4, 5), 1, np.random.default_rng(8))
    known = {"reference": known["reference"]}
    table = verify.falsify(forward, backward, args, rng=np.random.default_rng(8), **known)
    assert len(table.without_effect) == 3
    assert all("dx" in n or "mean" in n for n in table.without_effect)


def test_torchs_own_double_backward_of_weight_norm_is_still_wrong():
    """If this fails, PyTorch has mended it: set reference_twice, and tell the readers."""
    forward, backward, args, known = problem("weight_norm", (4, 5), 0, np.random.default_rng(9))
    known = {"reference": known["reference"]}
    with pytest.raises(verify.VerificationError, match="double backward of torch's layer"):
        verify.backward(forward, backward, args, rng=np.random.default_rng(9), **known)


@pytest.mark.parametrize("shape", LARGE[:2])
def test_in_float32_far_from_zero_a_fitted_scaling_keeps_its_digits(shape):
    x = (1e4 + np.random.default_rng(10).standard_normal(shape)).astype(np.float32)
    scaled = normlib.apply_scaling(x, normlib.fit_standard(x))
    truth = normlib.apply_scaling(x.astype(float), normlib.fit_standard(x.astype(float)))
    assert scaled.dtype == np.float32
    assert np.abs(scaled - truth).max() < 1e-3  # the spacing of float32 at 1e4 is 1e-3
    naive = (x - x.mean(axis=0)) / x.std(axis=0)
    assert np.abs(scaled - truth).max() < np.abs(naive - truth).max()
