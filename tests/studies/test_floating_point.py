"""What the page measures its formulas with: a condition number, and numbers of other formats."""

import numpy as np

from normbook.studies import floating_point as fp

X = np.random.default_rng(0).standard_normal((50, 3))


def test_the_condition_is_that_of_the_first_column_and_knows_its_mean():
    assert abs(fp.condition(X - X.mean(axis=0)) - 1) < 1e-12
    assert abs(fp.condition((X - X.mean(axis=0)) / X.std(axis=0) + 3) - np.sqrt(10)) < 1e-12


def test_what_is_stored_is_off_by_half_a_unit_at_most():
    for dtype, unit in fp.ROUNDOFF.items():
        kept = fp.store(X, dtype).double().numpy()
        worst = np.abs(kept / X - 1).max()
        assert unit / 10 < worst <= unit
