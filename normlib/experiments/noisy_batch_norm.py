"""Noise behind a norm, as in Santurkar et al. (2018)."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from normlib.experiments import deep, networks, training
from normlib.experiments.data import Split
from normlib.experiments.networks import Norm, Params
from normlib.layers import batch_norm


class Strength(NamedTuple):
    """The constants of the paper, as transcribed."""

    n_mean: float = 0.5
    n_scale: float = 1.25
    r_mean: float = 0.1
    r_scale: float = 0.1


PAPER = Strength()


def draw(
    samples: int, units: int, rng: np.random.Generator, strength: Strength = PAPER
) -> tuple[Tensor, Tensor]:
    """A factor and a shift for each sample and unit, (samples, units).

    mean ~ U(-n_mean, n_mean) and scale ~ U(1, n_scale) once for each unit, then for each sample
    shift ~ U(mean - r_mean, mean + r_mean) and factor ~ N(scale, r_scale²).
    """
    n_mean, n_scale, r_mean, r_scale = strength
    mean, scale = rng.uniform(-n_mean, n_mean, units), rng.uniform(1, n_scale, units)
    shift = mean + rng.uniform(-r_mean, r_mean, (samples, units))
    factor = scale + r_scale * rng.standard_normal((samples, units))
    return torch.tensor(factor), torch.tensor(shift)


def noisy(norm: Norm, rng: np.random.Generator, strength: Strength = PAPER) -> Norm:
    """The norm, and behind it noise that is drawn anew at every call: for every layer and step."""

    def with_noise(z: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, None]:
        factor, shift = draw(*z.shape, rng, strength)
        return factor * norm(z, gamma, beta)[0] + shift, None

    return with_noise


def prepared(
    digits: Split, *, norm: str, noise: bool, layers: int, seed: int, strength: Strength = PAPER
) -> tuple[Params, Norm]:
    """A ReLU net with this many hidden layers of 50 units, and its norm, "plain" or "batch"."""
    quiet = {"plain": networks.no_norm, "batch": batch_norm}[norm]
    used = noisy(quiet, np.random.default_rng(1000 + seed), strength) if noise else quiet
    return deep.dense((digits.x_train.shape[1], *[50] * layers, 10), seed), used


def follow(
    digits: Split, *, norm: str, noise: bool, layers: int, rate: float, seed: int, steps: int
) -> dict[str, float | None]:
    """Train on batches of 128; how it ended, to six decimals.

    loss: the mean of the last 20 batches, with the noise; None if it is not finite.
    accuracy: on the test digits with the noise, and quiet: the same without it.
    """
    params, used = prepared(digits, norm=norm, noise=noise, layers=layers, seed=seed)
    order = training.batches(len(digits.x_train), 128, steps, np.random.default_rng(seed))
    loss = deep.cross_entropy_loss(used, digits.x_train, digits.labels_train)
    losses, params = training.train(params, deep.gradient(loss), order, rate)
    test = torch.tensor(digits.x_test), torch.tensor(digits.labels_test)
    silent = prepared(digits, norm=norm, noise=False, layers=layers, seed=seed)[1]
    end = losses[-20:].mean()
    return {
        "loss": round(end, 6) if np.isfinite(end) else None,
        "accuracy": round(networks.accuracy(params, *test, used), 6),
        "quiet": round(networks.accuracy(params, *test, silent), 6),
    }
