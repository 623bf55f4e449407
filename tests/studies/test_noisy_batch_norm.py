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


def test_movements_are_measured_in_deviations():
    """Means move by half a deviation at every step, deviations by a factor of 2 every time."""
    values = np.random.default_rng(0).standard_normal((1, 400, 3))
    values = (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, keepdims=True)
    shifted = np.concatenate([values, values + 0.5, values + 1.0])
    doubled = np.concatenate([values, 2 * values, 4 * values])
    assert np.allclose(noise.jumps(7 * shifted), (0.5, 0))
    assert np.allclose(noise.jumps(doubled)[1], np.log(2))


def test_an_end_is_measured_without_the_noise_and_at_most_at_guessing():
    split = DIGITS
    setting = {"layers": 1, "seed": 0}
    far = noise.end(split, "plain", rate=1e4, **setting)
    assert far.loss == noise.GUESSING
    nets = "plain", "plain + noise"
    one, other = (noise.end(split, net, rate=0.0, **setting) for net in nets)
    assert one == other  # the noise is off, and nothing was learned
