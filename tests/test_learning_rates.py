"""One cell of the map of learning rates and initial weights."""

import numpy as np
import torch
from twins import twin

from normbook.lab import data, deep, networks
from normbook.studies import landscape, learning_rates

DIGITS = data.digits(np.random.default_rng(0))
NORM = landscape.NORMS["batch norm"]
_ = torch.set_num_threads(1)


def all_matrices_are_resized(resized):
    params = deep.dense((3, 4, 2), 0)
    times = {
        n: (v / params[n]).mean().item() for n, v in resized(params, 3.0).items() if n[0] == "w"
    }
    vectors = [n for n in params if n[0] != "w"]
    same = all(resized(params, 3.0)[n] is params[n] for n in vectors)
    return same and np.allclose([*times.values()], 3) and set(times) == {"w0", "w_out"}


def test_the_weights_of_every_layer_are_resized_and_nothing_else():
    assert all_matrices_are_resized(learning_rates.resized)
    for wrong in ('n == "w0"', 'n[0] in "wg"'):
        changed = twin(learning_rates.resized, 'n[0] == "w"', wrong)
        assert not all_matrices_are_resized(changed), wrong


def is_the_end_of_a_run(end):
    """Within 100 steps batch norm reads the digits; from the last losses that is seen."""
    learned, again = (end(DIGITS, NORM, 0.3, 1.0, 0) for _ in range(2))
    return learned == again < 0.15 < end(DIGITS, NORM, 0.01, 4.0, 0)


def test_the_number_of_a_run_is_its_loss_at_the_end():
    assert is_the_end_of_a_run(learning_rates.end)
    for error in (
        ("losses[-20:]", "losses[:20]"),
        ("gradient, batches, rate", "gradient, batches, 0.01"),
    ):
        assert not is_the_end_of_a_run(twin(learning_rates.end, *error)), error


def test_a_run_that_broke_off_has_no_number():
    with np.errstate(all="ignore"):
        assert np.isnan(learning_rates.end(DIGITS, networks.no_norm, 1.0, 4.0, 0))
