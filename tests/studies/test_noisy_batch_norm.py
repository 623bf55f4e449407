"""The noise behind a norm has the moments of its definition, and can be switched off."""

import numpy as np
import pytest
import torch

from normbook.lab import data, networks, training
from normbook.studies import noisy_batch_norm as noise
from normlib.layers import batch_norm, batch_norm_backward

DIGITS = data.digits(np.random.default_rng(0), "raw")
SETTING = {"layers": 3, "rate": 0.1, "seed": 2, "steps": 25}


def test_noise_of_no_strength_is_the_norm_and_other_noise_is_drawn_at_every_call():
    z = torch.tensor(np.random.default_rng(0).standard_normal((9, 4)))
    gamma, beta = torch.full((4,), 2.0).double(), torch.ones(4).double()
    none = noise.Strength(0.0, 1.0, 0.0, 0.0)
    quiet, _ = noise.noisy(batch_norm, np.random.default_rng(0), none)(z, gamma, beta)
    noisy = noise.noisy(batch_norm, np.random.default_rng(0))
    loud, again = (noisy(z, gamma, beta)[0] for _ in range(2))
    assert torch.equal(quiet, batch_norm(z, gamma, beta)[0]) and (loud - again).abs().min() > 0


@pytest.mark.parametrize("name", ["plain", "batch"])
def test_without_noise_the_run_is_the_one_by_this_books_backward(name):
    pairs = {
        "plain": (networks.no_norm, networks.no_norm_backward),
        "batch": (batch_norm, batch_norm_backward),
    }
    params = networks.dense((64, *[50] * 3, 10), np.random.default_rng(2))
    order = training.batches(1437, 128, 25, np.random.default_rng(2))
    gradient = networks.gradient(DIGITS.x_train, DIGITS.labels_train, pairs[name])
    losses, params = training.train(params, gradient, order, 0.1)
    right = networks.accuracy(params, DIGITS.x_test, DIGITS.labels_test, pairs[name][0])
    expected = [losses[-20:].mean(), right, right]
    found = noise.follow(DIGITS, norm=name, noise=False, **SETTING)
    assert np.allclose(list(found.values()), expected, atol=1e-6)
    other = noise.follow(DIGITS, norm=name, noise=True, **SETTING)
    assert not np.allclose(list(other.values()), expected, atol=1e-2)


# What the trials measure.
