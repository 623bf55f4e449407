"""The ray meets what the formulas say, looking along it changes no training, and ℓp is ℓp."""

import numpy as np
import pytest
import torch

from normbook.lab import data, deep, training
from normbook.studies import landscape
from normlib.layers import batch_norm


@pytest.mark.parametrize("name", landscape.NORMS)
def test_looking_along_the_ray_changes_no_step_of_the_training(name):
    split = data.digits(np.random.default_rng(0), "raw")
    problem = [landscape.digits_problem(split, landscape.NORMS[name], 0, 7) for _ in range(2)]
    seen, losses, params = landscape.survey(*problem[0], 0.1, (0.5, 4.0), every=3)
    start, loss, batches = problem[1]
    expected, trained = training.train(start, deep.gradient(loss), batches, 0.1)
    assert np.array_equal(losses, expected)
    assert all(torch.equal(params[n], trained[n]) for n in trained)
    assert seen.steps.tolist() == [0, 3, 6] and np.array_equal(seen.start, losses[::3])
    assert seen.losses.shape == seen.changes.shape == seen.distances.shape == (3, 2)


def test_at_one_learning_rate_the_ray_meets_the_next_step():
    seen, losses, _ = landscape.survey(*landscape.linear_problem(batch_norm, 0, 3), 1e-4, (1.0,))
    assert np.allclose(seen.losses[:-1, 0], losses[1:], rtol=1e-12)


@pytest.mark.parametrize("p", [1, 2, torch.inf])
def test_lp_divides_by_the_norm_of_what_is_not_yet_centered(p):
    z = np.random.default_rng(0).standard_normal((9, 3)) + 2
    ones = np.ones(3)
    size = np.linalg.norm(z, ord=float(p), axis=0) / (1 if p == torch.inf else 9 ** (1 / p))
    ours = landscape.lp(*map(torch.tensor, (z, 2 * ones, ones)), p=p, eps=0.0)[0].numpy()
    assert np.allclose(ours, 2 * (z - z.mean(axis=0)) / size + 1, rtol=1e-12)
