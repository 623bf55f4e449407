"""Which settings of a deep net work: batch norm makes more of them work, by its division."""

import numpy as np

from normbook.lab import data
from normbook.studies import deeper

DIGITS = data.digits(np.random.default_rng(0), "raw")


def learns(norm):
    return deeper.last_loss(DIGITS, norm, 12, 0.5, 0.1, seed=0) < np.log(10) / 2


def test_small_weights_in_twelve_layers_learn_with_batch_norm_and_not_with_its_mean_alone():
    assert learns(deeper.BATCH) and not learns(deeper.CENTRE) and not learns(deeper.NONE)


def test_the_backward_that_only_centres_is_the_derivative_of_its_forward():
    rng = np.random.default_rng(1)
    z, dy, moved = rng.standard_normal((3, 5, 2))
    gamma, beta = rng.standard_normal((2, 2))
    y, cache = deeper.CENTRE[0](z, gamma, beta)
    there = deeper.CENTRE[0](z + moved, gamma, beta)[0]  # linear in z
    assert np.isclose(((there - y) * dy).sum(), (deeper.CENTRE[1](dy, cache)[0] * moved).sum())
