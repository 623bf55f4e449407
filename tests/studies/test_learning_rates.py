"""One cell of the map of learning rates and initial weights."""

import numpy as np
import torch

from normbook.lab import data, networks
from normbook.studies import landscape, learning_rates

DIGITS = data.digits(np.random.default_rng(0), "raw")
NORM = landscape.NORMS["batch norm"]
_ = torch.set_num_threads(1)


def test_a_run_that_broke_off_has_no_number():
    with np.errstate(all="ignore"):
        assert np.isnan(learning_rates.end(DIGITS, networks.no_norm, 1.0, 4.0, 0))
