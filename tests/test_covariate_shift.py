"""What is seen of a net in training is what was there before each step, and frozen is frozen."""

import numpy as np
import torch
from twins import twin

from normlib.experiments import covariate_shift, data, networks, training
from normlib.layers import batch_norm, batch_norm_backward

DIGITS = data.digits(np.random.default_rng(0))
PROBE, STEPS, RATE = DIGITS.x_train[:50], 8, 0.3
ON = DIGITS.x_train, DIGITS.labels_train
BELOW = [f"{name}{layer}" for name in ("w", "gamma", "beta") for layer in (0, 1)]


def start():
    rng = np.random.default_rng(1)
    params = networks.dense((64, 16, 16, 10), rng)
    return params, list(training.batches(1437, 64, STEPS, rng))


def by_hand():
    """The same losses and snapshots from this book's backward, in NumPy."""
    params, order = start()
    gradient = networks.gradient(*ON, (batch_norm, batch_norm_backward))
    moments = list(training.walk(params, gradient, order, RATE))
    seen = [networks.hidden(m.before, PROBE, batch_norm)[-1].y for m in moments]
    return [m.loss for m in moments], np.array(seen)


def sees_what_was_there(watch):
    params, order = start()
    options = {"rate": RATE, "probe": PROBE, "activation": torch.relu}
    found = watch(params, *ON, order, **options)
    return all(np.allclose(a, b, rtol=1e-9) for a, b in zip(found, by_hand(), strict=True))


def test_each_snapshot_is_taken_before_its_step():
    assert sees_what_was_there(covariate_shift.watch)
    for error in (("entering(moment.before", "entering(moment.after"), ("[-1])", "[0])")):
        assert not sees_what_was_there(twin(covariate_shift.watch, *error)), error


def stands_still(watch):
    """Nothing reaches the last units but through what is frozen; the readout learns."""
    params, order = start()
    losses, seen = watch(params, *ON, order, rate=RATE, probe=PROBE, frozen=BELOW)
    return np.ptp(seen, axis=0).max() == 0 and np.ptp(losses) > 0


def test_above_frozen_layers_nothing_moves_to_the_last_bit():
    assert stands_still(covariate_shift.watch)
    assert not stands_still(twin(covariate_shift.watch, "frozen=frozen", "frozen=()"))


def test_what_enters_the_units_depends_on_the_activation_below_them():
    params, _ = start()
    for activation in (torch.tanh, torch.sigmoid):
        first, second = covariate_shift.entering(params, PROBE, networks.no_norm, activation)
        below = activation(torch.tensor(first)).numpy()
        assert np.abs(first - PROBE @ params["w0"]).max() < 1e-12
        assert np.abs(second - below @ params["w1"]).max() < 1e-12
    assert np.abs(second - np.maximum(first, 0) @ params["w1"]).max() > 0.1
