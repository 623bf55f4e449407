"""What the pages on batch norm share: each function against a way to the same number without it."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch

from normbook.studies import batch_norm as shared

rng = np.random.default_rng


@pytest.mark.parametrize("m", [2, 3])
def test_the_mean_variance_of_all_batches_is_the_one_that_numpy_finds(m):
    population = [Fraction(0), Fraction(1), Fraction(5)]
    batches = np.array([*itertools.product([0, 1, 5], repeat=m)], dtype=float)
    found = shared.mean_batch_variance(population, m)
    assert float(found) == pytest.approx(batches.var(axis=1).mean(), rel=1e-12)
    assert found == Fraction(m - 1, m) * Fraction(14, 3)  # exactly; the variance is 14/3


def biases():
    u, target = rng(2).standard_normal((2, 30))
    return u, target + 5


def test_a_bias_whose_mean_is_taken_for_a_constant_follows_the_mean_of_the_targets():
    u, target = biases()
    b, loss = shared.follow_bias(u, target, lambda slope: slope.sum(), steps=7, rate=0.25)
    # The residuals have the mean -mean(target) whatever b is, so each step is 2 · 0.25 of it.
    assert b == pytest.approx(0.5 * target.mean() * np.arange(7), rel=1e-12)
    fitted = u - u.mean()
    assert loss == pytest.approx(np.full(7, ((fitted - target) ** 2).mean()), rel=1e-12)


@pytest.mark.parametrize("a", [0.5, 3.0])
def test_output_and_gradient_for_scaled_weights_are_those_of_torch(a):
    draw = rng(3)
    x, w, dy = (draw.standard_normal(shape) for shape in ((9, 4), (4, 3), (9, 3)))
    gamma, beta = draw.standard_normal((2, 3))
    y, dw = shared.with_weights_times(a, x, w, gamma, beta, dy, eps=1e-2)
    weights = torch.tensor(a * w, requires_grad=True)
    affine = torch.tensor(gamma), torch.tensor(beta)
    theirs = torch.nn.functional.batch_norm(
        torch.tensor(x) @ weights, None, None, *affine, training=True, eps=1e-2
    )
    (gradient,) = torch.autograd.grad(theirs, weights, torch.tensor(dy))
    assert y == pytest.approx(theirs.detach().numpy(), abs=1e-12)
    assert dw == pytest.approx(gradient.numpy(), abs=1e-12)
