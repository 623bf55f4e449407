"""What the chapter on group norm measures is what it says."""

import numpy as np

from normbook.studies import group_norm as shared
from normlib.layers import instance_norm, instance_norm_backward

X = np.random.default_rng(0).standard_normal((3, 4, 5, 5))
CHANNEL = np.ones(4), np.zeros(4)


def test_the_gradient_of_an_entry_tells_what_it_depends_on():
    asked = X, (1, 2, 0, 1), instance_norm, instance_norm_backward, CHANNEL
    expected = np.zeros(X.shape, dtype=bool)
    expected[1, 2] = True
    assert ((shared.gradient_of_entry(*asked) != 0) == expected).all()
