"""Plain stochastic gradient descent, twice: by this book's backward, and by torch."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from normlib.experiments import networks
from normlib.experiments.networks import Params
from normlib.layers import (
    batch_norm,
    batch_norm_backward,
    batch_norm_inference,
    update_running,
)

Running = list[tuple[np.ndarray, np.ndarray]]  # mean and var of each hidden layer


def batches(samples: int, size: int, steps: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Indices of `steps` batches: shuffled anew each time the data is used up."""
    order = rng.permutation(samples)
    for _ in range(steps):
        if len(order) < size:
            order = rng.permutation(samples)
        batch, order = order[:size], order[size:]
        yield batch


def fresh_statistics(params: Params) -> Running:
    widths = [len(params[f"gamma{layer}"]) for layer in range(networks.depth(params))]
    return [(np.zeros(width), np.ones(width)) for width in widths]


def train(
    params: Params,
    x: np.ndarray,
    labels: np.ndarray,
    order: list[np.ndarray],
    *,
    rate: float,
    norm_backward: Callable = batch_norm_backward,
) -> tuple[list[float], Params, Running]:
    """Train a batch-normalized net; returns the losses, the trained net and its statistics."""
    losses, running = [], fresh_statistics(params)
    norms = [batch_norm] * networks.depth(params)
    for batch in order:
        logits, caches = networks.forward(params, x[batch], norms)
        loss, dlogits = networks.cross_entropy(logits, labels[batch])
        grads = networks.backward(params, dlogits, caches, norm_backward)
        zs = [z for _, z, _, _ in caches[:-1]]
        running = [update_running(*old, z) for old, z in zip(running, zs, strict=True)]
        params = {name: value - rate * grads[name] for name, value in params.items()}
        losses.append(loss)
    return losses, params, running


def predict(params: Params, running: Running, x: np.ndarray) -> np.ndarray:
    """The class of each sample, by the running statistics."""

    def norm(mean: np.ndarray, var: np.ndarray, z: np.ndarray, gamma, beta) -> tuple:
        return batch_norm_inference(z, mean, var, gamma, beta)

    logits, _ = networks.forward(params, x, [partial(norm, *statistics) for statistics in running])
    return logits.argmax(axis=1)


def torch_twin(params: Params) -> torch.nn.Sequential:
    """The same net from torch's own modules, with the same weights, in float64."""
    modules: list[torch.nn.Module] = []
    for layer in range(networks.depth(params)):
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


def train_torch(
    net: torch.nn.Module, x: np.ndarray, labels: np.ndarray, order: list[np.ndarray], *, rate: float
) -> list[float]:
    """Train it in place by torch's autograd, optimizer and loss; returns the losses."""
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    losses = []
    for batch in order:
        loss = torch.nn.functional.cross_entropy(
            net(torch.tensor(x[batch])), torch.tensor(labels[batch])
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
