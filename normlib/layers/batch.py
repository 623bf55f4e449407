"""Batch normalization in training and at inference, and its running statistics."""

from math import prod
from typing import NamedTuple

from normlib.layers.core import (
    Array,
    StandardizeCache,
    centered,
    location,
    standardize,
    standardize_backward,
    summed,
)
from normlib.layers.guard import (
    check_axes,
    check_cache,
    check_eps,
    check_like,
    check_number,
    sees,
)
from normlib.layers.shapes import batch_axes, check_channels, per_channel

__all__ = [
    "batch_norm",
    "batch_norm_backward",
    "batch_norm_inference",
    "batch_norm_inference_backward",
    "update_running",
]


class BatchNormCache(NamedTuple):
    standardized: StandardizeCache  # xhat (N, C, *spatial), rstd (1, C, 1, ...)
    gamma: Array  # (C,)


class BatchNormInferenceCache(NamedTuple):
    xhat: Array  # (N, C, *spatial)
    rstd: Array  # (1, C, 1, ...)
    gamma: Array  # (C,)


def check_variance(var: Array) -> None:
    if "float" in str(var.dtype) and sees(var < 0):
        raise ValueError(
            f"var must not be negative, but its smallest value is "
            f"{float(var.min()):.3g}; mean and var may be swapped"
        )


def batch_norm(
    x: Array, gamma: Array, beta: Array, *, eps: float = 1e-5
) -> tuple[Array, BatchNormCache]:
    """Batch normalization in training: each channel is standardized over the batch.

    y = gamma · xhat + beta,   xhat = (x - mean) / sqrt(var + eps)

    mean and var (the biased one, 1/m) are taken per channel over the batch and all
    positions, m = N · H · W values.

    Shapes: `x` and y (N, C, *spatial); `gamma` and `beta` (C,).
    Errors: ValueError for shapes that do not fit, integers, an empty batch, or a
    negative `eps`.
    Source: Ioffe and Szegedy (2015), Algorithm 1 and section 3.2;
    chapter "Batch normalization".
    """
    check_channels(x, gamma=gamma, beta=beta)
    xhat, standardized = standardize(x, axes=batch_axes(x), eps=eps)
    y = per_channel(gamma, x) * xhat + per_channel(beta, x)
    return y, BatchNormCache(standardized, gamma)


def batch_norm_backward(
    dy: Array, cache: BatchNormCache
) -> tuple[Array, Array, Array]:
    """The gradients dx, dgamma, dbeta from the upstream gradient `dy`.

    dbeta = sum(dy),   dgamma = sum(dy · xhat),
    dx = rstd · (d - mean(d) - xhat · mean(d · xhat)),   d = gamma · dy

    Shapes: `dy` and dx (N, C, *spatial); dgamma and dbeta (C,).
    Errors: ValueError if `dy` is not shaped like y.
    Source: Ioffe and Szegedy (2015), section 3, collapsed;
    chapter "Batch normalization".
    """
    check_cache(cache, BatchNormCache)
    standardized, gamma = cache
    xhat, axes = standardized.xhat, standardized.axes
    check_like("dy", dy, xhat)
    dbeta = summed(dy, axes)
    dgamma = summed(dy * xhat, axes)
    gamma = per_channel(gamma, dy)
    d = gamma * dy
    dx = standardize_backward(d, standardized)
    return dx, dgamma, dbeta


def batch_norm_inference(
    x: Array,
    mean: Array,
    var: Array,
    gamma: Array,
    beta: Array,
    *,
    eps: float = 1e-5,
) -> tuple[Array, BatchNormInferenceCache]:
    """Batch normalization at inference: given statistics, and so an affine map.

    y = gamma · (x - mean) / sqrt(var + eps) + beta

    Shapes: `x` and y (N, C, *spatial); `mean`, `var`, `gamma`, `beta` (C,).
    Errors: ValueError for shapes that do not fit, integers, or a negative `var` or
    `eps`.
    Source: Ioffe and Szegedy (2015), Algorithm 2;
    chapter "Batch normalization in use".
    """
    check_channels(x, mean=mean, var=var, gamma=gamma, beta=beta)
    check_variance(var)
    rstd = per_channel((var + check_eps(eps)) ** -0.5, x)
    xhat = (x - per_channel(mean, x)) * rstd
    y = per_channel(gamma, x) * xhat + per_channel(beta, x)
    return y, BatchNormInferenceCache(xhat, rstd, gamma)


def batch_norm_inference_backward(
    dy: Array, cache: BatchNormInferenceCache
) -> tuple[Array, Array, Array, Array, Array]:
    """The gradients dx, dmean, dvar, dgamma, dbeta from the upstream gradient `dy`.

    dx = gamma · rstd · dy,   dmean = -sum(dx),   dvar = -sum(dx · xhat) · rstd / 2,
    dgamma = sum(dy · xhat),   dbeta = sum(dy)

    Shapes: `dy` and dx (N, C, *spatial); the others (C,).
    Errors: ValueError if `dy` is not shaped like y.
    Source: chapter "Batch normalization in use".
    """
    check_cache(cache, BatchNormInferenceCache)
    xhat, rstd, gamma = cache
    check_like("dy", dy, xhat)
    axes = batch_axes(dy)
    dx = per_channel(gamma, dy) * rstd * dy
    dmean = -summed(dx, axes)
    dvar = -0.5 * summed(dx * xhat * rstd, axes)
    dgamma = summed(dy * xhat, axes)
    dbeta = summed(dy, axes)
    return dx, dmean, dvar, dgamma, dbeta


def update_running(
    mean: Array, var: Array, x: Array, *, momentum: float = 0.1
) -> tuple[Array, Array]:
    """The running statistics after one more batch `x`; nothing is changed in place.

    mean ← (1 - momentum) · mean + momentum · batch mean,   var likewise

    The batch variance is the unbiased one, 1/(m - 1), and `momentum` is the weight
    of the new batch, as in PyTorch.

    Shapes: `mean` and `var` (C,); `x` (N, C, *spatial).
    Errors: ValueError for shapes that do not fit, integers, a `momentum` outside
    [0, 1], or a batch with a single value per channel, whose unbiased variance is
    undefined.
    Source: Ioffe and Szegedy (2015), section 3.1;
    chapter "Batch normalization in use".
    """
    check_channels(x, mean=mean, var=var)
    check_variance(var)
    momentum = check_number("momentum", momentum, 0.0, 1.0)
    axes = check_axes(x, batch_axes(x))
    c = centered(x, axes)
    values = prod(x.shape[axis] for axis in axes)
    if values < 2:
        raise ValueError(
            f"x must have at least 2 values in each channel, but its shape is "
            f"{tuple(x.shape)}; the unbiased variance of a single value is "
            f"undefined, so use a larger batch"
        )
    batch_mean = location(x, axes).reshape(-1)
    batch_var = summed(c * c, axes) / (values - 1)
    return (
        (1 - momentum) * mean + momentum * batch_mean,
        (1 - momentum) * var + momentum * batch_var,
    )
