"""Weights in front of a norm: what is measured of them goes away with the norm."""

from functools import partial

import numpy as np
import pytest

from normbook.studies import scale_invariance as scale

DIGITS, NET = scale.start(0)
SLOPE = partial(scale.slope, DIGITS, NET)


def test_a_gain_is_counted_from_the_better_of_the_start_and_the_net_after_one_step():
    assert scale.gain(np.array([2.0, 1.0, 0.5])) == pytest.approx(np.log(2))
    assert scale.gain(np.array([1.0, 4.0, 0.5])) == pytest.approx(
        np.log(2)
    )  # one step made it worse
    assert scale.gain(np.array([2.0, 1.0, 1.0])) == 0  # frozen after one step


def test_in_front_of_a_norm_a_large_rate_goes_on_learning_and_a_far_larger_one_hardly():
    found = [scale.gain(scale.course(0, rate, scale.BATCH, 40)) for rate in (30.0, 1e5)]
    assert found[0] > 0.3 > 0.1 > found[1]


def test_in_front_of_a_norm_the_gradient_is_orthogonal_and_the_angle_settles():
    rows, w = np.arange(32), NET["w0"]
    for norm, orthogonal in ((scale.BATCH, True), (scale.NONE, False)):
        _, g = SLOPE(w, rows, norm)
        assert (abs((w * g).sum()) < 1e-9 * scale.size(w) * scale.size(g)) == orthogonal
    found = [
        scale.root_mean_square(scale.settle(SLOPE, w, 100, 0.03, norm, np.random.default_rng(0))[2])
        for norm in (scale.BATCH, scale.WIDE)
    ]
    assert abs(found[0] / np.arccos(0.97) - 1) < 0.05 < 0.3 < abs(found[1] / np.arccos(0.97) - 1)
