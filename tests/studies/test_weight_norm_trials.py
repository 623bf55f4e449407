"""What the trials of weight norm measure vanishes where there is nothing to measure."""

import numpy as np
import pytest

from normbook.lab import data, networks
from normbook.studies import weight_norm as trials


@pytest.fixture
def ordinary(monkeypatch):
    """Ordinary weights in both places."""
    monkeypatch.setattr(trials, "split", lambda w: {"w": w})
    monkeypatch.setattr(trials, "through_weight_norm", lambda gradient: gradient)


def test_of_the_growth_of_ordinary_weights_nothing_is_prevented(ordinary):
    assert trials.share_prevented(trials.growth_at_equal_loss(1, steps=30)) == 0
    assert trials.share_prevented(trials.growth_above_the_limit(1, 1.5)) == 0


def test_above_the_limit_weight_norm_prevents_the_growth():
    ordinary, normalized = trials.growth_above_the_limit(1, 1.5)
    assert ordinary > 1e5 and normalized < 100


def test_lengths_are_compared_at_the_loss_that_all_reach():
    fast, slow = [(2.0, 1.0), (1.0, 5.0), (0.5, 9.0)], [(2.0, 1.0), (1.0, 6.0)]
    assert trials.lengths_at_loss([fast, slow]) == [5.0, 6.0]


def test_the_net_with_weight_norm_has_the_gradient_of_its_loss():
    """The gradients of v and g, along a random direction."""
    gradient = trials.network(data.digits(np.random.default_rng(0), "raw"), normalized=True)
    rng = np.random.default_rng(0)
    params = networks.dense((64, 5, 5, 10), rng)
    params |= {f"g_{n}": trials.length(params[n].T) for n in trials.weights(params)}
    along = {name: rng.standard_normal(value.shape) for name, value in params.items()}
    rows, step = np.arange(50), 1e-6
    up, down = (
        gradient({n: p + s * along[n] for n, p in params.items()}, rows)[0] for s in (step, -step)
    )
    slopes = gradient(params, rows)[1]
    predicted = sum((slopes[name] * along[name]).sum() for name in slopes)
    assert abs((up - down) / (2 * step) / predicted - 1) < 1e-6


def test_the_excess_kurtosis_is_that_of_known_distributions():
    rng = np.random.default_rng(0)
    normal, uniform = rng.standard_normal(100_000), rng.random(100_000)
    signs = np.tile([-1.0, 1.0], 50_000)
    found = trials.excess(np.array([normal, uniform, signs]).T)
    assert np.abs(found - [0, -1.2, -2]).max() < 0.05
