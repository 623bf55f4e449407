"""Data that several test files share, and a layer as a compiled kernel has it."""

from functools import wraps

import numpy as np


def batch_norm_args(shape: tuple[int, ...], rng: np.random.Generator, offset=0.0, scale=1.0):
    """x, gamma, beta for batch norm; gamma keeps away from 0 and has both signs."""
    channels = shape[1]
    x = offset + scale * rng.standard_normal(shape)
    gamma = rng.uniform(0.5, 2, channels) * rng.choice([-1.0, 1.0], channels)
    return x, gamma, rng.standard_normal(channels)


def inference_args(shape: tuple[int, ...], rng: np.random.Generator):
    """x, mean, var, gamma, beta for batch norm at inference."""
    x, gamma, beta = batch_norm_args(shape, rng)
    return x, rng.standard_normal(shape[1]), rng.uniform(0.5, 2, shape[1]), gamma, beta


def take_floats_alone(forward):
    """The same layer as a compiled kernel: it refuses every other kind of number."""

    @wraps(forward)
    def kernel(*args, **keywords):
        if not all(isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in args):
            raise TypeError("expected an array of floats")
        return forward(*args, **keywords)

    return kernel
