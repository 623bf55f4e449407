"""Weight normalization, and the mean-only batch normalization that goes with it."""

from typing import NamedTuple

from normlib.layers.core import Array, average, centered, summed
from normlib.layers.guard import (
    check_array,
    check_axes,
    check_cache,
    check_like,
    check_shape,
    is_no_divisor,
)
from normlib.layers.shapes import batch_axes, check_channels, per_channel

__all__ = [
    "mean_only_batch_norm",
    "mean_only_batch_norm_backward",
    "weight_norm",
    "weight_norm_backward",
]


class WeightNormCache(NamedTuple):
    direction: Array  # v / |v|, (out, *rest)
    rnorm: Array  # 1 / |v|, (out, 1, ...)
    g: Array  # (out, 1, ...)


class MeanOnlyBatchNormCache(NamedTuple):
    shape: tuple[int, ...]  # of x: nothing else has to be remembered


def check_rows(v: Array, squares: Array) -> None:
    if is_no_divisor(squares, v):
        raise ValueError(
            f"v must have a direction in each of its {v.shape[0]} rows, but got a "
            f"row of zeros, or one whose squares under- or overflow in {v.dtype}; "
            f"initialize v at random, or scale the row"
        )


def weight_norm(v: Array, g: Array) -> tuple[Array, WeightNormCache]:
    """Weight normalization: each row of weights as a length times a direction.

    w = g · v / |v|

    Every row then has the length |g|. Rows of v are squared: their lengths may lie
    between 1e-17 and 1e18 in float32, 1e-150 and 1e153 in float64.

    Shapes: `v` and w (out, *rest), rows are taken over all axes but the first;
    `g` (out,).
    Errors: ValueError for shapes that do not fit, integers, a row of zeros, or one
    whose squares sum to 0 or infinity in floats.
    Source: Salimans and Kingma (2016), equation 2;
    chapter "Weight normalization".
    """
    check_array("v", v, min_ndim=2, form="(out, *rest)")
    check_shape(
        "g", g, (v.shape[0],), f"one length for each row of v {tuple(v.shape)}"
    )
    axes = check_axes(v, tuple(range(1, v.ndim)))
    squares = (v * v).sum(axis=axes, keepdims=True)
    check_rows(v, squares)
    rnorm = squares**-0.5
    direction = v * rnorm
    g = g.reshape(-1, *[1] * (v.ndim - 1))
    return g * direction, WeightNormCache(direction, rnorm, g)


def weight_norm_backward(dw: Array, cache: WeightNormCache) -> tuple[Array, Array]:
    """The gradients dv, dg from the gradient `dw` with respect to the weights.

    dg = sum(dw · v / |v|),   dv = g / |v| · (dw - v / |v| · dg)

    Shapes: `dw` and dv (out, *rest); dg (out,).
    Errors: ValueError if `dw` is not shaped like w.
    Source: Salimans and Kingma (2016), equation 3;
    chapter "Weight normalization".
    """
    check_cache(cache, WeightNormCache)
    direction, rnorm, g = cache
    check_like("dw", dw, direction)
    along = (dw * direction).sum(axis=tuple(range(1, dw.ndim)), keepdims=True)
    dv = g * rnorm * (dw - direction * along)
    return dv, along.reshape(-1)


def mean_only_batch_norm(
    x: Array, beta: Array
) -> tuple[Array, MeanOnlyBatchNormCache]:
    """Batch normalization that subtracts the mean of each channel, and no more.

    y = x - mean + beta

    Shapes: `x` and y (N, C, *spatial); `beta` (C,).
    Errors: ValueError for shapes that do not fit, integers, or an empty batch.
    Source: Salimans and Kingma (2016), section 4;
    chapter "Weight normalization".
    """
    check_channels(x, beta=beta)
    c = centered(x, check_axes(x, batch_axes(x)))
    return c + per_channel(beta, x), MeanOnlyBatchNormCache(tuple(x.shape))


def mean_only_batch_norm_backward(
    dy: Array, cache: MeanOnlyBatchNormCache
) -> tuple[Array, Array]:
    """The gradients dx, dbeta from the upstream gradient `dy`.

    dx = dy - mean(dy),   dbeta = sum(dy)

    Shapes: `dy` and dx (N, C, *spatial); dbeta (C,).
    Errors: ValueError if `dy` is not shaped like y.
    Source: Salimans and Kingma (2016), section 4;
    chapter "Weight normalization".
    """
    check_cache(cache, MeanOnlyBatchNormCache)
    check_shape("dy", dy, cache.shape, "that of the forward pass")
    axes = batch_axes(dy)
    dx = dy - average(dy, axes)
    dbeta = summed(dy, axes)
    return dx, dbeta
