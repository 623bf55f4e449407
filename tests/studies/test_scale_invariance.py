"""Weights in front of a norm: what is measured of them goes away with the norm."""

import numpy as np
import pytest

from normbook.studies import scale_invariance as scale


def test_a_stack_of_weights_has_the_gradients_of_its_nets():
    digits, net = scale.start(0)
    rows, w = np.arange(32), np.random.default_rng(1).standard_normal((3, 64, 32))
    task = digits.x_train[rows], np.eye(10)[digits.labels_train[rows]], net["w_out"]
    for pair, norm in ((scale.BATCH, True), (scale.NONE, False)):
        alone = [scale.slope(digits, net, each, rows, pair)[1] for each in w]
        assert np.allclose(scale.slopes(*task, w, norm), alone, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", ["SGD", "momentum", "AdamW, one size"])
def test_on_noise_that_is_orthogonal_to_the_weights_the_angle_is_that_of_the_law(name):
    rule, rng, product = scale.RULES[name], np.random.default_rng(1), 0.01
    w, state, turned = rng.standard_normal(3000), None, []
    for t in range(1500):
        noise = rng.standard_normal(3000)
        orthogonal = (noise - w * (w @ noise) / (w @ w)) / np.linalg.norm(w)
        given = {"w": w}, {"w": orthogonal}, product / rule.decay, state
        new, state = rule.step(*given, decay=rule.decay)
        cosine = (w @ new["w"]) / np.linalg.norm(w) / np.linalg.norm(new["w"])
        turned += [np.arccos(cosine)] if t >= 1000 else []
        w = new["w"]
    assert scale.root_mean_square(np.array(turned)) == pytest.approx(
        scale.turn(rule, product), rel=0.02
    )
