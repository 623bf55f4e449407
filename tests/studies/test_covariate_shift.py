"""What is seen of a net in training is what was there before each step, and frozen is frozen."""

import numpy as np
import torch

from normbook.lab import data, networks, training
from normbook.studies import covariate_shift
from normlib.layers import batch_norm, batch_norm_backward

DIGITS = data.digits(np.random.default_rng(0), "raw")
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


def test_each_snapshot_is_taken_before_its_step():
    params, order = start()
    options = {"rate": RATE, "probe": PROBE, "activation": torch.relu}
    found = covariate_shift.watch(params, *ON, order, **options)
    assert all(np.allclose(a, b, rtol=1e-9) for a, b in zip(found, by_hand(), strict=True))


def test_above_frozen_layers_nothing_moves_to_the_last_bit():
    """Nothing reaches the last units but through what is frozen; the readout learns."""
    params, order = start()
    losses, seen = covariate_shift.watch(params, *ON, order, rate=RATE, probe=PROBE, frozen=BELOW)
    assert np.ptp(seen, axis=0).max() == 0 and np.ptp(losses) > 0


# The parts of the movement, and the controls of the trials.


def snapshots():
    """Two units at rest, three steps of 200 samples."""
    still = np.random.default_rng(2).standard_normal((1, 200, 2))
    return np.repeat(still, 3, axis=0)


def test_each_part_of_a_movement_sees_its_own_and_no_other():
    still = snapshots()
    step = np.array([0.0, 0.1, 0.3])[:, None, None]
    changed = {
        "mean": still + step,
        "deviation": still * np.exp(step),
        "shape": np.where(still > 1, still * (1 + step), still),
    }
    found = {part: covariate_shift.moves(seen) for part, seen in changed.items()}
    largest = {part: {n: m.max() for n, m in moved.items()} for part, moved in found.items()}
    assert min(largest[part][part] for part in changed) > 0.01
    assert max(largest["mean"][n] for n in ("deviation", "shape")) < 1e-12
    assert largest["deviation"]["shape"] < 1e-12
    assert max(moved.max() for moved in covariate_shift.moves(still).values()) == 0


def small_start(factor=1.0):
    start = covariate_shift.start_of(0, 2, factor, 6)
    return start._replace(digits=start.digits._replace(x_test=start.digits.x_test[:50]))


def test_the_control_starts_like_batch_norm_and_does_not_follow():
    start = small_start()
    x = start.digits.x_train
    kept = covariate_shift.kept_from_start(start.params, x, torch.sigmoid)
    for moved in (0.0, 0.5):
        params = start.params | {"w0": start.params["w0"] + moved}
        both = [
            covariate_shift.activation_inputs(params, x, norm)[-1] for norm in (kept, batch_norm)
        ]
        assert (np.abs(both[0] - both[1]).max() < 1e-9) == (moved == 0)
