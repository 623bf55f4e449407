"""Weights in front of a norm: what is measured of them goes away with the norm."""

import numpy as np
import pytest

from normbook.studies import scale_invariance as scale


def test_a_gain_is_counted_from_the_better_of_the_start_and_the_net_after_one_step():
    assert scale.gain(np.array([2.0, 1.0, 0.5])) == pytest.approx(np.log(2))
    worse_first = np.array([1.0, 4.0, 0.5])
    assert scale.gain(worse_first) == pytest.approx(np.log(2))
    assert scale.gain(np.array([2.0, 1.0, 1.0])) == 0  # frozen after one step


def test_in_front_of_a_norm_a_large_rate_goes_on_learning_and_a_far_larger_one_hardly():
    found = [scale.gain(scale.course(0, rate, scale.BATCH, 40)) for rate in (30.0, 1e5)]
    assert found[0] > 0.3 > 0.1 > found[1]
