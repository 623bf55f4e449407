"""RMSNorm: layer normalization without the mean, over all features or the first."""

import math
from fractions import Fraction
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from normlib.layers.core import (
    Array,
    StandardizeCache,
    average,
    standardize,
    standardize_backward,
    summed,
)
from normlib.layers.guard import (
    check_axes,
    check_cache,
    check_eps,
    check_like,
    check_shape,
)
from normlib.layers.shapes import check_trailing, last_axes, leading_axes

__all__ = [
    "partial_rms_norm",
    "partial_rms_norm_backward",
    "rms_norm",
    "rms_norm_backward",
]


class RMSNormCache(NamedTuple):
    standardized: StandardizeCache  # xhat as x, rstd with 1 along gamma's axes
    gamma: Array  # the last axes of x


class PartialRMSNormCache(NamedTuple):
    xhat: Array  # (*leading, n), as x
    rstd: Array  # (*leading, 1)
    gamma: Array  # (n,)
    k: int  # of the n features, the first k are in the root mean square


def rms_norm(
    x: Array, gamma: Array, *, eps: float = 1e-6
) -> tuple[Array, RMSNormCache]:
    """RMSNorm over the last ``gamma.ndim`` axes.

    y = gamma · xhat,   xhat = x / sqrt(mean(x²) + eps)

    Shapes: `x` and y (*leading, *features); `gamma` (*features,).
    Errors: ValueError for shapes that do not fit, integers, no features, or a
    negative `eps`.
    Source: Zhang and Sennrich (2019), equation 4;
    chapter "RMSNorm".
    """
    check_trailing(x, gamma=gamma)
    xhat, standardized = standardize(
        x, axes=last_axes(x, gamma), eps=eps, center=False
    )
    return gamma * xhat, RMSNormCache(standardized, gamma)


def rms_norm_backward(dy: Array, cache: RMSNormCache) -> tuple[Array, Array]:
    """The gradients dx, dgamma from the upstream gradient `dy`.

    dgamma = sum(dy · xhat),
    dx = rstd · (d - xhat · mean(d · xhat)),   d = gamma · dy

    Shapes: `dy` and dx as x; dgamma as gamma.
    Errors: ValueError if `dy` is not shaped like y.
    Source: Zhang and Sennrich (2019), section 4;
    chapter "RMSNorm".
    """
    check_cache(cache, RMSNormCache)
    standardized, gamma = cache
    xhat = standardized.xhat
    check_like("dy", dy, xhat)
    dgamma = summed(dy * xhat, leading_axes(dy, gamma))
    d = gamma * dy
    dx = standardize_backward(d, standardized)
    return dx, dgamma


def check_fraction(fraction: Any) -> Fraction:
    """Of a float the short decimal or ratio is meant from which it was rounded: in
    floats 0.07 · 100 > 7, and what 5/6 prints is a decimal above 5/6."""
    if (
        isinstance(fraction, bool)
        or not isinstance(fraction, Real)
        or not 0 < fraction <= 1
    ):
        raise ValueError(
            f"fraction must be a number above 0 and at most 1, but got "
            f"{fraction!r}; try fraction=1/16, or 1 for all features"
        )
    exact = Fraction(str(fraction))
    if not isinstance(fraction, (float, np.floating)):
        return exact
    # two ratios of numbers below this lie further apart than the float is rounded
    most = int(np.finfo(fraction).eps ** -0.5)
    return exact.limit_denominator(most) or exact  # never 0 for a tiny one


def ahead(like: Array, k: int) -> Array:
    """1 for the first k features, 0 for the others, in the numbers of `like`."""
    mask = [1] * k + [0] * (like.shape[-1] - k)
    is_tensor = hasattr(like, "new_tensor")
    return like.new_tensor(mask) if is_tensor else np.array(mask, like.dtype)


def partial_rms_norm(
    x: Array, gamma: Array, *, fraction: float | Fraction, eps: float = 1e-6
) -> tuple[Array, PartialRMSNormCache]:
    """Partial RMSNorm: the root mean square is that of the first features alone.

    y = gamma · xhat,   xhat = x / sqrt(mean_k(x²) + eps),   k = ceil(n · fraction)

    mean_k is the mean over the first k of the n features.

    Shapes: `x` and y (*leading, n); `gamma` (n,).
    Errors: ValueError for shapes that do not fit, integers, no features, a
    `fraction` outside (0, 1], or a negative `eps`.
    Source: Zhang and Sennrich (2019), section 5;
    chapter "Partial RMSNorm".
    """
    check_trailing(x, gamma=gamma)
    check_shape(
        "gamma", gamma, tuple(x.shape)[-1:], f"the last axis of x {tuple(x.shape)}"
    )
    axes = check_axes(x, (-1,))
    k = math.ceil(x.shape[-1] * check_fraction(fraction))
    first = x[..., :k]
    rstd = (average(first * first, axes) + check_eps(eps)) ** -0.5
    xhat = x * rstd
    return gamma * xhat, PartialRMSNormCache(xhat, rstd, gamma, k)


def partial_rms_norm_backward(
    dy: Array, cache: PartialRMSNormCache
) -> tuple[Array, Array]:
    """The gradients dx, dgamma from the upstream gradient `dy`.

    dgamma = sum(dy · xhat),
    dx = rstd · (d - first · xhat · sum(d · xhat) / k),   d = gamma · dy

    first is 1 for the first k features and 0 for the others; the sum in dx runs
    over all n.

    Shapes: `dy` and dx (*leading, n); dgamma (n,).
    Errors: ValueError if `dy` is not shaped like y.
    Source: Zhang and Sennrich (2019), section 5;
    chapter "Partial RMSNorm".
    """
    check_cache(cache, PartialRMSNormCache)
    xhat, rstd, gamma, k = cache
    check_like("dy", dy, xhat)
    dgamma = summed(dy * xhat, leading_axes(dy, gamma))
    d = gamma * dy
    along = (d * xhat).sum(axis=-1, keepdims=True) / k
    dx = rstd * (d - ahead(xhat, k) * xhat * along)
    return dx, dgamma
