"""Scaling the inputs: what is fitted, and what is then applied.

Fitting and applying are two functions, so that one can see which data the
statistics are of.
"""

from typing import NamedTuple

from normlib.layers.core import Array, average, centered, location
from normlib.layers.guard import check_array, check_axes, check_number, check_shape

__all__ = ["apply_scaling", "fit_min_max", "fit_standard"]

INFINITY = float("inf")


class Scaling(NamedTuple):
    """z = (x - shift) / scale, feature by feature."""

    shift: Array  # (features,)
    scale: Array  # (features,)


def check_samples(x: Array) -> None:
    check_array("x", x, min_ndim=2, form="(samples, features)")
    if x.ndim > 2:
        raise ValueError(
            f"x must have the shape (samples, features), but got {tuple(x.shape)}; "
            f"try x.reshape(len(x), -1)"
        )
    check_axes(x, (0,))


def nonzero(scale: Array) -> Array:
    """1 where the scale is 0: a constant feature is shifted to 0, not divided."""
    return scale + (scale == 0)


def fit_standard(x: Array) -> Scaling:
    """The shift and scale of a z-score.

    shift = mean(x),   scale = sqrt(mean((x - shift)²)),   over the samples

    Shapes: `x` (samples, features). A constant feature has the scale 1.
    Errors: ValueError for another shape, integers, or no samples.
    Source: chapter "Feature scaling".
    """
    check_samples(x)
    c = centered(x, (0,))
    return Scaling(location(x, (0,))[0], nonzero(average(c * c, (0,))[0] ** 0.5))


def fit_min_max(x: Array, *, low: float = 0.0, high: float = 1.0) -> Scaling:
    """The shift and scale that map each feature to the range from `low` to `high`.

    scale = (max(x) - min(x)) / (high - low),   shift = min(x) - low · scale

    Shapes: `x` (samples, features). A constant feature has the scale 1, and becomes
    `low`.
    Errors: ValueError for another shape, integers, no samples, or `high` not above
    `low`.
    Source: chapter "Feature scaling".
    """
    check_samples(x)
    low = check_number("low", low, -INFINITY)
    high = check_number("high", high, -INFINITY)
    if not low < high:
        raise ValueError(
            f"high must be above low, but got low = {low} and high = {high}; "
            f"swap them?"
        )
    least, greatest = x.min(axis=0), x.max(axis=0)
    scale = nonzero((greatest - least) / (high - low))
    return Scaling(least - low * scale, scale)


def apply_scaling(x: Array, scaling: Scaling) -> Array:
    """Scale whatever data with what was fitted before.

    z = (x - shift) / scale

    Shapes: `x` and z (samples, features).
    Errors: ValueError for another number of features than was fitted, or integers.
    Source: chapter "Feature scaling".
    """
    check_array("x", x, min_ndim=2, form="(samples, features)")
    if not isinstance(scaling, Scaling):
        raise ValueError(
            f"scaling must be a Scaling, but got a {type(scaling).__name__}; "
            f"fit one with fit_standard or fit_min_max"
        )
    why = f"the features of x {tuple(x.shape)}"
    check_shape("scaling.shift", scaling.shift, x.shape[1:], why)
    return (x - scaling.shift) / scaling.scale
