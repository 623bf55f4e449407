"""Ghost batches are batch norm on the parts, and the noise in their place has its two variances."""

import numpy as np
import pytest

from normbook.lab import data, networks, training
from normbook.studies import batch_noise
from normlib.layers import batch_norm

RNG = np.random.default_rng(0)
Z, DY = RNG.standard_normal((2, 12, 5))
GAMMA, BETA = RNG.standard_normal((2, 5))


def test_the_noise_has_the_variances_of_a_part_less_those_of_the_batch():
    """1/m - 1/N of the shift and half of it of the factor, which are the same for all of a part."""
    m, samples, units = 4, 8, 20000
    z, rng = RNG.standard_normal((samples, units)), np.random.default_rng(1)
    ones, zeros = np.ones(units), np.zeros(units)
    parts = (samples // m, m, units)
    y = batch_noise.noisy(m, rng)[0](z, ones, zeros)[0].reshape(parts)
    xhat = batch_norm(z, ones, zeros)[0].reshape(parts)
    factor = y.std(axis=1) / xhat.std(axis=1)
    shift = xhat.mean(axis=1) - y.mean(axis=1) / factor
    same = np.allclose((y / factor[:, None] + shift[:, None]), xhat, atol=1e-6)
    variance = 1 / m - 1 / samples
    assert same and np.allclose([shift.var(), 2 * factor.var()], variance, rtol=0.1)


MAKERS = {
    "parts": lambda: batch_noise.ghost(4),
    "noise": lambda: batch_noise.noisy(4, np.random.default_rng(2)),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_backward_is_the_complex_step(make):
    """dz, dgamma and dbeta, each along one direction, by a complex step with the same noise."""
    directions = RNG.standard_normal(Z.shape), RNG.standard_normal(5), RNG.standard_normal(5)
    forward, backward = make()
    slopes = backward(DY, forward(Z, GAMMA, BETA)[1])
    for k, (slope, direction) in enumerate(zip(slopes, directions, strict=True)):
        args = [Z, GAMMA, BETA]
        args[k] = args[k] + 1e-100j * direction
        moved = (make()[0](*args)[0] * DY).sum().imag / 1e-100
        assert np.isclose(moved, (slope * direction).sum())


def test_the_arm_without_parts_is_plain_batch_norm():
    """With the whole batch as its one part, the net is the one trained with batch norm."""
    rng = np.random.default_rng(100)
    split = data.digits(rng, "raw")
    x = np.split(np.concatenate([split.x_train, split.x_test]), [300])
    labels = np.split(np.concatenate([split.labels_train, split.labels_test]), [300])
    params = networks.dense((64, 64, 64, 10), rng)
    order = training.batches(300, 128, 8, rng)
    _, params, _ = networks.train_batch_norm(params, x[0], labels[0], order, rate=0.5)
    expected = batch_noise.outcome(params, x, labels)
    found = batch_noise.experiment(batch_noise.statistics_of(128), seed=100, rate=0.5, steps=8)
    assert np.allclose(found, expected, rtol=1e-9)


# The trials.


def test_the_gain_of_what_is_compared_with_is_zero_and_its_control_has_other_batches(monkeypatch):
    quick = {name: (norm, 8) for name, (norm, _) in batch_noise.ARMS.items()}
    monkeypatch.setattr(batch_noise, "ARMS", quick)
    setting = {"seed": 0, "rate": 0.5, "digits": 300}
    found = batch_noise.gains(("128", "8"), **setting)
    assert found["128"] == 0 and found["8"] != 0 and found["control"] != 0
