"""What the chapter on the relatives and its claims page both measure."""

import numpy as np

from normbook.studies import rms_norm


def test_the_gradient_of_the_weights_before_rms_norm_is_that_of_the_loss():
    rng = np.random.default_rng(0)
    x, w, upstream = (rng.standard_normal(s) for s in ((5, 3), (3, 4), (5, 4)))
    along, step, ones = rng.standard_normal((3, 4)), 1e-6, np.ones(4)

    def loss(w):
        return (upstream * rms_norm.rms_norm(x @ w, ones, eps=0.0)[0]).sum()

    slope = (loss(w + step * along) - loss(w - step * along)) / (2 * step)
    dw = rms_norm.weight_gradients(x, w, ones, upstream)[0]
    assert np.isclose(slope, (dw * along).sum(), rtol=1e-6)
