"""Layer normalization and its kin: each sample is normalized on its own."""

from typing import NamedTuple

from normlib.layers.core import (
    Array,
    StandardizeCache,
    standardize,
    standardize_backward,
    summed,
)
from normlib.layers.guard import check_cache, check_like, check_shape
from normlib.layers.shapes import check_trailing, last_axes, leading_axes

__all__ = ["layer_norm", "layer_norm_backward"]


class LayerNormCache(NamedTuple):
    standardized: StandardizeCache  # xhat as x, rstd with 1 along gamma's axes
    gamma: Array  # the last axes of x


def layer_norm(
    x: Array, gamma: Array, beta: Array, *, eps: float = 1e-5
) -> tuple[Array, LayerNormCache]:
    """Layer normalization over the last ``gamma.ndim`` axes.

    y = gamma · xhat + beta,   xhat = (x - mean) / sqrt(var + eps)

    mean and var (the biased one) are those of each sample, over its own features.

    Shapes: `x` and y (*leading, *features); `gamma` and `beta` (*features,).
    Errors: ValueError for shapes that do not fit, integers, no features, or a
    negative `eps`.
    Source: Ba, Kiros and Hinton (2016), equation 3; chapter "Layer normalization".
    """
    check_trailing(x, gamma=gamma, beta=beta)
    check_shape("beta", beta, gamma.shape, "that of gamma")
    xhat, standardized = standardize(x, axes=last_axes(x, gamma), eps=eps)
    return gamma * xhat + beta, LayerNormCache(standardized, gamma)


def layer_norm_backward(
    dy: Array, cache: LayerNormCache
) -> tuple[Array, Array, Array]:
    """The gradients dx, dgamma, dbeta from the upstream gradient `dy`.

    dbeta = sum(dy),   dgamma = sum(dy · xhat),   both over the leading axes,
    dx = rstd · (d - mean(d) - xhat · mean(d · xhat)),   d = gamma · dy

    Shapes: `dy` and dx as x; dgamma and dbeta as gamma.
    Errors: ValueError if `dy` is not shaped like y.
    Source: chapter "Layer normalization".
    """
    check_cache(cache, LayerNormCache)
    standardized, gamma = cache
    xhat = standardized.xhat
    check_like("dy", dy, xhat)
    axes = leading_axes(dy, gamma)
    dbeta = summed(dy, axes)
    dgamma = summed(dy * xhat, axes)
    d = gamma * dy
    dx = standardize_backward(d, standardized)
    return dx, dgamma, dbeta
