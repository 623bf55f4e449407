"""Ghost batches are batch norm on the parts, and the noise in their place has its two variances."""

import numpy as np

from normbook.studies import batch_noise
from normlib.layers import batch_norm

RNG = np.random.default_rng(0)
Z, DY = RNG.standard_normal((2, 12, 5))
GAMMA, BETA = RNG.standard_normal((2, 5))


def test_the_noise_has_the_variances_of_a_part_less_those_of_the_batch():
    """1/m - 1/N of the shift and half of it of the factor, which are the same for all of a part."""
    m, samples, units = 4, 8, 20000
    z, rng = RNG.standard_normal((samples, units)), np.random.default_rng(1)
    ones, zeros = np.ones(units), np.zeros(units)
    parts = (samples // m, m, units)
    y = batch_noise.noisy(m, rng)[0](z, ones, zeros)[0].reshape(parts)
    xhat = batch_norm(z, ones, zeros)[0].reshape(parts)
    factor = y.std(axis=1) / xhat.std(axis=1)
    shift = xhat.mean(axis=1) - y.mean(axis=1) / factor
    same = np.allclose((y / factor[:, None] + shift[:, None]), xhat, atol=1e-6)
    variance = 1 / m - 1 / samples
    assert same and np.allclose([shift.var(), 2 * factor.var()], variance, rtol=0.1)


def test_noise_of_each_sample_has_the_same_variance_and_is_not_shared():
    """Within a part the shift differs from sample to sample, and over all it is as large."""
    m, samples, units = 4, 8, 20000
    z = np.repeat([[1.0], [-1.0]], samples // 2, axis=0) * np.ones(units)
    y = batch_noise.noisy(m, np.random.default_rng(1), 1)[0](z, np.ones(units), np.zeros(units))[0]
    shift, factor = 1 / m - 1 / samples, (1 / m - 1 / samples) / 2  # their variances
    assert np.isclose((y[0] - y[1]).var(), 2 * (shift + factor + shift * factor), rtol=0.1)


# Over sizes of the training set.


def test_the_share_removed_is_that_of_the_means_and_its_spread_that_of_their_quotient():
    rng = np.random.default_rng(5)
    draws = 10 + rng.standard_normal((2, 4000, 30))
    plain, arm = draws[0], 0.8 * draws[1]
    shares = np.array([batch_noise.share_removed(p, a) for p, a in zip(plain, arm, strict=True)])
    expected = 1 - arm.mean(axis=1) / plain.mean(axis=1)
    assert np.allclose(shares.mean(axis=1), expected)
    spread = (shares.std(axis=1, ddof=1) / 30**0.5).mean()
    assert np.isclose(spread, expected.std(), rtol=0.05)
