"""The five formulas are one variance, and each keeps what it is known for."""

import numpy as np
import pytest

from normbook.studies import floating_point as fp

X = np.random.default_rng(0).standard_normal((50, 3))


@pytest.mark.parametrize("name", fp.FORMULAS)
def test_every_formula_is_the_variance_where_rounding_does_not_matter(name):
    assert np.allclose(fp.FORMULAS[name](X), X.var(axis=0), rtol=1e-12, atol=0)


def test_the_condition_is_that_of_the_first_column_and_knows_its_mean():
    assert abs(fp.condition(X - X.mean(axis=0)) - 1) < 1e-12
    assert abs(fp.condition((X - X.mean(axis=0)) / X.std(axis=0) + 3) - np.sqrt(10)) < 1e-12


def test_what_is_stored_is_off_by_half_a_unit_at_most():
    for dtype, unit in fp.ROUNDOFF.items():
        kept = fp.store(X, dtype).double().numpy()
        worst = np.abs(kept / X - 1).max()
        assert unit / 10 < worst <= unit


def test_a_distance_is_a_root_mean_square():
    assert fp.distance(np.array([3.0, 0.0]), np.array([0.0, 4.0])) == np.sqrt(12.5)
    assert np.allclose(fp.standardize(X).std(axis=-1), 1)
