"""What is seen of a net in training is what was there before each step, and frozen is frozen."""

import numpy as np
import pytest
import torch

from normbook.lab import data, networks, training
from normbook.studies import covariate_shift
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


def test_a_way_is_the_sum_of_its_steps_and_is_counted_in_both_units():
    seen = snapshots() * 5 + np.array([0.0, 0.1, 0.3])[:, None, None]
    found = covariate_shift.paths(seen)
    assert np.isclose(found["mean, absolute"], 0.3)
    assert np.isclose(found["mean, relative"], np.median(0.3 / seen[0].std(axis=0)))


def test_the_steps_between_two_losses_are_those_of_the_averaged_loss():
    losses = np.linspace(2, 0, 41)
    chosen = covariate_shift.between(losses, 1.5, 0.5)
    smooth = np.convolve(losses, np.ones(5) / 5, "valid")
    assert smooth[chosen.start] < 1.5 <= smooth[chosen.start - 1]
    assert smooth[chosen.stop - 1] < 0.5 <= smooth[chosen.stop - 2]
    with pytest.raises(ValueError, match="expected a loss below"):
        covariate_shift.between(losses, 1.5, -1)


def small_start(factor=1.0):
    start = covariate_shift.start_of(0, 2, factor, 6)
    return start._replace(digits=start.digits._replace(x_test=start.digits.x_test[:50]))


def test_the_control_starts_like_batch_norm_and_does_not_follow():
    start = small_start()
    x = start.digits.x_train
    kept = covariate_shift.kept_from_start(start.params, x, torch.sigmoid)
    for moved in (0.0, 0.5):
        params = start.params | {"w0": start.params["w0"] + moved}
        both = [covariate_shift.entering(params, x, norm)[-1] for norm in (kept, batch_norm)]
        assert (np.abs(both[0] - both[1]).max() < 1e-9) == (moved == 0)


def test_centring_alone_leaves_the_size_of_the_inputs():
    z, ones = torch.randn(100, 3, dtype=torch.float64) * 7 + 5, torch.ones(3)
    y = covariate_shift.mean_only(z, ones, 0 * ones)[0]
    assert y.mean(dim=0).abs().max() < 1e-12 and (y.std(dim=0) > 3).all()


def test_a_last_layer_that_stays_loses_only_if_its_inputs_move():
    start = small_start()
    rng = np.random.default_rng(0)
    one, other = (np.maximum(start.digits.x_train @ rng.standard_normal((64, 20)), 0) for _ in "ab")
    assert covariate_shift.loss_of_stale([one, one], start.digits) == 0
    assert covariate_shift.loss_of_stale([one, other], start.digits) > 1


def test_units_with_large_inputs_are_saturated_and_their_slopes_are_those_of_the_activation():
    usual, large = (small_start(factor) for factor in (0.5, 50.0))
    shares = [covariate_shift.share_saturated(s.params, s) for s in (usual, large)]
    assert shares[0] < 0.01 and shares[1] > 0.8
    found = covariate_shift.slopes(torch.tanh, np.array([0.0, 2.0]))
    assert np.allclose(found, [1, 1 - np.tanh(2) ** 2])
    means = [covariate_shift.mean_slope(large, n) for n in (networks.no_norm, batch_norm)]
    centred = covariate_shift.mean_slope(large, covariate_shift.mean_only)
    assert means[1] > 4 * max(means[0], centred)


def test_the_best_models_agree_if_the_truth_is_linear_or_the_inputs_are_alike():
    who = covariate_shift.population()
    assert covariate_shift.gap_of_optima(who, who.even) > 0.01
    assert covariate_shift.gap_of_optima(who, who.diagonal, noise=1.0) < 1e-20
    alike = who._replace(source=who.target)
    assert covariate_shift.gap_of_optima(alike, who.even) < 1e-20
