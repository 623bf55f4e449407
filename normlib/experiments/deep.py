"""Deep dense networks in torch, for the chapters that ask why normalization works.

Parameters are a dictionary, named as in `networks`: w0, gamma0, beta0, w1, … for the hidden
layers, w_out and bias for the last. A norm is a function (z, gamma, beta) → y that is passed in;
a loss is a function (params, batch) → number. Everything is float64, seeded, and nothing is
changed in place. Call torch.set_num_threads(1) once: then every run repeats to the last digit.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from normlib.experiments import networks, shift
from normlib.layers import batch_norm, layer_norm, rms_norm

Params = dict[str, Tensor]
Norm = Callable[[Tensor, Tensor, Tensor], Tensor]


def plain(z: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """A norm's place without a norm: the same parameters, no statistics."""
    return gamma * z + beta


def batch(z: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return batch_norm(z, gamma, beta)[0]


def layer(z: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return layer_norm(z, gamma, beta)[0]


def rms(z: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    """RMSNorm, and the shift that the other norms have."""
    return rms_norm(z, gamma)[0] + beta


def identity(x: Tensor) -> Tensor:
    return x


def dense(sizes: tuple[int, ...], seed: int, *, gain: float = 2.0) -> Params:
    """Random weights of variance gain / inputs for layers of these sizes, inputs first. The gain
    2 is for ReLU (He et al. 2015), 1 for a linear net."""
    made = networks.dense(sizes, np.random.default_rng(seed))
    return {
        name: torch.tensor(value * (gain / 2) ** 0.5 if name.startswith("w") else value)
        for name, value in made.items()
    }


def depth(params: Params) -> int:
    """The number of hidden layers."""
    return networks.depth(params)


def forward_watched(
    params: Params, x: Tensor, norm: Norm, activation: Callable = torch.relu
) -> tuple[Tensor, list[Tensor]]:
    """The output, and for each hidden layer what enters its activation, (samples, units)."""
    return shift.forward(params, x, lambda *z: (norm(*z), None), activation)


def forward(params: Params, x: Tensor, norm: Norm, activation: Callable = torch.relu) -> Tensor:
    """The output (samples, outputs). A norm that counts its calls or draws noise is called once
    for each hidden layer, the first layer first."""
    return forward_watched(params, x, norm, activation)[0]


def deep_linear(seed: int, *, layers: int = 25, width: int = 10) -> Params:
    """The deep linear network of Santurkar et al. (2018): `layers` square matrices, of which all
    but the last are followed by a norm. For `forward` with activation=identity."""
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
    """A loss for `train`: the mean over samples of the squared distance. A batch is the rows to
    use; slice(None) is all of them."""

    def loss(params: Params, rows: Any) -> Tensor:
        gap = forward(params, task.x[rows], norm, activation) - task.y[rows]
        return (gap * gap).sum(dim=1).mean()

    return loss


def cross_entropy_loss(
    norm: Norm, x: np.ndarray, labels: np.ndarray, activation: Callable = torch.relu
) -> Callable:
    """A loss for `train`: the mean cross entropy over the rows of a batch."""
    inputs, targets = torch.tensor(x), torch.tensor(labels)

    def loss(params: Params, rows: Any) -> Tensor:
        return functional.cross_entropy(
            forward(params, inputs[rows], norm, activation), targets[rows]
        )

    return loss


def gradient(params: Params, loss: Callable, rows: Any) -> tuple[float, Params]:
    """The loss on a batch and its gradient, named as the parameters. One that the loss does not
    depend on has the gradient 0."""
    free = {name: value.detach().requires_grad_() for name, value in params.items()}
    value = loss(free, rows)
    slopes = torch.autograd.grad(
        value, list(free.values()), allow_unused=True, materialize_grads=True
    )
    return value.item(), dict(zip(free, slopes, strict=True))


def step(params: Params, slopes: Params, rate: float, frozen: Iterable[str] = ()) -> Params:
    """New parameters after one step of gradient descent; those named in `frozen` stay."""
    kept = set(frozen)
    return {
        name: value if name in kept else value - rate * slopes[name]
        for name, value in params.items()
    }


class Moment(NamedTuple):
    """One step of training, before it is taken."""

    rows: Any  # the batch
    loss: float
    before: Params
    slopes: Params
    after: Params


def walk(
    params: Params,
    loss: Callable,
    batches: Iterable,
    rate: float,
    *,
    frozen: Iterable[str] = (),
) -> Iterator[Moment]:
    """Every step of plain SGD, for whoever wants to look at it. Wrap `batches` in tqdm for a
    progress bar."""
    for rows in batches:
        value, slopes = gradient(params, loss, rows)
        moment = Moment(rows, value, params, slopes, step(params, slopes, rate, frozen))
        yield moment
        params = moment.after


def train(
    params: Params,
    loss: Callable,
    batches: Iterable,
    rate: float,
    *,
    frozen: Iterable[str] = (),
) -> tuple[np.ndarray, Params]:
    """Plain SGD: the loss before each step, and the parameters after the last."""
    losses = []
    for moment in walk(params, loss, batches, rate, frozen=frozen):
        losses.append(moment.loss)
        params = moment.after
    return np.array(losses), params


def accuracy(
    params: Params,
    x: np.ndarray,
    labels: np.ndarray,
    norm: Norm,
    activation: Callable = torch.relu,
) -> float:
    """The share of right answers. Batch norm takes its statistics from these very samples."""
    with torch.no_grad():
        answers = forward(params, torch.tensor(x), norm, activation).argmax(dim=1)
    return (answers.numpy() == labels).mean().item()
