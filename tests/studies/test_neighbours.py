"""What the chapter on the relatives and its claims page both measure."""

import numpy as np

from normbook.studies import rms_norm, spectral_norm


def test_the_gradient_of_the_weights_before_rms_norm_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    x, w, upstream = (rng.standard_normal(s) for s in ((5, 3), (3, 4), (5, 4)))
    along, step, ones = rng.standard_normal((3, 4)), 1e-6, np.ones(4)

    def loss(w):
        return (upstream * rms_norm.rms_norm(x @ w, ones, eps=0.0)[0]).sum()

    slope = (loss(w + step * along) - loss(w - step * along)) / (2 * step)
    dw = rms_norm.weight_gradients(x, w, ones, upstream)[0]
    assert np.isclose(slope, (dw * along).sum(), rtol=1e-6)


def test_the_true_constant_is_reached_by_a_pair_of_points_and_not_exceeded():
    rng = np.random.default_rng(0)
    w1, w2 = rng.standard_normal((6, 2)), rng.standard_normal((3, 6))
    constant = spectral_norm.true_constant(w1, w2)
    a, along = rng.standard_normal((2, 2, 4000))
    b = a + 1e-6 * along
    gaps = [w2 @ np.maximum(w1 @ x, 0) for x in (a, b)]
    stretch = np.linalg.norm(gaps[1] - gaps[0], axis=0) / np.linalg.norm(1e-6 * along, axis=0)
    assert 0.9 * constant < stretch.max() < constant * (1 + 1e-6)
    assert constant < spectral_norm.product(w1, w2)
