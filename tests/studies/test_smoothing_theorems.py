"""The random cases of the theorems: gradients, Hessians, and what they are built to have."""

import numpy as np

from normbook.lab import networks
from normbook.studies import smoothing_optima as optima
from normbook.studies import smoothing_theorems as theorems
from normlib.layers import batch_norm, batch_norm_backward

CASES = theorems.draw(np.random.default_rng(0), cases=20)


def loss(z):
    out = np.tanh(np.einsum("tij,jt->it", CASES.mix, z))
    return ((out - CASES.target) ** 2).sum(axis=0) / 2


def is_the_slope(gradient, loss):
    z, way = CASES.y, np.random.default_rng(1).standard_normal(CASES.y.shape)
    slope = (loss(z + 1e-6 * way) - loss(z - 1e-6 * way)) / 2e-6
    return np.allclose(theorems.dot(gradient(CASES, z), way), slope, rtol=1e-5, atol=1e-6)


def test_the_later_gradients_are_those_of_their_losses():
    assert is_the_slope(theorems.later_gradient, loss)
    assert is_the_slope(
        lambda c, z: theorems.convex(c, z)[1], lambda z: theorems.convex(CASES, z)[0]
    )


def test_the_form_keeps_the_ratio_and_stays_semidefinite():
    rng = np.random.default_rng(2)
    g, v = rng.standard_normal((2, 8, 20))
    thin = rng.standard_normal((8, 2, 20))
    made = theorems.with_the_ratio(np.einsum("ikt,jkt->ijt", thin, thin), g, v)
    forms = (theorems.quadratic(made, u) / theorems.dot(u, u) for u in (g, v))
    assert np.allclose(*forms) and np.linalg.eigvalsh(made.transpose(2, 0, 1)).min() > -1e-9


def test_least_squares_leaves_nothing_that_the_inputs_could_explain():
    rng = np.random.default_rng(3)
    inputs, targets = rng.standard_normal((5, 12, 4)), rng.standard_normal((5, 12))
    rest = targets - np.einsum("tmf,tf->tm", inputs, optima.fit(inputs, targets))
    assert np.allclose(optima.orthogonal_to(inputs, targets), rest)


def test_the_probe_of_a_network_notes_what_the_slope_identity_needs():
    """By the identity of Theorem 4.1, ‖v‖² = (γ/σ)² (1 - removed) ‖g‖² up to eps, in every unit."""
    digits, params = theorems.start(0)
    lengths = []

    def noting(dy, cache):
        dx, dgamma, dbeta = batch_norm_backward(dy, cache)
        lengths.append((theorems.dot(dx, dx) / theorems.dot(dy, dy), dgamma > 0))
        return dx, dgamma, dbeta

    rows = np.arange(1437)
    pair = batch_norm, noting
    networks.gradient(digits.x_train, digits.labels_train, pair)(params, rows)
    shrunk, positive = map(np.concatenate, zip(*lengths, strict=True))
    ratio, removed, found = theorems.probe(params, digits)
    identity = np.allclose(shrunk, ratio**2 * (1 - removed), rtol=1e-3, atol=0)
    assert identity and (found == positive).all()
