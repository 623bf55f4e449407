"""Batch normalization over processes: all workers in one process, and the errors of their sums.

The witnesses need numbers of every kind, and processes send floats. So the functions that a worker
runs before and after an exchange are run here for four workers in turn. What is between, the
exchange itself, only real processes can confirm.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from normlib.distributed.batch import gradient, merge, moments, normalize, sums
from normlib.layers.core import Array
from normlib.verify.planted import Plant, plant


def parts_of(x: Array) -> list[Array]:
    """Four uneven parts, one of them always empty, and most of them in a small batch."""
    return [x[:1], x[1:1], x[1:3], x[3:]]


def join(parts: Sequence[Array]) -> Array:
    return torch.cat([*parts]) if isinstance(parts[0], torch.Tensor) else np.concatenate(parts)


def over_parts(x: Array, gamma: Array, beta: Array, *, eps: float = 1e-5) -> tuple[Array, Any]:
    """The shipped forward of four workers."""
    parts = parts_of(x)
    whole = merge([*map(moments, parts)])
    one = partial(normalize, gamma=gamma, beta=beta, whole=whole, eps=eps)
    ys, caches = zip(*map(one, parts), strict=True)
    return join(ys), caches


def over_parts_backward(dy: Array, caches: Any) -> tuple[Array, Array, Array]:
    """The shipped backward of four workers; the gradients of gamma and beta added up."""
    parts = parts_of(dy)
    dbeta, dgamma = total = [*map(sum, zip(*map(sums, parts, caches), strict=True))]
    return join([*map(partial(gradient, total=total), parts, caches)]), dgamma, dbeta


OWN_COUNT = "max(1, dy[:, 0].reshape(-1).shape[0])"
DIVIDED = "(like(dy, per_channel(s, dy) / count) for s in total)"
PLANTS: tuple[Plant, ...] = (
    plant("local variances averaged", "merge", "inside + between", "inside"),
    plant(
        "means averaged without their counts",
        "merge",
        "mean = first + offset",
        "mean = sum(part.mean for part in parts) / len(parts)",
    ),
    plant(
        "between the means, without counts",
        "merge",
        "part.count * (part.mean - mean) ** 2",
        "(part.mean - mean) ** 2",
    ),
    plant(
        "own count times the workers in dx",
        "gradient",
        "count = cache.moments.count",
        f"count = 4 * {OWN_COUNT}",
    ),
    plant(
        "own sums in dx, not those of all",
        "gradient",
        DIVIDED,
        DIVIDED.replace("in total", "in sums(dy, cache)").replace("count", OWN_COUNT),
    ),
    plant("dx without the mean of dy", "gradient", "dy - mean_dy", "dy"),
    plant(
        "dx without the part along xhat",
        "gradient",
        "dy - mean_dy - cache.xhat * mean_along",
        "dy - mean_dy",
    ),
    plant(
        "sums of dy · x, not dy · xhat", "sums", "dy * cache.xhat", "dy * cache.xhat / cache.rstd"
    ),
)
