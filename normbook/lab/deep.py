"""Deep dense networks in torch, for the chapters that ask why normalization works.

The nets are those of `networks`, in float64 tensors. A loss is a function (params, batch) →
number, which autograd differentiates. Call torch.set_num_threads(1) once: then every run repeats
to the last digit.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from normbook.lab import networks
from normbook.lab.networks import Norm, relu
from normbook.lab.training import Gradient, Params


def identity(x: Tensor) -> Tensor:
    return x


def tensors(params: Params) -> Params:
    return {name: torch.as_tensor(value) for name, value in params.items()}


def dense(sizes: tuple[int, ...], seed: int, *, gain: float = 2.0) -> Params:
    """Random weights of variance gain / inputs for layers of these sizes, inputs first. The gain
    2 is for ReLU (He et al. 2015), 1 for a linear net."""
    made = networks.dense(sizes, np.random.default_rng(seed))
    factor = (gain / 2) ** 0.5
    return tensors({n: value * factor if n[0] == "w" else value for n, value in made.items()})


def deep_linear(seed: int, *, layers: int = 25, width: int = 10) -> Params:
    """The deep linear network of Santurkar et al. (2018): `layers` square matrices, of which all
    but the last are followed by a norm. For `networks.forward` with activation=identity."""
    return dense((width,) * (layers + 1), seed, gain=1.0)


class Task(NamedTuple):
    x: Tensor  # (samples, width), standard Gaussian
    y: Tensor  # (samples, width), x A with A standard Gaussian


def gaussian_task(seed: int, *, samples: int = 256, width: int = 10) -> Task:
    """Learn one random Gaussian matrix from Gaussian inputs, as in Santurkar et al. (2018)."""
    rng = np.random.default_rng(seed)
    a, x = rng.standard_normal((width, width)), rng.standard_normal((samples, width))
    return Task(torch.tensor(x), torch.tensor(x @ a))


def squared_loss(norm: Norm, task: Task, activation: Callable = identity) -> Callable:
    """The mean over samples of the squared distance. A batch is the rows to use; slice(None) is
    all of them."""

    def loss(params: Params, rows: Any) -> Tensor:
        gap = networks.forward(params, task.x[rows], norm, activation)[0] - task.y[rows]
        return (gap * gap).sum(dim=1).mean()

    return loss


def cross_entropy_loss(
    norm: Norm, x: np.ndarray, labels: np.ndarray, activation: Callable = relu
) -> Callable:
    """The mean cross entropy over the rows of a batch."""
    inputs, targets = torch.tensor(x), torch.tensor(labels)

    def loss(params: Params, rows: Any) -> Tensor:
        logits, _ = networks.forward(params, inputs[rows], norm, activation)
        return functional.cross_entropy(logits, targets[rows])

    return loss


def gradient(loss: Callable) -> Gradient:
    """The loss on a batch and its gradient, by autograd. A parameter that the loss does not
    depend on has the gradient 0."""

    def by_autograd(params: Params, rows: Any) -> tuple[float, Params]:
        free = {name: value.detach().requires_grad_() for name, value in params.items()}
        value = loss(free, rows)
        slopes = torch.autograd.grad(
            value, list(free.values()), allow_unused=True, materialize_grads=True
        )
        return value.item(), dict(zip(free, slopes, strict=True))

    return by_autograd
