"""The trials on batch norm see what they are about, and miss it once it is taken out."""

import numpy as np

from normbook.lab import data, networks, training
from normbook.studies import batch_norm_claims as trials

RNG = np.random.default_rng(5)
DIGITS = data.digits(np.random.default_rng(0), "raw")


def test_skewness_and_correlation_each_count_as_a_departure_from_a_gaussian():
    gaussian = RNG.standard_normal((2000, 6))
    correlated = gaussian @ (np.eye(6) + 0.5)
    skewed = RNG.exponential(size=(2000, 6))
    assert (
        trials.departure(gaussian) < 1 < min(trials.departure(correlated), trials.departure(skewed))
    )


def learns(pair, m):
    params = networks.dense((64, 32, 32, 10), np.random.default_rng(1))
    order = list(training.batches(1437, m, 400, np.random.default_rng(2)))
    return trials.accuracy_with(pair, DIGITS, params, order, 0.05) > 0.6


def test_a_single_sample_teaches_nothing_through_batch_norm_and_eight_do():
    assert learns(trials.BATCH_NORM, 8) and not learns(trials.BATCH_NORM, 1)
    assert learns(trials.PLAIN, 1)
