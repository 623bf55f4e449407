"""A departure from a Gaussian is seen, and is none where there is none."""

import numpy as np

from normbook.studies import batch_norm_claims as trials

RNG = np.random.default_rng(5)


def test_skewness_and_correlation_each_count_as_a_departure_from_a_gaussian():
    gaussian = RNG.standard_normal((2000, 6))
    correlated = gaussian @ (np.eye(6) + 0.5)
    skewed = RNG.exponential(size=(2000, 6))
    assert (
        trials.departure(gaussian) < 1 < min(trials.departure(correlated), trials.departure(skewed))
    )
