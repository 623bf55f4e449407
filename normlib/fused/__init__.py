"""The layers as fast as memory allows: the derived formulas in Numba kernels.

The functions take what the layers of the same names in normlib take, and return what they
return, for NumPy arrays of float32 and float64. There is one difference: sums are float64, and so
a float32 above 1e19, whose square overflows, is normalized as any other; normlib's layers give beta
there, as PyTorch's do. A row of equal values at eps = 0 is nan, without a warning.

The cache keeps x itself, not xhat: do not write to x between forward and
backward. The first call compiles, which takes seconds; the result is kept on disk. Large arrays are
shared among `numba.get_num_threads()` threads, and no result depends on how many.
"""

from math import prod

import numpy as np

from normlib.fused.core import Cache, Columns, Pieces, Rows, backward, forward, in_order
from normlib.layers.group import check_groups
from normlib.layers.guard import check_axes, check_cache, check_shape
from normlib.layers.shapes import batch_axes, check_channels, check_trailing, last_axes

__all__ = [
    f"{layer}_norm{direction}"
    for layer in ("batch", "group", "layer", "rms")
    for direction in ("", "_backward")
]


class BatchNormCache(Cache):
    """That of batch_norm."""


class GroupNormCache(Cache):
    """That of group_norm."""


class LayerNormCache(Cache):
    """That of layer_norm."""


class RMSNormCache(Cache):
    """That of rms_norm."""


def batch_norm(x, gamma, beta, *, eps=1e-5):
    """`normlib.batch_norm` in kernels: x is read twice, y is written once.

    y = gamma · xhat + beta,   xhat = (x - mean) / sqrt(var + eps)

    Shapes: `x` and y (N, C, *spatial); `gamma` and `beta` (C,).
    Errors: ValueError as `normlib.batch_norm`, and for what is not an array of float32 or
    float64.
    Source: chapter "Normalization kernels on a CPU".
    """
    check_channels(x, gamma=gamma, beta=beta)
    check_axes(x, batch_axes(x))
    arrays = in_order(x=x, gamma=gamma, beta=beta)
    channels, size = x.shape[1], prod(x.shape[2:])
    layout = Pieces(len(x), size, size, channels * size, 1, 0)
    return forward(BatchNormCache, Columns() if x.ndim == 2 else layout, *arrays, eps)


def batch_norm_backward(dy, cache):
    """The gradients dx, dgamma, dbeta: x and dy are read twice, dx is written once.

    dx = rstd · (d - mean(d) - xhat · mean(d · xhat)),   d = gamma · dy

    Shapes: `dy` and dx (N, C, *spatial); dgamma and dbeta (C,).
    Errors: ValueError as `normlib.batch_norm_backward`.
    Source: chapter "Normalization kernels on a CPU".
    """
    check_cache(cache, BatchNormCache)
    return backward(dy, cache)


def group_norm(x, gamma, beta, *, groups, eps=1e-5):
    """`normlib.group_norm` in kernels: a group that the cache holds is read once.

    y = gamma · xhat + beta,   xhat = (x - mean) / sqrt(var + eps)

    Shapes: `x` and y (N, C, *spatial); `gamma` and `beta` (C,).
    Errors: ValueError as `normlib.group_norm`, and for what is not an array of float32 or
    float64.
    Source: chapter "Normalization kernels on a CPU".
    """
    check_channels(x, gamma=gamma, beta=beta)
    each, size = x.shape[1] // check_groups(x, groups), prod(x.shape[2:])
    arrays = in_order(x=x, gamma=gamma, beta=beta)
    layout = Rows(each, True) if size == 1 else Pieces(each, size, each * size, size, each, 1)
    return forward(GroupNormCache, layout, *arrays, eps)


def group_norm_backward(dy, cache):
    """The gradients dx, dgamma, dbeta.

    dx = rstd · (d - mean(d) - xhat · mean(d · xhat)),   d = gamma · dy

    Shapes: `dy` and dx (N, C, *spatial); dgamma and dbeta (C,).
    Errors: ValueError as `normlib.group_norm_backward`.
    Source: chapter "Normalization kernels on a CPU".
    """
    check_cache(cache, GroupNormCache)
    return backward(dy, cache)


def layer_norm(x, gamma, beta, *, eps=1e-5):
    """`normlib.layer_norm` in kernels: x is read once, y is written once.

    y = gamma · xhat + beta,   xhat = (x - mean) / sqrt(var + eps)

    Shapes: `x` and y (*leading, *features); `gamma` and `beta` (*features,).
    Errors: ValueError as `normlib.layer_norm`, and for what is not an array of float32 or
    float64.
    Source: chapter "Normalization kernels on a CPU".
    """
    check_trailing(x, gamma=gamma, beta=beta)
    check_shape("beta", beta, gamma.shape, "that of gamma")
    check_axes(x, last_axes(x, gamma))
    arrays = in_order(x=x, gamma=gamma, beta=beta)
    return forward(LayerNormCache, Rows(gamma.size, True), *arrays, eps)


def layer_norm_backward(dy, cache):
    """The gradients dx, dgamma, dbeta: x and dy are read once, dx is written once.

    dx = rstd · (d - mean(d) - xhat · mean(d · xhat)),   d = gamma · dy

    Shapes: `dy` and dx (*leading, *features); dgamma and dbeta (*features,).
    Errors: ValueError as `normlib.layer_norm_backward`.
    Source: chapter "Normalization kernels on a CPU".
    """
    check_cache(cache, LayerNormCache)
    return backward(dy, cache)


def rms_norm(x, gamma, *, eps=1e-6):
    """`normlib.rms_norm` in kernels: layer norm's, with a mean of zero.

    y = gamma · xhat,   xhat = x / sqrt(mean(x²) + eps)

    Shapes: `x` and y (*leading, *features); `gamma` (*features,).
    Errors: ValueError as `normlib.rms_norm`, and for what is not an array of float32 or
    float64.
    Source: chapter "Normalization kernels on a CPU".
    """
    check_trailing(x, gamma=gamma)
    check_axes(x, last_axes(x, gamma))
    x, gamma = in_order(x=x, gamma=gamma)
    beta = np.zeros_like(gamma)
    beta.setflags(write=False)
    return forward(RMSNormCache, Rows(gamma.size, False), x, gamma, beta, eps)


def rms_norm_backward(dy, cache):
    """The gradients dx, dgamma: x and dy are read once, dx is written once.

    dx = rstd · (d - xhat · mean(d · xhat)),   d = gamma · dy

    Shapes: `dy` and dx (*leading, *features); dgamma (*features,).
    Errors: ValueError as `normlib.rms_norm_backward`.
    Source: chapter "Normalization kernels on a CPU".
    """
    check_cache(cache, RMSNormCache)
    return backward(dy, cache)[:2]
