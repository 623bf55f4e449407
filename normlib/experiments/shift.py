"""A network that is watched while it trains: what reaches its hidden units, step by step.

The shipped batch norm runs on torch tensors here, and autograd differentiates it.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from normlib.experiments.networks import Params
from normlib.layers import batch_norm


def plain(z: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, None]:
    """Batch norm's place without batch norm: the same parameters, no statistics."""
    return gamma * z + beta, None


def forward(
    params: dict[str, Tensor], x: Tensor, norm: Callable, activation: Callable
) -> tuple[Tensor, list[Tensor]]:
    """Logits, and for each hidden layer what enters its activation, (samples, units)."""
    entering: list[Tensor] = []
    while f"w{len(entering)}" in params:
        w, gamma, beta = (params[f"{name}{len(entering)}"] for name in ("w", "gamma", "beta"))
        entering.append(norm(x @ w, gamma, beta)[0])
        x = activation(entering[-1])
    return x @ params["w_out"] + params["bias"], entering


def entering(
    params: Params, x: np.ndarray, *, norm: Callable = batch_norm, activation=torch.sigmoid
) -> list[np.ndarray]:
    """What enters each hidden layer's activation on the samples x, as arrays."""
    tensors = {name: torch.tensor(value) for name, value in params.items()}
    return [y.numpy() for y in forward(tensors, torch.tensor(x), norm, activation)[1]]


def watch(
    params: Params,
    x: np.ndarray,
    labels: np.ndarray,
    order: Sequence[np.ndarray],
    *,
    rate: float,
    probe: np.ndarray,
    norm: Callable = batch_norm,
    activation: Callable = torch.sigmoid,
    frozen: Sequence[str] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """Train by plain gradient descent, all but the parameters named in `frozen`.

    Returns the losses (steps,), and what entered the activations of the last hidden layer on
    the samples `probe` before each step, (steps, samples, units).
    """
    tensors = {
        name: torch.tensor(v, requires_grad=name not in frozen) for name, v in params.items()
    }
    moving = [tensor for tensor in tensors.values() if tensor.requires_grad]
    data, targets, seen = torch.tensor(x), torch.tensor(labels), torch.tensor(probe)
    losses, snapshots = [], []
    for batch in order:
        with torch.no_grad():
            snapshots.append(forward(tensors, seen, norm, activation)[1][-1].numpy())
        logits, _ = forward(tensors, data[batch], norm, activation)
        loss = torch.nn.functional.cross_entropy(logits, targets[batch])
        for tensor, gradient in zip(moving, torch.autograd.grad(loss, moving), strict=True):
            tensor.data -= rate * gradient
        losses.append(loss.item())
    return np.array(losses), np.array(snapshots)
