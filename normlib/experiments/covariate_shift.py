"""A network that is watched while it trains: what reaches its hidden units, step by step.

The shipped batch norm runs on torch tensors here, and autograd differentiates it.
"""

from collections.abc import Callable, Collection, Iterable

import numpy as np
import torch

from normlib.experiments import deep, networks, training
from normlib.experiments.networks import Norm, Params
from normlib.layers import batch_norm


def entering(
    params: Params, x: np.ndarray, norm: Norm, activation: Callable = torch.sigmoid
) -> list[np.ndarray]:
    """What enters the activation of each hidden layer, (samples, units)."""
    layers = networks.hidden(deep.tensors(params), torch.tensor(x), norm, activation)
    return [layer.y.numpy() for layer in layers]


def watch(
    params: Params,
    x: np.ndarray,
    labels: np.ndarray,
    order: Iterable[np.ndarray],
    *,
    rate: float,
    probe: np.ndarray,
    norm: Norm = batch_norm,
    activation: Callable = torch.sigmoid,
    frozen: Collection[str] = (),
) -> tuple[np.ndarray, np.ndarray]:
    """Train by plain gradient descent, all but the parameters named in `frozen`.

    Returns the losses (steps,), and what entered the activations of the last hidden layer on
    the samples `probe` before each step, (steps, samples, units).
    """
    gradient = deep.gradient(deep.cross_entropy_loss(norm, x, labels, activation))
    losses, snapshots = [], []
    for moment in training.walk(deep.tensors(params), gradient, order, rate, frozen=frozen):
        losses.append(moment.loss)
        snapshots.append(entering(moment.before, probe, norm, activation)[-1])
    return np.array(losses), np.array(snapshots)
