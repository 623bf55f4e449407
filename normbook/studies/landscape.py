"""The loss along the gradient ray, as Santurkar et al. (2018) probe it, and the normalizations
by other means than the deviation.

At the parameters θ with the gradient d, the ray is θ - η d for several step lengths η ≥ 0. The
functions take any loss of `deep`: a function (params, batch) → number. They change nothing in
place. In float64 and on one thread every result repeats to the last digit.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from normbook.lab import deep, networks, training
from normbook.lab.data import Split
from normbook.lab.networks import Norm, Params
from normlib.layers import batch_norm, layer_norm, rms_norm


class Ray(NamedTuple):
    """What a gradient ray meets at each step length; or many rays, with a row for each."""

    start: Any  # the loss where the ray begins
    losses: np.ndarray  # (lengths,) or (rays, lengths), as the others
    changes: np.ndarray  # the distance of the gradient there from that at the start
    distances: np.ndarray  # the way from the start, η |d|
    steps: Any = 0  # at which step of training

    @property
    def smoothness(self) -> Any:
        """The effective smoothness: the greatest change of the gradient per way."""
        return (self.changes / self.distances).max(axis=-1)


def size(vectors: Params) -> float:
    """The Euclidean norm of all entries of all tensors together."""
    return sum((v * v).sum() for v in vectors.values()).sqrt().item()


def change(one: Params, other: Params) -> float:
    return size({name: one[name] - other[name] for name in one})


def ray(
    params: Params,
    slopes: Params,
    start: float,
    loss: Callable,
    rows: Any,
    lengths: Sequence,
) -> Ray:
    """Walk from `params` along minus the gradient `slopes`, all step lengths on one batch."""
    gradient = deep.gradient(loss)
    moved = [training.sgd(params, slopes, eta)[0] for eta in lengths]
    there = [gradient(other, rows) for other in moved]
    losses = np.array([value for value, _ in there])
    changes = np.array([change(slopes, other) for _, other in there])
    return Ray(start, losses, changes, np.array(lengths) * size(slopes))


def probe(params: Params, loss: Callable, rows: Any, lengths: Sequence) -> Ray:
    """The ray from `params`, whose gradient is computed first."""
    start, slopes = deep.gradient(loss)(params, rows)
    return ray(params, slopes, start, loss, rows, lengths)


def survey(
    params: Params,
    loss: Callable,
    batches: Iterable,
    rate: float,
    factors: Sequence[float],
    *,
    every: int = 1,
) -> tuple[Ray, np.ndarray, Params]:
    """Train by plain SGD, and at every few steps look along the ray on the batch of that step, at
    the step lengths rate · factors. Also returns all losses and the trained parameters."""
    lengths, rays, losses = [rate * f for f in factors], [], []
    walk = training.walk(params, deep.gradient(loss), batches, rate)
    for number, moment in enumerate(walk):
        losses.append(moment.loss)
        params = moment.after
        if number % every == 0:
            rows, start, before, slopes, _ = moment
            seen = ray(before, slopes, start, loss, rows, lengths)
            rays.append(seen._replace(steps=number))
    return Ray(*map(np.array, zip(*rays, strict=True))), np.array(losses), params


def rms(z: Tensor, gamma: Tensor, beta: Tensor) -> tuple:
    """RMSNorm, and the shift that the other norms have."""
    y, cache = rms_norm(z, gamma)
    return y + beta, cache


def lp(
    z: Tensor, gamma: Tensor, beta: Tensor, *, p: float, eps: float = 1e-5
) -> tuple[Tensor, None]:
    """Subtract the mean over the batch and divide by the average ℓp norm, which is computed
    before the mean is subtracted: y = gamma (z - mean z) / (mean |z|^p)^(1/p) + beta, and for
    p = ∞ the greatest |z|. Each unit has its own; eps is added to the mean."""
    parts = z.abs()
    if p == torch.inf:
        average = parts.amax(dim=0) + eps
    else:
        average = ((parts**p).mean(dim=0) + eps) ** (1 / p)
    return gamma * (z - z.mean(dim=0)) / average + beta, None


NORMS: dict[str, Norm] = {
    "without": networks.no_norm,
    "batch norm": batch_norm,
    "layer norm": layer_norm,
    "RMSNorm": rms,
}
LP: dict[str, Norm] = {f"ℓ{n}": partial(lp, p=p) for n, p in ((1, 1), (2, 2), ("∞", torch.inf))}
SIX_LAYERS = (64, *[64] * 6, 10)
BATCH = 64
EVERYTHING = slice(None)  # the batch that is all samples


def digits_problem(
    split: Split, norm: Norm, seed: int, steps: int, activation: Callable = networks.relu
) -> tuple:
    """Six layers of 64 units, with ReLU or another activation, on the digits: parameters, loss, and
    batches of 64."""
    loss = deep.cross_entropy_loss(norm, split.x_train, split.labels_train, activation)
    batches = training.batches(len(split.x_train), BATCH, steps, np.random.default_rng(seed))
    return deep.dense(SIX_LAYERS, seed), loss, batches


def linear_problem(norm: Norm, seed: int, steps: int) -> tuple:
    """The deep linear net on its Gaussian task, all samples in each step."""
    loss = deep.squared_loss(norm, deep.gaussian_task(seed))
    return deep.deep_linear(seed), loss, [EVERYTHING] * steps


def outcome(
    split: Split, norm: Norm, rate: float, seed: int, steps: int = 300
) -> tuple[float, float]:
    """Train the six layers: the mean loss of the last 20 steps, and the accuracy on the test
    digits."""
    params, loss, batches = digits_problem(split, norm, seed, steps)
    losses, params = training.train(params, deep.gradient(loss), batches, rate)
    test = torch.tensor(split.x_test), torch.tensor(split.labels_test)
    return losses[-20:].mean(), networks.accuracy(params, *test, norm)


def curvature(params: Params, loss: Callable, rows: Any) -> float:
    """|H d| / |d| at the start of the ray, by differentiating twice: what the effective
    smoothness of ever shorter rays tends to."""
    free = {name: value.detach().requires_grad_() for name, value in params.items()}
    options = {"allow_unused": True, "materialize_grads": True}
    value = loss(free, rows)
    slopes = torch.autograd.grad(value, list(free.values()), create_graph=True, **options)
    along = sum((s * s.detach()).sum() for s in slopes)
    bent = torch.autograd.grad(along, list(free.values()), **options)
    return size(dict(enumerate(bent))) / size(dict(enumerate(slopes)))
