"""The trials on smoothness see no effect where there is none, and match what they say."""

import numpy as np
import pytest
import torch

from normbook.lab import data, networks
from normbook.studies import landscape, smoothness

SPLIT = data.digits(np.random.default_rng(0), "raw")


@pytest.mark.parametrize("norm", landscape.LP.values(), ids=list(landscape.LP))
def test_the_scale_of_the_outputs_is_matched(norm):
    params, *_ = landscape.digits_problem(SPLIT, norm, 0, 1)
    x = torch.tensor(SPLIT.x_train[:128])
    layers = networks.hidden(smoothness.match_scale(params, norm, x, networks.relu), x, norm)
    sizes = [layer.y.std(dim=0, correction=0).mean().item() for layer in layers]
    assert np.allclose(sizes, 1)


def test_quantiles_move_by_what_all_values_move():
    y = torch.tensor(np.random.default_rng(0).standard_normal((500, 3)))
    y = (y - y.mean(dim=0)) / y.std(dim=0, correction=0)
    assert smoothness.quantiles_moved([y, y + 0.3, y + 0.6]) == pytest.approx(0.3)
    assert smoothness.quantiles_moved([y, y.flip(0)]) == 0  # the same values, other samples
