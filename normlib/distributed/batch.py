"""Batch normalization over processes: the pair of forward and backward.

Two exchanges do it. Forward sends a count, a mean and a sum of squared deviations per channel,
backward two sums. What a worker does before and after an exchange are functions of their own,
written for any kind of number: all workers can be run in one process, on symbols as well.
"""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from normlib.distributed.engine import add_up, gather, tell
from normlib.layers.core import Array, location
from normlib.layers.core import summed as summed_over
from normlib.layers.guard import check_cache, check_eps, check_like
from normlib.layers.shapes import batch_axes, check_channels, per_channel

FORWARD, BACKWARD = "batch_norm", "batch_norm_backward"


class Moments(NamedTuple):
    """What is known of the values of each channel, in float64."""

    count: int
    mean: Array  # (C,)
    m2: Array  # (C,), the sum of squared deviations from the mean


class BatchNormCache(NamedTuple):
    xhat: Array  # as x, this worker's part
    rstd: Array  # (1, C, 1, ...)
    gamma: Array  # (C,)
    moments: Moments  # of the whole batch
    group: Any  # of processes; None is the default one


def batch_norm(
    x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float = 1e-5, group=None
) -> tuple[Tensor, BatchNormCache]:
    """Batch normalization in training, of a batch whose parts lie on several workers.

    y = gamma · xhat + beta,   xhat = (x - mean) / sqrt(var + eps)

    `x` is this worker's part; mean and var (the biased one) are those of all parts together. Parts
    may differ in size, and be empty. Every worker of the group has to make this call.

    Shapes: `x` and y (N, C, *spatial), N of this worker; `gamma` and `beta` (C,).
    Errors: ValueError for shapes or dtypes that do not fit, a negative `eps`, or a batch
    that is empty on all workers; PeerError if another worker is gone or stopped.
    Source: Chan, Golub and LeVeque (1979) for the merge;
    chapter "Batch normalization over processes".
    """
    call = f"{FORWARD} of {shape_of(x)}"
    tell("in", call)
    check_tensors(x, gamma=gamma, beta=beta)
    eps = check_eps(eps)
    parts = gather(pack(moments(x)), FORWARD, group)
    whole = merge([*map(unpack, parts)])
    found = normalize(x, gamma, beta, whole, eps, group)
    tell("after", call)
    return found


def batch_norm_backward(
    dy: Tensor,
    cache: BatchNormCache,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients dx, dgamma, dbeta of the sum of all workers' losses.

    dbeta = sum(dy),   dgamma = sum(dy · xhat),
    dx = rstd · (d - mean(d) - xhat · mean(d · xhat)),   d = gamma · dy

    The means run over the whole batch. The sums are this worker's share: added up over the workers,
    as the gradients of all other parameters have to be, they are those of the whole batch.

    Shapes: `dy` and dx (N, C, *spatial), this worker's part; dgamma and dbeta (C,).
    Errors: ValueError if `dy` is not shaped like y; PeerError if another worker is gone or
    stopped.
    Source: chapter "Batch normalization over processes".
    """
    call = f"{BACKWARD} of {shape_of(dy)}"
    tell("in", call)
    check_cache(cache, BatchNormCache)
    check_like("dy", dy, cache.xhat)
    own = sums(dy, cache)
    total = add_up(torch.cat(own), BACKWARD, cache.group).chunk(2)
    dbeta, dgamma = own
    dx = gradient(dy, cache, total)
    tell("after", call)
    return dx, dgamma, dbeta


# Before and after the exchange.


def first_of(x: Array) -> Array:
    """One value of each channel, near the others as a rule: (1, C, 1, ...), or nothing."""
    return x[(slice(0, 1), slice(None), *[slice(0, 1)] * (x.ndim - 2))]


def wide(a: Array) -> Array:
    return a.double() if hasattr(a, "double") else a


def like(x: Array, a: Array) -> Array:
    return a.to(x.dtype) if hasattr(a, "to") else a


def moments(x: Array) -> Moments:
    """Count, mean and sum of squared deviations of a part. The mean is put together in float64
    from one value and the mean distance to it, so that a float32 far from zero loses nothing."""
    axes = batch_axes(x)
    count = prod(x.shape[axis] for axis in axes)
    if not count:
        nothing = wide(summed_over(x, axes))
        return Moments(0, nothing, nothing)
    c = x - first_of(x)
    shift = location(c, axes)
    mean = (wide(first_of(x)) + wide(shift)).reshape(-1)
    return Moments(count, mean, wide(summed_over((c - shift) ** 2, axes)))


def merge(parts: Sequence[Moments]) -> Moments:
    """Of all parts together: what each has inside, and what lies between their means."""
    parts = [part for part in parts if part.count]
    if not parts:
        raise ValueError(
            "x must have at least one value on one of the workers, but it is "
            "empty on all; leave empty batches out"
        )
    count = sum(part.count for part in parts)
    first = parts[0].mean
    offset = sum(part.count * (part.mean - first) for part in parts) / count
    mean = first + offset
    inside = sum(part.m2 for part in parts)
    between = sum(part.count * (part.mean - mean) ** 2 for part in parts)
    return Moments(count, mean, inside + between)


def normalize(
    x: Array, gamma: Array, beta: Array, whole: Moments, eps: float, group: Any = None
) -> tuple[Array, BatchNormCache]:
    first = first_of(x)
    c = (x - first) - like(x, per_channel(whole.mean, x) - wide(first))
    rstd = like(x, per_channel((whole.m2 / whole.count + eps) ** -0.5, x))
    xhat = c * rstd
    y = per_channel(gamma, x) * xhat + per_channel(beta, x)
    return y, BatchNormCache(xhat, rstd, gamma, whole, group)


def sums(dy: Array, cache: BatchNormCache) -> tuple[Array, Array]:
    """Of a part: all that the others need for their dx."""
    axes = batch_axes(dy)
    return summed_over(dy, axes), summed_over(dy * cache.xhat, axes)


def gradient(dy: Array, cache: BatchNormCache, total: tuple[Array, Array]) -> Array:
    """dx of a part, from the two sums over all of them."""
    count = cache.moments.count
    mean_dy, mean_along = (like(dy, per_channel(s, dy) / count) for s in total)
    bracket = dy - mean_dy - cache.xhat * mean_along
    return per_channel(cache.gamma, dy) * cache.rstd * bracket


# What is sent.


def pack(part: Moments) -> Tensor:
    """2C + 1 numbers."""
    return torch.cat([part.mean.new_tensor([part.count]), part.mean, part.m2])


def unpack(vector: Tensor) -> Moments:
    mean, m2 = vector[1:].chunk(2)
    return Moments(int(vector[0]), mean, m2)


# What is asked of the input.


def shape_of(x: Any) -> str:
    return str(tuple(getattr(x, "shape", ()))) if hasattr(x, "shape") else type(x).__name__


def check_tensors(x: Tensor, **parameters: Tensor) -> None:
    for name, a in {"x": x, **parameters}.items():
        if not isinstance(a, Tensor):
            raise ValueError(
                f"{name} must be a torch tensor, but got a {type(a).__name__}; "
                f"try torch.as_tensor({name})"
            )
        if a.dtype not in (torch.float32, torch.float64) or a.dtype != x.dtype:
            raise ValueError(
                f"x and the parameters must all be of float32 or all of float64, but {name} is of "
                f"{a.dtype} and x of {x.dtype}; try {name}.float(), and round the output afterwards"
            )
    check_channels(x, **parameters)
