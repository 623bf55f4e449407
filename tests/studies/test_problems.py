"""Problems that come out even."""

import numpy as np
import pytest

from normbook.show.table import fraction
from normbook.studies import problems


@pytest.mark.parametrize("name", problems.KINDS)
def test_every_row_that_is_drawn_comes_out_even_whatever_the_seed(name):
    kind = problems.KINDS[name]
    assert len(problems.list_even(kind)) >= 5
    for seed in range(40):
        for problem in problems.sheet(kind, np.random.default_rng(seed)):
            for numbers in problem:
                assert all(map(fraction, numbers))  # it refuses what is no simple fraction
            assert problem.dx.any()
