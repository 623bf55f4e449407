"""Stacks of random layers: what is measured is there, and gone with what causes it."""

import numpy as np

from normbook.lab import data
from normbook.studies import stacks

X = data.digits(np.random.default_rng(0), "raw").x_train[:16]


def at_gains(norm):
    """The factor of a layer for three sizes of the weights, from the same draws."""
    options = {"depth": 12, "norm": norm}
    gains = (0.1, 1.0, 10.0)
    return [stacks.factor(X, np.random.default_rng(1), gain=g, **options) for g in gains]


def test_the_size_of_the_weights_is_the_factor_of_a_layer_only_without_a_norm():
    small, usual, large = at_gains(stacks.NONE)
    assert np.allclose([usual - small, large - usual], 1)
    assert np.ptp(at_gains(stacks.BATCH)) < 1e-9 < 0.05 < min(at_gains(stacks.BATCH))
    assert np.ptp(at_gains(stacks.CENTRE)) > 1


def test_the_two_rates_are_the_ends_of_the_scale_on_which_a_growth_is_placed():
    for kind, rate in stacks.RATES.items():
        assert stacks.place(rate(8), kind, 8) == 0
        assert stacks.place(stacks.forgetful_rate(kind, 8), kind, 8) == 1


def test_every_slope_is_that_of_its_activation():
    y, h = np.linspace(-2, 2, 8), 1e-6
    for activation in stacks.ACTIVATIONS.values():
        central = (activation(y + h)[0] - activation(y - h)[0]) / (2 * h)
        assert np.allclose(activation(y)[1], central, atol=1e-8)


def test_a_skip_connection_keeps_the_gradient_near_its_size():
    plain, around = (
        stacks.factor(X, np.random.default_rng(2), depth=30, skip=skip) for skip in (False, True)
    )
    assert 0 < around < plain / 2
