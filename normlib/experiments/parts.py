"""Train a chosen part of a batch-normalized net, the rest frozen at its random start."""

import numpy as np

from normlib.experiments import networks, training
from normlib.experiments.networks import Params
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


def adam(value, grad, moments, step: int, rate: float) -> tuple:
    """One step of Adam with its usual constants; the first step is number 1."""
    m, v = 0.9 * moments[0] + 0.1 * grad, 0.999 * moments[1] + 0.001 * grad * grad
    change = (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    return value - rate * change, (m, v)


def train(params: Params, mask: Params, x, labels, order, *, rate: float) -> tuple:
    """Adam on the entries where the mask is 1; returns the losses and the trained net."""
    norms, losses = [batch_norm] * networks.depth(params), []
    active = [name for name in params if mask[name].any()]
    params, moments = dict(params), dict.fromkeys(active, (0.0, 0.0))
    for step, batch in enumerate(order, start=1):
        logits, caches = networks.forward(params, x[batch], norms)
        loss, dlogits = networks.cross_entropy(logits, labels[batch])
        grads = networks.backward(params, dlogits, caches, batch_norm_backward)
        for name in active:
            grad = grads[name] * mask[name]
            params[name], moments[name] = adam(params[name], grad, moments[name], step, rate)
        losses.append(loss)
    return np.array(losses), params


def predict(params: Params, x_train: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Classes of x, with the statistics of the whole training set."""
    _, caches = networks.forward(params, x_train, [batch_norm] * networks.depth(params))
    statistics = [(z.mean(axis=0), z.var(axis=0)) for _, z, _, _ in caches[:-1]]
    return training.predict(params, statistics, x)
