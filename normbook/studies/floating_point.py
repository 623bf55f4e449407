"""The variance by five formulas that are equal on paper, and what rounding does to a layer."""

import numpy as np
import torch

from normlib.layers.core import Array

# Unit roundoff: how far a number is moved at most when it is stored, relative to itself.
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def one_pass(x: Array) -> Array:
    return (x * x).mean(axis=0) - x.mean(axis=0) ** 2


def shifted(x: Array) -> Array:
    return one_pass(x - x[0])


def welford(x: Array) -> Array:
    mean, total = 0 * x[0], 0 * x[0]
    for count, row in enumerate(x, start=1):
        step = row - mean
        mean = mean + step / count
        total = total + step * (row - mean)
    return total / len(x)


def two_pass(x: Array) -> Array:
    c = x - x.mean(axis=0)
    return (c * c).mean(axis=0)


def centred_twice(x: Array) -> Array:
    c = x - x.mean(axis=0)
    return two_pass(c)


FORMULAS = {f.__name__: f for f in (one_pass, shifted, welford, two_pass, centred_twice)}


def condition(x: np.ndarray) -> float:
    """κ of the first column: √(1 + μ²/σ²)."""
    return float(np.sqrt(1 + x[:, 0].mean() ** 2 / x[:, 0].var()))


def store(x: np.ndarray, dtype: str) -> torch.Tensor:
    return torch.tensor(x).to(getattr(torch, dtype))


def standardize(x: np.ndarray) -> np.ndarray:
    """What a layer over the last axis should return, in float64, with ε = 0."""
    return (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)


def distance(y: Array, exact: np.ndarray) -> float:
    """The root mean square of a difference."""
    return float(np.sqrt(((np.asarray(y, dtype=float) - exact) ** 2).mean()))
