"""Four neighbours of the layers: DyT, QK-norm, nGPT's step and weight standardization."""

import numpy as np

from normlib.layers.core import Array


def dyt(x: np.ndarray, alpha: float = 0.5) -> np.ndarray:
    """DyT with gamma = 1 and beta = 0 (Zhu et al. 2025)."""
    return np.tanh(alpha * x)


def largest_weight(q: Array, keys: Array, g: float, *, normalize=True) -> float:
    """The largest attention weight of a query on these keys, with logits g · q · k."""
    if normalize:
        q = q / np.linalg.norm(q)
        keys = keys / np.linalg.norm(keys, axis=1, keepdims=True)
    logits = g * keys @ q
    weights = np.exp(logits - logits.max())
    return weights.max() / weights.sum()


def most_that_fits(g: float, n: int) -> float:
    """The largest weight among n keys whose logits all lie within ±g."""
    return 1 / (1 + (n - 1) * np.exp(-2 * g))


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v)


def pace(alpha: np.ndarray | float, theta: float, size: float = 1.0) -> np.ndarray:
    """The share of the arc from h to b, an angle theta apart, that the normalized straight step
    from h to size · b goes."""
    along, across = 1 - alpha + alpha * size * np.cos(theta), alpha * size * np.sin(theta)
    return np.arctan2(across, along) / theta


def cosines(w: np.ndarray, gradient: np.ndarray) -> list[float]:
    """Of the gradient of each row with the ones, with the centred row, and with the row itself:
    the largest in size of each kind."""
    size = np.linalg.norm(gradient, axis=1)
    others = np.ones_like(w), w - w.mean(axis=1, keepdims=True), w
    return [
        float(np.abs((gradient * o).sum(axis=1) / size / np.linalg.norm(o, axis=1)).max())
        for o in others
    ]
