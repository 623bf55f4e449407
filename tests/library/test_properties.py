"""What holds for every shape, scale, offset, memory layout and type: Hypothesis looks for the
exception.

The truth is a textbook's sums, entry by entry, with 60 digits; that of a gradient is the complex
step. No bound is tuned: each is the sum of the first-order rounding errors of the shipped lines,
`u` for each operation and (n - 1) u for a sum of n, times what the later lines make of them. The
error of a centred value is relative to the range of its slice, whatever the offset.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import normlib
from normlib.evidence import CASES
from normlib.evidence.case import Case
from normlib.verify.pair import as_tuple
from normlib.verify.signature import data, keyword_only

# The same examples everywhere: by chance, fifty of them may lack a kind that a test asks for.
settings.register_profile("book", max_examples=50, deadline=None, database=None, derandomize=True)
settings.load_profile("book")

DIGITS = 60
TINY = 1e-200
# A complex product rounds like four real ones, and the power of a complex number like a few more.
COMPLEX = 5


# What is drawn.


class Drawn(NamedTuple):
    """A layer and its numbers."""

    case: Case
    forward: Callable  # its keywords are bound
    args: tuple[np.ndarray, ...]
    dy: np.ndarray


LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "every second": lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a,
    "reversed": lambda a: np.flip(np.flip(a).copy()),
    "axes swapped": lambda a: np.ascontiguousarray(a.swapaxes(0, -1)).swapaxes(0, -1),
}


@st.composite
def shapes(draw, fewest: int) -> tuple[int, ...]:
    """Up to five axes and 48 values; one value is among them."""
    shape: tuple[int, ...] = ()
    most = draw(st.sampled_from([48, 48, 48, 1]))
    for _ in range(draw(st.sampled_from([*range(fewest, 6), 5]))):
        shape += (draw(st.integers(1, min(6, most // math.prod(shape)))),)
    return shape


@st.composite
def all_shapes(draw, case: Case) -> tuple[tuple[int, ...], ...]:
    """The shapes of all arguments of a layer."""
    if case.name in ("layer_norm", "rms_norm"):
        x = draw(shapes(1))
        return case.arguments(x, draw(st.integers(1, len(x))))
    return case.arguments(draw(shapes(1 if case.name == "partial_rms_norm" else 2)))


@st.composite
def keywords(draw, case: Case, x: tuple[int, ...]) -> dict:
    if case.name == "group_norm":
        return {"groups": draw(st.sampled_from([g for g in range(1, x[1] + 1) if x[1] % g == 0]))}
    if case.name == "partial_rms_norm":
        k = draw(st.integers(1, x[-1]))
        return {"fraction": draw(st.sampled_from([k / x[-1], Fraction(k, x[-1])]))}
    return {}


@st.composite
def problems(draw, case: Case) -> Drawn:
    shaped = draw(all_shapes(case))
    known = draw(keywords(case, shaped[0]))
    if "eps" in keyword_only(case.forward):
        known["eps"] = draw(st.sampled_from([1e-12, 1e-5, 1e-3, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    scale = 10.0 ** draw(st.integers(-6, 6))
    offset = draw(st.sampled_from([0.0, 1.0, -30.0, 1e3])) if case.name != "spectral_norm" else 0
    divides = case.name in ("weight_norm", "spectral_norm")  # by a size, which must not be 0
    spread = 1 if divides else draw(st.sampled_from([1, 1, 0]))  # 0 for constant slices
    into = LAYOUTS[draw(st.sampled_from(sorted(LAYOUTS)))]
    forward, (x, *rest) = case.drawn(shaped, rng, **known)
    args = tuple(into(a.astype(dtype)) for a in (scale * (spread * x + offset), *rest))
    bound = {name: into(a.astype(dtype)) for name, a in data(forward).items()}
    forward = partial(case.forward, **getattr(forward, "keywords", {}) | bound)
    return Drawn(case, forward, args, into(rng.standard_normal(x.shape).astype(dtype)))


# The truth, and how far rounding can lead away from it.


class Law(NamedTuple):
    """How a layer standardizes: entries of one label share a slice."""

    labels: np.ndarray  # shaped as x
    counted: np.ndarray  # of bool: the entries that are in the mean square
    share: float  # the weight of each of these, 1/n for a mean
    center: bool
    eps: float
    parameter: np.ndarray  # for each entry, which entry of gamma and beta is beside it


def find_law(drawn: Drawn) -> Law:
    """Written with indices of entries, where the library has axes."""
    name, (x, *rest), known = drawn.case.name, drawn.args, drawn.forward.keywords
    at, size = np.indices(x.shape), x.size
    flat = np.arange(size).reshape(x.shape)
    if name in ("layer_norm", "rms_norm", "partial_rms_norm"):
        labels, parameter = flat // rest[0].size, flat % rest[0].size
    elif name == "weight_norm":
        labels = parameter = at[0]
    else:
        sample, parameter = at[:2]
        together = {"batch_norm": x.shape[1], "instance_norm": x.shape[1]}
        groups = together.get(name) or known.get("groups", x.shape[1])
        group = parameter * groups // x.shape[1]
        labels = group if name == "batch_norm" else sample * groups + group
    counted = np.ones(x.shape, bool)
    if name == "partial_rms_norm":
        counted = at[-1] < math.ceil(
            Fraction(known["fraction"]).limit_denominator(48) * x.shape[-1]
        )
    n = counted[labels == labels.flat[0]].sum()
    default = {"weight_norm": 0.0, "rms_norm": 1e-6, "partial_rms_norm": 1e-6}.get(name, 1e-5)
    return Law(
        labels, counted, 1.0 if name == "weight_norm" else 1 / n,
        name not in ("rms_norm", "partial_rms_norm", "weight_norm"),
        known.get("eps", default), parameter,
    )  # fmt: skip


def make_exact(a: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda v: mpmath.mpf(float(v)), otypes=[object])(a)


class Standardized(NamedTuple):
    """True values, and the bound of the error of the shipped ones; rstd for each entry."""

    xhat: np.ndarray
    rstd: np.ndarray
    error: np.ndarray  # of xhat
    relative: np.ndarray  # of rstd


def standardize_exactly(x: np.ndarray, law: Law) -> Standardized:
    u = np.finfo(x.dtype).eps / 2
    exact, rows = make_exact(x), [np.empty(x.shape) for _ in range(4)]
    for label in np.unique(law.labels):
        inside = law.labels == label
        values, kept = exact[inside], law.counted[inside]
        n = len(values)
        c = values - sum(values) / n if law.center else values
        share = mpmath.mpf(1) if law.share == 1 else mpmath.mpf(1) / int(kept.sum())
        rstd = 1 / mpmath.sqrt(share * sum(c[kept] ** 2) + mpmath.mpf(law.eps))
        xhat = (c * rstd).astype(float)
        reach = float((max(values) - min(values)) * rstd) if law.center else 0.0
        shift = (n + 4) * u * reach  # of c, in units of the deviation
        relative = shift + (n + 6) * u
        for row, value in zip(
            rows,
            (xhat, float(rstd), shift + np.abs(xhat) * (relative + 2 * u), relative),
            strict=True,
        ):
            row[inside] = value
    return Standardized(*rows)


def sum_by(labels: np.ndarray, a: np.ndarray) -> np.ndarray:
    """For each entry the sum over its slice."""
    return np.bincount(labels.ravel(), a.ravel())[labels]


def spread_affine(drawn: Drawn, law: Law) -> tuple[np.ndarray, np.ndarray]:
    """gamma and beta beside x."""
    ones = np.ones(drawn.args[0].shape)
    rest = [a.astype(float).ravel()[law.parameter] for a in drawn.args[1:]]
    gamma, beta = (*rest, 0 * ones)[:2]
    return gamma, beta


class Bounded(NamedTuple):
    value: np.ndarray
    bound: np.ndarray


def bound_normalized(drawn: Drawn) -> tuple[Bounded, list[np.ndarray]]:
    """y, and the bounds of the errors of all gradients, for a layer that obeys a law."""
    how = find_law(drawn)
    x, dy = drawn.args[0], np.abs(drawn.dy.astype(float))
    u = np.finfo(x.dtype).eps / 2
    xhat, rstd, error, relative = standardize_exactly(x, how)
    gamma, beta = spread_affine(drawn, how)
    y = gamma * xhat + beta
    # to an xhat that is exactly 0, in a constant slice, beta is added without rounding
    added = 2 * u * (np.abs(gamma * xhat) + np.abs(beta)) * (error > 0)
    bound = np.abs(gamma) * error + added
    d = np.abs(gamma) * dy
    n = sum_by(how.labels, np.ones(x.shape))
    sums = partial(sum_by, how.labels)
    mean = sums(d) / n if how.center else 0 * d
    along = how.share * sums(d * np.abs(xhat))
    terms = rstd * (d + mean + np.abs(xhat) * along)
    bend = rstd * (error * along + np.abs(xhat) * how.share * sums(d * error))
    dx = terms * (relative + (n + 8) * u) + bend
    shape = drawn.args[1].shape if len(drawn.args) > 1 else ()
    total = lambda a: np.bincount(how.parameter.ravel(), a.ravel()).reshape(shape)  # noqa: E731
    count = x.size
    dgamma = total(dy * (error + (count + 2) * u * np.abs(xhat)))
    dbeta = (count + 1) * u * total(dy)
    return Bounded(y, bound), [dx, dgamma, dbeta][: len(drawn.args)]


def per_channel(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    return a.astype(float).reshape(1, -1, *[1] * (x.ndim - 2))


def over_batch(a: np.ndarray) -> np.ndarray:
    return a.sum(axis=(0, *range(2, a.ndim)))


def bound_inference(drawn: Drawn) -> tuple[Bounded, list[np.ndarray]]:
    """An affine map: no sums, and so no condition number but that of x - mean, which is exact."""
    x, *rest = drawn.args
    u, dy = np.finfo(x.dtype).eps / 2, np.abs(drawn.dy.astype(float))
    mean, var, gamma, beta = (per_channel(a, x) for a in rest)
    wide = x.astype(float) - mean
    rstd = 1 / np.sqrt(var + drawn.forward.keywords.get("eps", 1e-5))
    xhat = wide * rstd
    y = gamma * xhat + beta
    dx = np.abs(gamma) * rstd * dy
    many = (x.size + 12) * u
    grow = [dx, over_batch(dx), over_batch(dx * np.abs(xhat) * rstd), over_batch(dy * np.abs(xhat))]
    bounds = [many * a for a in (*grow, over_batch(dy))]
    return Bounded(y, 12 * u * (np.abs(gamma * xhat) + np.abs(beta))), bounds


def bound_mean_only(drawn: Drawn) -> tuple[Bounded, list[np.ndarray]]:
    x, beta = drawn.args
    u, dy = np.finfo(x.dtype).eps / 2, np.abs(drawn.dy.astype(float))
    exact, y, bound = make_exact(x), np.empty(x.shape), np.empty(x.shape)
    for channel in range(x.shape[1]):
        values = exact[:, channel]
        n, b = values.size, float(beta[channel])
        y[:, channel] = (values - values.sum() / n + mpmath.mpf(b)).astype(float)
        reach = float(values.max() - values.min())
        bound[:, channel] = (n + 5) * u * reach + 2 * u * abs(b)
    means = per_channel(over_batch(dy) / (x.size / x.shape[1]), x)
    many = (x.size + 4) * u
    return Bounded(y, bound), [many * (dy + means), many * over_batch(dy)]


def bound_spectral(drawn: Drawn) -> tuple[Bounded, list[np.ndarray]]:
    """The condition number is that of a sum: its absolute terms over its value."""
    (w,), known = drawn.args, drawn.forward.keywords
    u, dw = np.finfo(w.dtype).eps / 2, np.abs(drawn.dy.astype(float))
    wide, left, right = (make_exact(a) for a in (w.reshape(len(w), -1), known["u"], known["v"]))
    terms = left[:, None] * wide * right
    sigma = terms.sum()
    condition = float(np.abs(terms).sum() / abs(sigma))
    value = (wide / sigma).astype(float).reshape(w.shape)
    relative = (sum(wide.shape) + 4) * u * condition
    outer = np.abs(left[:, None] * right).astype(float).reshape(w.shape)
    cancel = (dw + (dw * np.abs(value)).sum() * outer) / abs(float(sigma))
    return Bounded(value, (relative + u) * np.abs(value)), [
        (2 * relative + (w.size + 8) * u) * cancel
    ]


OTHERS = {
    "batch_norm_inference": bound_inference,
    "mean_only_batch_norm": bound_mean_only,
    "spectral_norm": bound_spectral,
}


def truth(drawn: Drawn) -> tuple[Bounded, list[np.ndarray]]:
    with mpmath.workdps(DIGITS):
        return OTHERS.get(drawn.case.name, bound_normalized)(drawn)


def by_complex_step(drawn: Drawn) -> list[np.ndarray]:
    """The gradient of every argument, from the forward in double precision."""
    args = [a.astype(complex) for a in drawn.args]
    bound = {name: a.astype(float) for name, a in data(drawn.forward).items()}
    forward = partial(drawn.forward, **bound)
    gradients = []
    for a in args:
        gradients.append(np.empty(a.shape))
        for entry in np.ndindex(a.shape):
            a[entry] += TINY * 1j
            gradients[-1][entry] = (forward(*args)[0].imag / TINY * drawn.dy).sum()
            a[entry] -= TINY * 1j
    return gradients


def measure_excess(ours: np.ndarray, theirs: np.ndarray, bound: np.ndarray) -> float:
    """The largest error, in units of its bound."""
    assert ours.shape == np.shape(theirs)
    distance = np.abs(ours.astype(float) - theirs)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.max(np.where(distance == 0, 0, distance / bound), initial=0))


def measure_worst(drawn: Drawn, forward: Callable, backward: Callable) -> tuple[float, float]:
    """How far a pair is off in y and in its gradients, in units of what rounding can do."""
    expected, bounds = truth(drawn)
    y, cache = forward(*drawn.args)
    gradients = as_tuple(backward(drawn.dy, cache))
    assert {a.dtype for a in (y, *gradients)} == {drawn.args[0].dtype}
    rows = zip(gradients, by_complex_step(drawn), bounds, strict=True)
    return measure_excess(y, *expected), max(measure_excess(g, t, COMPLEX * b) for g, t, b in rows)


# Forward and backward.


def name_of(case: Case) -> str:
    return case.name


each_layer = pytest.mark.parametrize("case", CASES, ids=name_of)


@each_layer
def test_y_and_the_gradients_are_right_to_rounding_whatever_comes(case):
    seen, errors = set(), []

    @given(problems(case))
    def holds(drawn):
        errors.append(measure_worst(drawn, drawn.forward, case.backward))
        assert max(errors[-1]) <= 1
        x = drawn.args[0]
        seen.update({f"{x.ndim} axes", f"{x.size} values", str(x.dtype)})
        seen.update({"constant"} if x.size > 1 and np.ptp(x) == 0 else {})

    holds()
    assert {"1 values", "2 axes", "5 axes", "float32", "float64"} <= seen
    assert ("constant" in seen) is (case.name not in ("weight_norm", "spectral_norm"))
    # the bounds are reached to two digits or three: none has slack for a wrong formula
    y, gradient = np.max(errors, axis=0)
    assert y > 1e-2 and gradient > 1e-3


def draw_plain(case: Case, dtype=np.float64) -> Drawn:
    rng = np.random.default_rng(0)
    forward, args = case.drawn(case.examples[0], rng)
    forward = partial(case.forward, **getattr(forward, "keywords", {}))
    args = tuple(a.astype(dtype) for a in args)
    return Drawn(case, forward, args, rng.standard_normal(args[0].shape).astype(dtype))


@each_layer
def test_every_planted_error_is_a_hundred_times_what_rounding_can_do(case):
    drawn, idle = draw_plain(case), []
    keywords = drawn.forward.keywords
    assert max(measure_worst(drawn, drawn.forward, case.backward)) <= 1
    for error, twin in case.twins(**keywords).items():
        off = max(measure_worst(drawn, partial(twin.forward, **keywords), twin.backward))
        assert off == max(measure_worst(drawn, drawn.forward, case.backward)) or off > 100, error
        idle += [error] if off <= 1 else []
    assert len(case.twins(**keywords)) - len(idle) == case.errors


def list_arrays(value) -> list[np.ndarray]:
    """The arrays in nested caches."""
    if isinstance(value, tuple):
        return [a for part in value for a in list_arrays(part)]
    return [value] if isinstance(value, np.ndarray) else []


@each_layer
def test_the_same_numbers_give_the_same_bits_and_nothing_is_written_to(case):
    @given(problems(case))
    def holds(drawn):
        bound = list_arrays(tuple(drawn.forward.keywords.values()))
        given_ = [*drawn.args, *bound, drawn.dy]
        kept = [a.copy() for a in given_]
        for a in given_:
            a.setflags(write=False)
        y, cache = drawn.forward(*drawn.args)
        remembered = [a.copy() for a in list_arrays(cache)]
        for a in list_arrays(cache):
            a.setflags(write=False)
        first, second = (as_tuple(case.backward(drawn.dy, cache)) for _ in range(2))
        again, _ = drawn.forward(*drawn.args)
        now, before = [*given_, *list_arrays(cache)], [*kept, *remembered]
        for one, other in zip((y, *first, *now), (again, *second, *before), strict=True):
            assert one.tobytes() == other.tobytes()

    holds()


# Over any axes, and what has no backward.


@st.composite
def samples(draw, fewest: int, most: int = 5) -> np.ndarray:
    shape = draw(shapes(fewest).filter(lambda shape: len(shape) <= most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    offset = draw(st.sampled_from([0.0, 1.0, 1e3])) + rng.standard_normal(shape)
    dtype, into = draw(st.sampled_from([np.float64, np.float32])), draw(st.sampled_from([*LAYOUTS]))
    return LAYOUTS[into]((10.0 ** draw(st.integers(-6, 6)) * offset).astype(dtype))


@given(samples(1), st.data())
def test_standardize_is_right_over_any_axes(x, chosen):
    axes = chosen.draw(st.sets(st.integers(-x.ndim, x.ndim - 1), min_size=1))
    axes = tuple({axis % x.ndim: axis for axis in axes}.values())
    center, eps = chosen.draw(st.booleans()), chosen.draw(st.sampled_from([1e-12, 1e-5, 1]))
    others = [x.shape[n] for n in range(x.ndim) if n not in {a % x.ndim for a in axes}]
    moved = np.moveaxis(np.arange(math.prod(others)).reshape(*others, *[1] * len(axes)),
                        range(-len(axes), 0), sorted(a % x.ndim for a in axes))  # fmt: skip
    labels = np.broadcast_to(moved, x.shape)
    counted, parameter = np.ones(x.shape, bool), np.zeros(x.shape, int)
    how = Law(labels, counted, len(np.unique(labels)) / x.size, center, eps, parameter)
    with mpmath.workdps(DIGITS):
        expected = standardize_exactly(x, how)
    xhat, cache = normlib.standardize(x, axes=axes, eps=eps, center=center)
    assert measure_excess(xhat, expected.xhat, expected.error) <= 1
    spread_out = np.broadcast_to(cache.rstd, x.shape)
    assert measure_excess(spread_out, expected.rstd, 2 * expected.relative * expected.rstd) <= 1


def find_moments(x: np.ndarray, axes: tuple[int, ...]) -> tuple[Bounded, Bounded]:
    """The true mean and sum of squared deviations, and the bounds of their errors."""
    u, exact = np.finfo(x.dtype).eps / 2, make_exact(x)
    n = math.prod(x.shape[axis] for axis in axes)
    with mpmath.workdps(DIGITS):
        mean = exact.sum(axis=axes, keepdims=True) / n
        squares = ((exact - mean) ** 2).sum(axis=axes).astype(float)
        mean = mean.astype(float).reshape(squares.shape)
    size, reach = np.abs(x.astype(float)).max(axis=axes), np.ptp(x.astype(float), axis=axes)
    at_mean = 2 * u * np.abs(mean) + (n + 3) * u * (n * u * size + reach)
    at_squares = 2 * np.sqrt(n * squares) * (n + 4) * u * reach + (n + 2) * u * squares
    return Bounded(mean, at_mean), Bounded(squares, at_squares)


@given(samples(2), st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_running_statistics_are_right_to_rounding(x, momentum):
    axes = (0, *range(2, x.ndim))
    values = x.size // x.shape[1]
    start = np.full(x.shape[1], 3, x.dtype)
    if values < 2:
        with pytest.raises(ValueError, match="at least 2 values"):
            normlib.update_running(start, start, x)
        return
    (mean, at_mean), (squares, at_squares) = find_moments(x, axes)
    var, at_var, u = squares / (values - 1), at_squares / (values - 1), np.finfo(x.dtype).eps / 2
    for ours, true, bound in zip(
        normlib.update_running(start, start, x, momentum=momentum),
        (mean, var),
        (at_mean, at_var),
        strict=True,
    ):
        expected = 3 * (1 - momentum) + momentum * true
        rounded = 4 * u * (3 * (1 - momentum) + momentum * np.abs(true))
        assert ours.dtype == x.dtype
        assert measure_excess(ours, expected, momentum * bound + rounded) <= 1


@given(samples(2, 2), st.sampled_from([(0.0, 1.0), (-1.0, 1.0), (-30.0, -29.5)]))
def test_fitted_scalings_are_right_to_rounding(x, span):
    (mean, at_mean), (squares, at_squares) = find_moments(x, (0,))
    u, n, (low, high) = np.finfo(x.dtype).eps / 2, len(x), span
    shift, scale = normlib.fit_standard(x)
    deviation = np.sqrt(squares / n)
    varies = np.ptp(x, axis=0) > 0
    assert measure_excess(shift, mean, at_mean) <= 1
    assert_array_equal(scale[~varies], 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        at_deviation = at_squares / n / deviation + 2 * u * deviation
    assert measure_excess(scale[varies], deviation[varies], at_deviation[varies]) <= 1
    shift, scale = normlib.fit_min_max(x, low=low, high=high)
    wide = x.astype(float)
    true = np.where(varies, np.ptp(wide, axis=0) / (high - low), 1)
    assert measure_excess(scale, true, 3 * u * true) <= 1
    at = 4 * u * (np.abs(low) * true + np.abs(wide.min(axis=0)))
    assert measure_excess(shift, wide.min(axis=0) - low * true, at) <= 1
    z = normlib.apply_scaling(x, normlib.fit_min_max(x, low=low, high=high))
    back = u * (8 * max(abs(low), abs(high)) + 8 * np.abs(wide) / true)
    assert measure_excess(z.min(axis=0), low + 0 * true, back.max(axis=0)) <= 1
    highest, back_there = z.max(axis=0)[varies], back.max(axis=0)[varies]
    assert measure_excess(highest, high + 0 * true[varies], back_there) <= 1
