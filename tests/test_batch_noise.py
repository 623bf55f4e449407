"""Ghost batches are batch norm on the parts, and the noise in their place has its two variances."""

import numpy as np
import pytest
from twins import twin

from normbook.lab import data, networks, training
from normbook.studies import batch_noise
from normlib.layers import batch_norm, batch_norm_backward

RNG = np.random.default_rng(0)
Z, DY = RNG.standard_normal((2, 12, 5))
GAMMA, BETA = RNG.standard_normal((2, 5))


def by_parts(m):
    """Batch norm on each part alone: y, dz, and the sums of the parameters' gradients."""
    found = []
    for z, dy in zip(np.split(Z, 12 // m), np.split(DY, 12 // m), strict=True):
        y, cache = batch_norm(z, GAMMA, BETA)
        found.append((y, *batch_norm_backward(dy, cache)))
    y, dz, dgamma, dbeta = zip(*found, strict=True)
    return np.concatenate(y), np.concatenate(dz), sum(dgamma), sum(dbeta)


def is_batch_norm_by_parts(m):
    forward, backward = batch_noise.ghost(m)
    y, cache = forward(Z, GAMMA, BETA)
    ours = y, *backward(DY, cache)
    return all(np.allclose(a, b, atol=1e-12) for a, b in zip(ours, by_parts(m), strict=True))


@pytest.mark.parametrize("m", [3, 4, 12])
def test_ghost_batches_are_batch_norm_on_each_part(m):
    assert is_batch_norm_by_parts(m)


@pytest.mark.parametrize(
    ("name", "shipped", "changed"),
    [
        ("parts_as_channels", "reshape(-1, m, z.shape[1]).transpose(1, 0, 2)", "copy()"),
        ("channels_as_parts", "transpose(1, 0, 2)", "transpose(0, 1, 2)"),
        ("ghost", "reshape(-1, units)", "reshape(units, -1).T"),
        ("ghost", ".sum(axis=0)", ".mean(axis=0)"),
    ],
)
def test_parts_that_are_mixed_up_are_seen(name, shipped, changed, monkeypatch):
    monkeypatch.setattr(batch_noise, name, twin(getattr(batch_noise, name), shipped, changed))
    assert not is_batch_norm_by_parts(4)


def has_the_two_variances(noisy, m=4, samples=8, units=20000):
    """1/m - 1/N of the shift and half of it of the factor, which are the same for all of a part."""
    z, rng = RNG.standard_normal((samples, units)), np.random.default_rng(1)
    ones, zeros = np.ones(units), np.zeros(units)
    parts = (samples // m, m, units)
    y = noisy(m, rng)[0](z, ones, zeros)[0].reshape(parts)
    xhat = batch_norm(z, ones, zeros)[0].reshape(parts)
    factor = y.std(axis=1) / xhat.std(axis=1)
    shift = xhat.mean(axis=1) - y.mean(axis=1) / factor
    same = np.allclose((y / factor[:, None] + shift[:, None]), xhat, atol=1e-6)
    variance = 1 / m - 1 / samples
    return same and np.allclose([shift.var(), 2 * factor.var()], variance, rtol=0.1)


def test_the_noise_has_the_variances_of_a_part_less_those_of_the_batch():
    assert has_the_two_variances(batch_noise.noisy)
    for error in (
        ("1 / m - 1 / len(z)", "1 / m"),
        ("draws[1] / 2**0.5", "draws[1]"),
        ("(2, len(z) // m, len(gamma))", "(2, len(z) // m, 1)"),
    ):
        assert not has_the_two_variances(twin(batch_noise.noisy, *error)), error


def is_differentiated(noisy, m=4):
    """dz, dgamma and dbeta, each along one direction, by a complex step with the same noise."""
    directions = RNG.standard_normal(Z.shape), RNG.standard_normal(5), RNG.standard_normal(5)
    run = lambda *args: noisy(m, np.random.default_rng(2))[0](*args)  # noqa: E731
    slopes = noisy(m, None)[1](DY, run(Z, GAMMA, BETA)[1])
    for k, (slope, direction) in enumerate(zip(slopes, directions, strict=True)):
        args = [Z, GAMMA, BETA]
        args[k] = args[k] + 1e-100j * direction
        if not np.isclose((run(*args)[0] * DY).sum().imag / 1e-100, (slope * direction).sum()):
            return False
    return True


def test_the_backward_through_the_noise_is_the_complex_step():
    assert is_differentiated(batch_noise.noisy)
    for error in (("factor * dy", "dy"), ("(dy * moved)", "(dy * inner.standardized.xhat)")):
        assert not is_differentiated(twin(batch_noise.noisy, *error)), error


def judged(outcome):
    """A fresh net on one set of digits, taken for both."""
    split, params = data.digits(RNG), networks.dense((64, 16, 10), np.random.default_rng(3))
    x, labels = split.x_test, split.labels_test
    logits = networks.forward(params, x, batch_norm)[0]
    found = outcome(params, [x, x[:90]], [labels, labels[:90]])
    right = (logits.argmax(axis=1) == labels)[:90].mean()
    losses = (networks.cross_entropy(logits[:k], labels[:k])[0] for k in (90, 360))
    return np.allclose(found, (right, *losses), rtol=1e-9)


def test_a_net_is_judged_with_the_statistics_of_the_digits_it_was_trained_on():
    assert judged(batch_noise.outcome)
    for error in (
        ("(params, x[0])", "(params, x[1])"),
        ("test, train)", "train, test)"),
    ):
        assert not judged(twin(batch_noise.outcome, *error)), error


def trains_with_its_norm(experiment):
    """With the whole batch as its one part, the net is the one trained with batch norm."""
    rng = np.random.default_rng(100)
    split = data.digits(rng)
    x = np.split(np.concatenate([split.x_train, split.x_test]), [300])
    labels = np.split(np.concatenate([split.labels_train, split.labels_test]), [300])
    params = networks.dense((64, 64, 64, 10), rng)
    order = training.batches(300, 128, 8, rng)
    _, params, _ = networks.train_batch_norm(params, x[0], labels[0], order, rate=0.5)
    expected = batch_noise.outcome(params, x, labels)
    found = experiment(batch_noise.statistics_of(128), seed=100, rate=0.5, steps=8)
    return np.allclose(found, expected, rtol=1e-9)


def test_the_arm_without_parts_is_plain_batch_norm():
    assert trains_with_its_norm(batch_noise.experiment)
    for error in (
        ("order, rate)", "order, 0.1)"),
        ("(digits, 128, steps, rng)", "(digits, 128, 1, rng)"),
    ):
        assert not trains_with_its_norm(twin(batch_noise.experiment, *error)), error


# The trials.


def test_the_gain_of_what_is_compared_with_is_zero_and_its_control_has_other_batches(monkeypatch):
    quick = {name: (norm, 8) for name, (norm, _) in batch_noise.ARMS.items()}
    monkeypatch.setattr(batch_noise, "ARMS", quick)
    setting = {"seed": 0, "rate": 0.5, "digits": 300}
    found = batch_noise.gains(("128", "8"), **setting)
    assert found["128"] == 0 and found["8"] != 0 and found["control"] != 0
    blind = twin(batch_noise.gains, "order_seed=order_seed, ", "")
    assert blind(("128",), **setting)["control"] == 0


def test_the_rest_of_the_digits_is_the_test():
    seen = {}
    for count in (300, 1437):
        run = batch_noise.experiment(
            batch_noise.statistics_of(128), seed=0, rate=0.5, steps=3, digits=count
        )
        seen[count] = run.accuracy * (1797 - count)
    assert all(abs(value - round(value)) < 1e-6 for value in seen.values())
