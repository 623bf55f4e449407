"""The computation behind the family: subtract a mean, divide by a root mean square.

Batch, layer, instance and group normalization are `standardize` over different
axes. The code does not care what its numbers are: float, complex, SymPy and torch
arrays all pass through these same lines.
"""

from typing import Any, NamedTuple

from normlib.layers.guard import (
    check_array,
    check_axes,
    check_cache,
    check_eps,
    check_like,
)

__all__ = ["standardize", "standardize_backward"]

Array = Any  # a NumPy array (float, complex or of SymPy objects) or a torch tensor


class StandardizeCache(NamedTuple):
    """What the backward pass has to remember."""

    xhat: Array  # as x
    rstd: Array  # as x, but 1 along `axes`
    axes: tuple[int, ...]
    center: bool


def average(x: Array, axes: tuple[int, ...]) -> Array:
    return x.mean(axis=axes, keepdims=True)


def location(x: Array, axes: tuple[int, ...]) -> Array:
    """The mean, to all its digits: in float32 one pass over numbers far from zero
    can be off by more than their deviation; the mean of what is left mends it."""
    first = average(x, axes)
    return first + average(x - first, axes)


def summed(x: Array, axes: tuple[int, ...]) -> Array:
    """The sum over `axes`. Over none, NumPy sums nothing, but torch everything."""
    return x.sum(axis=axes) if axes else x


def centered(x: Array, axes: tuple[int, ...]) -> Array:
    """x minus its mean over `axes`. In exact algebra one mean is enough. In
    floating point, subtracting one value first makes a constant exactly 0, and the
    second mean removes what rounding left of the first, which in float32 can be
    larger than the deviation itself.
    """
    first = tuple(
        slice(0, 1) if axis in axes else slice(None) for axis in range(x.ndim)
    )
    c = x - x[first]
    c -= average(c, axes)
    c -= average(c, axes)
    return c


def standardize(
    x: Array, *, axes: tuple[int, ...], eps: float, center: bool = True
) -> tuple[Array, StandardizeCache]:
    """Standardize `x` over `axes`.

    c = x - mean(x),   rstd = (mean(c²) + eps)^(-1/2),   xhat = c · rstd

    With ``center=False`` c is x itself, and mean(c²) its mean square.
    Where c² overflows, above 1e19 in float32 and 1e154 in float64, xhat is 0.

    Shapes: `x` any, `xhat` as `x`; the means are taken over `axes`.
    Errors: ValueError for numbers that are not floating point, an axis that `x`
    does not have, an empty axis or a negative `eps`.
    Source: Ioffe and Szegedy (2015), Algorithm 1; chapter "Batch normalization".
    """
    check_array("x", x)
    axes = check_axes(x, axes)
    eps = check_eps(eps)
    c = centered(x, axes) if center else x
    rstd = (average(c * c, axes) + eps) ** -0.5
    xhat = c * rstd
    return xhat, StandardizeCache(xhat, rstd, axes, center)


def standardize_backward(dxhat: Array, cache: StandardizeCache) -> Array:
    """The gradient dx, from the gradient `dxhat` with respect to xhat.

    dx = rstd · (dxhat - mean(dxhat) - xhat · mean(dxhat · xhat)),
    for every eps ≥ 0

    With ``center=False`` the middle term is absent.

    Shapes: `dxhat` and dx as x.
    Errors: ValueError if `dxhat` is not shaped like xhat.
    Source: chapter "Batch normalization", where SymPy derives it for every size.
    """
    check_cache(cache, StandardizeCache)
    xhat, rstd, axes, center = cache
    check_like("dxhat", dxhat, xhat)
    d = dxhat - average(dxhat, axes) if center else dxhat
    return rstd * (d - xhat * average(dxhat * xhat, axes))
