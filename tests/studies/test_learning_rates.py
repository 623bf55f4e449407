"""One cell of the map of learning rates and initial weights."""

import numpy as np
import torch

from normbook.lab import data, deep, networks
from normbook.studies import landscape, learning_rates

DIGITS = data.digits(np.random.default_rng(0), "raw")
NORM = landscape.NORMS["batch norm"]
_ = torch.set_num_threads(1)


def test_the_weights_of_every_layer_are_resized_and_nothing_else():
    params = deep.dense((3, 4, 2), 0)
    for name, value in learning_rates.resized(params, 3.0).items():
        times = 3 if name in ("w0", "w_out") else 1
        assert torch.allclose(value, times * params[name]), name


def test_the_number_of_a_run_is_its_loss_at_the_end():
    """Within 100 steps batch norm reads the digits; from the last losses that is seen."""
    learned, again = (learning_rates.end(DIGITS, NORM, 0.3, 1.0, 0) for _ in range(2))
    assert learned == again < 0.15 < learning_rates.end(DIGITS, NORM, 0.01, 4.0, 0)


def test_a_run_that_broke_off_has_no_number():
    with np.errstate(all="ignore"):
        assert np.isnan(learning_rates.end(DIGITS, networks.no_norm, 1.0, 4.0, 0))
