"""A test set that took part in the statistics is seen by the trial, and one that did not is not."""

import numpy as np

from normbook.lab import data
from normbook.studies import scaling

DIGITS = data.digits(np.random.default_rng(0), "raw")
POOL = np.vstack([DIGITS.x_train, DIGITS.x_test])
LABELS = np.concatenate([DIGITS.labels_train, DIGITS.labels_test])


def bias(fit, splits=30):
    """The mean optimism of the score that rests on the statistics."""
    rng = np.random.default_rng(1)
    return np.mean([scaling.optimism(fit, POOL, LABELS, rng)[1] for _ in range(splits)])


def test_the_leak_spoils_a_score_that_rests_on_the_statistics_and_honest_statistics_do_not():
    assert bias(scaling.leaky) > 0.05 > abs(bias(scaling.honest))


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
