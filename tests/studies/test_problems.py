"""Problems that come out even."""

import numpy as np
import pytest

from normbook.show.table import fraction
from normbook.studies import problems


def test_the_example_of_the_book_is_found_and_solved_as_on_paper():
    kind = problems.KINDS["batch norm"]
    assert (0, 6, 6, 8) in problems.list_even(kind)
    x, dy = np.array([0.0, 6, 6, 8]), np.array([1.0, 0, 0, 0])
    solved = problems.solve(kind, x, np.ones(4), dy)
    assert np.allclose(solved.dx * 54, [1, -2, -2, 3]) and np.allclose(solved.y * 3, [-5, 1, 1, 3])


@pytest.mark.parametrize("name", problems.KINDS)
def test_every_row_that_is_drawn_comes_out_even_whatever_the_seed(name):
    kind = problems.KINDS[name]
    assert len(problems.list_even(kind)) >= 5
    for seed in range(40):
        for problem in problems.sheet(kind, np.random.default_rng(seed)):
            for numbers in problem:
                assert all(map(fraction, numbers))  # it refuses what is no simple fraction
            assert problem.dx.any()
