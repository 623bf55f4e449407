"""Measurements for the chapters on batch norm and for their claims page."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from normbook.lab import networks, training
from normbook.lab.data import Split
from normbook.lab.networks import Params
from normlib.layers import batch_norm, batch_norm_backward, standardize, standardize_backward

Task = tuple[np.ndarray, np.ndarray, list[np.ndarray]]  # samples, labels, batches of rows


def digits_task(digits: Split, rng: np.random.Generator) -> tuple[Params, Task]:
    """A net of two hidden layers of 64 units at its start, and 200 batches of 64 digits."""
    net = networks.dense((64, 64, 64, 10), rng)
    order = list(training.batches(len(digits.x_train), 64, 200, rng))
    return net, (digits.x_train, digits.labels_train, order)


def mean_batch_variance(population: Sequence, m: int) -> Any:
    """The variance with 1/m, averaged over all ordered batches of m values of a population."""
    batches = [*itertools.product(population, repeat=m)]
    variances = (sum((p - sum(batch) / m) ** 2 for p in batch) / m for batch in batches)
    return sum(variances) / len(batches)


def take_apart(
    x: np.ndarray, d: np.ndarray, share: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """xhat, d, and what the backward pass leaves of d before dividing; eps = share · variance."""
    xhat, kept = standardize(x, axes=(0,), eps=share * x.var())
    return xhat, d, standardize_backward(d, kept) / kept.rstd


def matrix(x: np.ndarray, eps: float) -> np.ndarray:
    """P of the backward pass of one channel, column by column: what it leaves of a unit vector."""
    _, kept = standardize(x, axes=(0,), eps=eps)
    units = np.eye(len(x))[:, :, None]
    return np.hstack([standardize_backward(d, kept) / kept.rstd for d in units])


def is_orthogonal_projector(p: np.ndarray) -> bool:
    return bool(np.abs(p @ p - p).max() < 1e-12 and np.abs(p - p.T).max() < 1e-12)


# A bias in front of the subtraction of the mean.


def follow_bias(
    u: np.ndarray, target: np.ndarray, slope: Callable, *, steps: int = 50, rate: float = 0.1
) -> np.ndarray:
    """Fit (u + b) - mean(u + b) to the target; every b and its loss, shape (2, steps).

    `slope` is the gradient of b that is believed, from the gradient of the fitted values.
    """
    b, path = 0.0, []
    for _ in range(steps):
        residual = (u + b) - (u + b).mean() - target
        path.append((b, (residual**2).mean()))
        b -= rate * slope(2 * residual / len(u))
    return np.array(path).T


def runs_away(path: np.ndarray) -> bool:
    """Whether the bias moves at every step, and the loss never does."""
    b, loss = path
    return bool(np.ptp(loss) < 1e-9 * loss[0] and np.abs(np.diff(b)).min() > 0.1)


# The size of the weights in front of the layer.


def with_weights_times(
    a: float, x: np.ndarray, w: np.ndarray, gamma: np.ndarray, beta: np.ndarray, dy, *, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    """The output for the weights a·w, and the gradient of the loss with respect to them."""
    y, cache = batch_norm(x @ (a * w), gamma, beta, eps=eps)
    return y, x.T @ batch_norm_backward(dy, cache)[0]
