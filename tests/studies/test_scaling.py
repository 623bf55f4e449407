"""The steps of gradient descent, and the best units, against doing it."""

import numpy as np

from normbook.studies import scaling


def descent(x, target, tolerance=1e-3):
    """Steps of gradient descent at the best rate, done one by one."""
    hessian, design = scaling.hessian_of(x), np.c_[x, np.ones(len(x))]
    slope = design.T @ target / len(x)
    values, w, steps = np.linalg.eigvalsh(hessian), np.zeros(len(hessian)), 0
    goal = np.linalg.solve(hessian, slope)
    while (w - goal) @ hessian @ (w - goal) > tolerance * target.var():
        w, steps = w - 2 / (values[0] + values[-1]) * (hessian @ w - slope), steps + 1
    return steps


def test_the_steps_of_gradient_descent_are_those_that_it_takes():
    wine, alcohol, _ = scaling.wines()
    ways = (scaling.z_scores(wine), scaling.whiten(wine), scaling.in_similar_units(wine))
    for x in ways:
        assert abs(scaling.steps_of_descent(x, alcohol) - descent(x, alcohol)) <= 1


def test_the_best_units_are_at_least_as_good_as_any_that_were_tried():
    hessian = scaling.correlation(scaling.wines().x[:, :3])
    best = scaling.best_condition(hessian)
    units = np.random.default_rng(0).uniform(0.5, 2, (200, 3))
    tried = np.linalg.cond(hessian * units[:, :, None] * units[:, None, :])
    assert best <= tried.min() and best < np.linalg.cond(hessian) * (1 + 1e-9)
