"""The noise behind a norm can be switched off."""

import numpy as np
import pytest
import torch

from normbook.lab import data, networks, training
from normbook.studies import noisy_batch_norm as noise
from normlib.layers import batch_norm, batch_norm_backward

DIGITS = data.digits(np.random.default_rng(0), "raw")
SETTING = {"layers": 3, "rate": 0.1, "seed": 2, "steps": 25}


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


@pytest.mark.parametrize("name", ["plain", "batch", "plain, deviations"])
def test_a_noisy_net_is_judged_at_the_mean_of_its_noise_and_another_as_it_is(name):
    z, one = torch.tensor(DIGITS.x_train[:8, 18:23] - 0.5), torch.ones(5).double()
    _, used = noise.prepare(DIGITS, norm=name, noise=True, layers=3, seed=0)
    mean = sum(used(z, one, 0 * one)[0] for _ in range(4000)) / 4000
    judges = (noise.silence(name, noise=kind)(z, one, 0 * one)[0] for kind in (True, False))
    near, far = ((judge - mean).abs().max() for judge in judges)
    assert near < 0.05 < far
