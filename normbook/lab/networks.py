"""Dense networks as plain functions on a dictionary of parameters.

w0, gamma0, beta0, w1, … belong to the hidden layers, w_out and bias to the last. Hidden layers
have no bias: the norm would subtract it. A norm is passed in, a function (z, gamma, beta) →
y, cache, as this book's layers are; `forward` calls it once for each hidden layer, the first layer
first. Arrays and torch tensors pass alike; `backward` is for arrays.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import torch

from normbook.lab import training
from normbook.lab.training import Gradient, Params
from normlib.layers import batch_norm, batch_norm_backward, batch_norm_inference, update_running
from normlib.layers.core import Array

Norm = Callable[[Array, Array, Array], tuple[Array, Any]]
Pair = tuple[Norm, Callable]  # a norm and its backward: (dy, cache) → dz, dgamma, dbeta
Statistics = list[tuple[np.ndarray, np.ndarray]]  # mean and var (units,) of each hidden layer


def no_norm(z: Array, gamma: Array, beta: Array) -> tuple[Array, tuple[Array, Array]]:
    """A norm's place without a norm: the same scale and shift, no statistics."""
    return gamma * z + beta, (z, gamma)


def no_norm_backward(dy: Array, cache: tuple[Array, Array]) -> tuple[Array, Array, Array]:
    z, gamma = cache
    return gamma * dy, (dy * z).sum(axis=0), dy.sum(axis=0)


def dense(sizes: tuple[int, ...], rng: np.random.Generator) -> Params:
    """Random weights for layers of these sizes, inputs first and classes last (He et al. 2015)."""
    *hidden, classes = sizes
    params: Params = {}
    for layer, (inputs, units) in enumerate(itertools.pairwise(hidden)):
        params[f"w{layer}"] = rng.standard_normal((inputs, units)) * np.sqrt(2 / inputs)
        params[f"gamma{layer}"], params[f"beta{layer}"] = np.ones(units), np.zeros(units)
    params["w_out"] = rng.standard_normal((hidden[-1], classes)) * np.sqrt(2 / hidden[-1])
    return params | {"bias": np.zeros(classes)}


def depth(params: Params) -> int:
    """The number of hidden layers."""
    return sum(name.startswith("gamma") for name in params)


def relu(y: Array) -> Array:
    return torch.relu(y) if isinstance(y, torch.Tensor) else np.maximum(y, 0)


class Hidden(NamedTuple):
    """What a hidden layer remembers, each (samples, units)."""

    x: Array
    z: Array  # x times the weights
    y: Array  # what enters the activation
    cache: Any  # the norm's own


def forward(
    params: Params, x: Array, norm: Norm, activation: Callable = relu
) -> tuple[Array, list]:
    """The output (samples, outputs), and what backward needs: the hidden layers, and at the end
    what enters the last."""
    caches: list = []
    for layer in range(depth(params)):
        z = x @ params[f"w{layer}"]
        y, cache = norm(z, params[f"gamma{layer}"], params[f"beta{layer}"])
        caches.append(Hidden(x, z, y, cache))
        x = activation(y)
    return x @ params["w_out"] + params["bias"], [*caches, x]


def hidden(params: Params, x: Array, norm: Norm, activation: Callable = relu) -> list[Hidden]:
    """The hidden layers after a forward pass; [-1].y is what enters the last activation."""
    return forward(params, x, norm, activation)[1][:-1]


def backward(params: Params, dlogits: np.ndarray, caches: list, norm_backward: Callable) -> Params:
    """The gradients of all parameters of a net with ReLU."""
    *layers, last = caches
    grads = {"w_out": last.T @ dlogits, "bias": dlogits.sum(axis=0)}
    dx = dlogits @ params["w_out"].T
    for layer in reversed(range(len(layers))):
        x, _, y, cache = layers[layer]
        dz, grads[f"gamma{layer}"], grads[f"beta{layer}"] = norm_backward(dx * (y > 0), cache)
        grads[f"w{layer}"] = x.T @ dz
        dx = dz @ params[f"w{layer}"].T
    return grads


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean loss over the batch, and its gradient with respect to the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    dlogits = np.exp(log_p)
    dlogits[rows, labels] -= 1
    return -float(log_p[rows, labels].mean()), dlogits / len(labels)


def gradient(x: np.ndarray, labels: np.ndarray, norm: Pair) -> Gradient:
    """The cross entropy on the rows of a batch, and its gradient by the backward of the norm."""

    def by_backward(params: Params, rows: np.ndarray) -> tuple[float, Params]:
        logits, caches = forward(params, x[rows], norm[0])
        loss, dlogits = cross_entropy(logits, labels[rows])
        return loss, backward(params, dlogits, caches, norm[1])

    return by_backward


def accuracy(params: Params, x: Array, labels: Array, norm: Norm) -> float:
    """The share of right answers. Batch norm takes its statistics from these very samples."""
    answers = forward(params, x, norm)[0].argmax(axis=1)
    return int((answers == labels).sum()) / len(labels)


# What batch norm keeps for inference.


def fresh_statistics(params: Params) -> Statistics:
    """Before the first batch."""
    widths = [len(params[f"gamma{layer}"]) for layer in range(depth(params))]
    return [(np.zeros(width), np.ones(width)) for width in widths]


def statistics(params: Params, x: np.ndarray) -> Statistics:
    """Those of all samples x, taken at once."""
    return [(h.z.mean(axis=0), h.z.var(axis=0)) for h in hidden(params, x, batch_norm)]


def train_batch_norm(
    params: Params,
    x: np.ndarray,
    labels: np.ndarray,
    order: Iterable[np.ndarray],
    *,
    rate: float,
    norm_backward: Callable = batch_norm_backward,
) -> tuple[np.ndarray, Params, Statistics]:
    """SGD without momentum: the losses, the net, and the running statistics of its batches."""
    descent = gradient(x, labels, (batch_norm, norm_backward))
    losses, running = [], fresh_statistics(params)
    for moment in training.walk(params, descent, order, rate):
        layers = hidden(moment.before, x[moment.rows], batch_norm)
        running = [update_running(*old, h.z) for old, h in zip(running, layers, strict=True)]
        losses.append(moment.loss)
        params = moment.after
    return np.array(losses), params, running


def at_inference(statistics: Statistics) -> Norm:
    """Batch norm at inference, with the statistics of the hidden layers in turn."""
    following = itertools.cycle(statistics)
    return lambda z, gamma, beta: batch_norm_inference(z, *next(following), gamma, beta)


def predict(params: Params, statistics: Statistics, x: np.ndarray) -> np.ndarray:
    """The class of each sample, by these statistics."""
    return forward(params, x, at_inference(statistics))[0].argmax(axis=1)


def torch_twin(params: Params) -> torch.nn.Sequential:
    """The same net from torch's own modules, with the same weights, in float64."""
    modules: list[torch.nn.Module] = []
    for layer in range(depth(params)):
        w = params[f"w{layer}"]
        modules += [
            torch.nn.Linear(*w.shape, bias=False),
            torch.nn.BatchNorm1d(w.shape[1]),
            torch.nn.ReLU(),
        ]
    net = torch.nn.Sequential(*modules, torch.nn.Linear(*params["w_out"].shape)).double()
    with torch.no_grad():
        for target, value in zip(net.parameters(), params.values(), strict=True):
            target.copy_(torch.tensor(value.T))
    return net
