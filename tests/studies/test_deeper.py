"""The norm that only centres, with which deep nets are compared."""

import numpy as np

from normbook.studies import deeper


def test_the_backward_that_only_centres_is_the_derivative_of_its_forward():
    rng = np.random.default_rng(1)
    z, dy, moved = rng.standard_normal((3, 5, 2))
    gamma, beta = rng.standard_normal((2, 2))
    y, cache = deeper.CENTRE[0](z, gamma, beta)
    there = deeper.CENTRE[0](z + moved, gamma, beta)[0]  # linear in z
    assert np.isclose(((there - y) * dy).sum(), (deeper.CENTRE[1](dy, cache)[0] * moved).sum())
