"""Group and instance normalization: each sample alone, over groups of channels."""

import math
from typing import NamedTuple

from normlib.layers.core import (
    Array,
    StandardizeCache,
    standardize,
    standardize_backward,
    summed,
)
from normlib.layers.guard import check_cache, check_count, check_shape
from normlib.layers.shapes import batch_axes, check_channels, per_channel

__all__ = [
    "group_norm",
    "group_norm_backward",
    "instance_norm",
    "instance_norm_backward",
]


class GroupNormCache(NamedTuple):
    standardized: StandardizeCache  # xhat (N, groups, values), rstd (N, groups, 1)
    gamma: Array  # (C,)
    shape: tuple[int, ...]  # of x


def check_groups(x: Array, groups: int) -> int:
    fix = "1 takes all channels together, C each alone"
    groups = check_count("groups", groups, fix)
    if x.shape[1] % groups:
        fitting = [g for g in range(1, x.shape[1] + 1) if x.shape[1] % g == 0]
        raise ValueError(
            f"groups must divide the number of channels of x {tuple(x.shape)}, but "
            f"got {groups}; try one of {fitting}"
        )
    if 0 in x.shape[1:]:
        raise ValueError(
            f"x must have at least one value in each group, but its shape is "
            f"{tuple(x.shape)}; a mean of nothing is undefined, so leave empty "
            f"batches out"
        )
    return groups


def group_norm(
    x: Array, gamma: Array, beta: Array, *, groups: int, eps: float = 1e-5
) -> tuple[Array, GroupNormCache]:
    """Group normalization: neighbouring channels of a sample share statistics.

    y = gamma · xhat + beta,   xhat = (x - mean) / sqrt(var + eps)

    mean and var (the biased one) are taken per sample over the C / groups channels
    of a group and all positions.

    Shapes: `x` and y (N, C, *spatial); `gamma` and `beta` (C,), one a channel.
    Errors: ValueError for shapes that do not fit, integers, no values, a negative
    `eps`, or `groups` that do not divide C.
    Source: Wu and He (2018), equations 1 to 7;
    chapter "Group and instance normalization".
    """
    check_channels(x, gamma=gamma, beta=beta)
    groups = check_groups(x, groups)
    rows = x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    xhat, standardized = standardize(rows, axes=(2,), eps=eps)
    y = per_channel(gamma, x) * xhat.reshape(x.shape) + per_channel(beta, x)
    return y, GroupNormCache(standardized, gamma, tuple(x.shape))


def group_norm_backward(
    dy: Array, cache: GroupNormCache
) -> tuple[Array, Array, Array]:
    """The gradients dx, dgamma, dbeta from the upstream gradient `dy`.

    dbeta = sum(dy),   dgamma = sum(dy · xhat),
    dx = rstd · (d - mean(d) - xhat · mean(d · xhat)),   d = gamma · dy,
    means over the group

    Shapes: `dy` and dx (N, C, *spatial); dgamma and dbeta (C,).
    Errors: ValueError if `dy` is not shaped like y.
    Source: chapter "Group and instance normalization".
    """
    check_cache(cache, GroupNormCache)
    standardized, gamma, shape = cache
    check_shape("dy", dy, shape, "that of the forward pass")
    xhat, axes = standardized.xhat.reshape(shape), batch_axes(dy)
    dbeta = summed(dy, axes)
    dgamma = summed(dy * xhat, axes)
    gamma = per_channel(gamma, dy)
    d = gamma * dy
    d = d.reshape(standardized.xhat.shape)
    dx = standardize_backward(d, standardized).reshape(shape)
    return dx, dgamma, dbeta


def instance_norm(
    x: Array, gamma: Array, beta: Array, *, eps: float = 1e-5
) -> tuple[Array, GroupNormCache]:
    """Instance normalization: group normalization with one channel a group.

    y = gamma · xhat + beta,   xhat = (x - mean) / sqrt(var + eps)

    mean and var (the biased one) are taken per sample and channel, over all
    positions. Without spatial axes there is one value, and y is beta.

    Shapes: `x` and y (N, C, *spatial); `gamma` and `beta` (C,).
    Errors: ValueError for shapes that do not fit, integers, no positions, or a
    negative `eps`.
    Source: Ulyanov, Vedaldi and Lempitsky (2016);
    chapter "Group and instance normalization".
    """
    check_channels(x, gamma=gamma, beta=beta)
    return group_norm(x, gamma, beta, groups=max(x.shape[1], 1), eps=eps)


def instance_norm_backward(
    dy: Array, cache: GroupNormCache
) -> tuple[Array, Array, Array]:
    """The gradients dx, dgamma, dbeta: of group norm with one channel a group.

    dbeta = sum(dy),   dgamma = sum(dy · xhat),
    dx = rstd · (d - mean(d) - xhat · mean(d · xhat)),   d = gamma · dy,
    means over positions

    Shapes: `dy` and dx (N, C, *spatial); dgamma and dbeta (C,).
    Errors: ValueError if `dy` is not shaped like y.
    Source: chapter "Group and instance normalization".
    """
    return group_norm_backward(dy, cache)
