"""Train a chosen part of a batch-normalized net, the rest frozen at its random start."""

import numpy as np

from normlib.experiments import networks, training
from normlib.experiments.training import Gradient, Params
from normlib.layers import batch_norm, batch_norm_backward


def affine(params: Params) -> list[str]:
    return [name for name in params if name.startswith(("gamma", "beta"))]


def hidden_weights(params: Params) -> list[str]:
    return [f"w{layer}" for layer in range(networks.depth(params))]


def whole(params: Params, names: list[str]) -> Params:
    """A mask that is 1 on all entries of these arrays."""
    return {name: np.full(value.shape, float(name in names)) for name, value in params.items()}


def scattered(params: Params, count: int, rng: np.random.Generator) -> Params:
    """A mask that is 1 on `count` hidden weights, drawn without replacement."""
    names = hidden_weights(params)
    sizes = [params[name].size for name in names]
    flat = np.zeros(sum(sizes))
    flat[rng.choice(flat.size, count, replace=False)] = 1
    pieces = np.split(flat, np.cumsum(sizes)[:-1])
    chosen = {n: piece.reshape(params[n].shape) for n, piece in zip(names, pieces, strict=True)}
    return whole(params, []) | chosen


def masked(gradient: Gradient, mask: Params) -> Gradient:
    """The same loss, and its gradient where the mask is 1; elsewhere 0, with which Adam stays."""

    def of_chosen(params: Params, rows: np.ndarray) -> tuple[float, Params]:
        loss, slopes = gradient(params, rows)
        return loss, {name: slopes[name] * mask[name] for name in params}

    return of_chosen


def train(params: Params, mask: Params, x, labels, order, *, rate: float) -> tuple:
    """Adam on the entries where the mask is 1; returns the losses and the trained net."""
    gradient = networks.gradient(x, labels, (batch_norm, batch_norm_backward))
    frozen = [name for name in params if not mask[name].any()]
    options = {"update": training.adam, "frozen": frozen}
    return training.train(params, masked(gradient, mask), order, rate, **options)


def predict(params: Params, x_train: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Classes of x, with the statistics of the whole training set."""
    return networks.predict(params, networks.statistics(params, x_train), x)
