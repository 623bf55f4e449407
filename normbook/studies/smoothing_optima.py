"""Random units for the two statements of Santurkar et al. (2018) on where optima lie.

A unit has inputs (units, m, features) of its own; activations and targets are (units, m).
"""

import numpy as np

from normlib.layers import batch_norm


def orthogonal_to(inputs: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """The part of each vector that is orthogonal to the columns of its unit's inputs."""
    q, _ = np.linalg.qr(inputs)
    return vectors - np.einsum("tmf,tf->tm", q, np.einsum("tmf,tm->tf", q, vectors))


def construct_targets(inputs: np.ndarray, y: np.ndarray, raw: np.ndarray) -> tuple:
    """Targets for which ½ |tanh(y) - t|² is stationary at y, and the smallest eigenvalue of the
    plain unit's Hessian there. `raw` is any vector."""
    out, g = np.tanh(y), 0.05 * orthogonal_to(inputs, raw)
    slope = 1 - out**2
    second = slope**2 - 2 * out * g  # the later loss's own, sample by sample
    bent = np.einsum("tmf,tm,tmh->tfh", inputs, second, inputs)
    return out - g / slope, np.linalg.eigvalsh(bent)[:, 0]


def deepest_fall(inputs: np.ndarray, y: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The most that the loss of the twin with batch norm falls when w, γ and β move a little from
    where it computes y, in 40 random directions."""
    falls, draw = [], np.random.default_rng(1)
    for _ in range(40):
        move = 0.001 * draw.standard_normal(inputs.shape[::2])
        a, b = 0.001 * draw.standard_normal((2, len(inputs)))
        moved = (y + np.einsum("tmf,tf->tm", inputs, move)).T
        z = batch_norm(moved, y.std(axis=1) * (1 + a), y.mean(axis=1) + b, eps=0.0)[0].T
        losses = ((np.tanh(at) - targets) ** 2 / 2 for at in (y, z))
        falls.append(np.subtract(*losses).sum(axis=1))
    return np.max(falls, axis=0)


def fit(inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Least squares slopes of each unit."""
    gram = np.einsum("tmf,tmh->tfh", inputs, inputs)
    return np.linalg.solve(gram, np.einsum("tmf,tm->tf", inputs, targets)[:, :, None])[:, :, 0]


def row_dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=1)


def violates_lemma(start: np.ndarray, at: np.ndarray, ray: np.ndarray) -> np.ndarray:
    """Which units violate Lemma 4.5, beyond rounding: `at` is the plain optimum, `ray` the
    direction of those with batch norm."""
    along = np.maximum(row_dot(start, ray) / np.linalg.norm(ray, axis=1), 0)
    left = row_dot(start, start) - along**2
    gap = row_dot(at, at) - row_dot(at, start)
    right = row_dot(start - at, start - at) - gap**2 / row_dot(at, at)
    return left > right + 1e-9 * row_dot(start, start)


def admit_starts(start: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The starts turned so that the lemma's condition holds."""
    return np.where(row_dot(start, at)[:, None] > 0, start, -start)
