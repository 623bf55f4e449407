"""Random cases for the theorems on slope and curvature of Santurkar et al. (2018).

A case is one unit, m samples, batch norm with ε = 0 and a later loss of its own. The cases stand
side by side as channels, so that one call of the shipped layer normalizes all of them.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from normbook.lab import data, networks, training
from normbook.lab.data import Split
from normbook.lab.training import Params
from normlib.layers import batch_norm, batch_norm_backward


class Cases(NamedTuple):
    mix: np.ndarray  # (cases, m, m) and target (m, cases): of the later loss
    target: np.ndarray
    gamma: np.ndarray  # (cases,), as beta
    beta: np.ndarray
    y: np.ndarray  # (m, cases), the activations before the norm


def draw(rng: np.random.Generator, m: int = 8, cases: int = 2000) -> Cases:
    """Location and scale of the activations, γ and β are random too."""
    mix = rng.standard_normal((cases, m, m)) / np.sqrt(m)
    target = rng.standard_normal((m, cases))
    gamma, scale = np.exp(0.5 * rng.standard_normal((2, cases)))
    beta, location = rng.standard_normal((2, cases))
    return Cases(mix, target, gamma, beta, location + scale * rng.standard_normal((m, cases)))


def later_gradient(cases: Cases, z: np.ndarray) -> np.ndarray:
    """∇L(z) of the later loss ½ |tanh(A z) - t|², which is not convex."""
    out = np.tanh(np.einsum("tij,jt->it", cases.mix, z))
    return np.einsum("tij,it->jt", cases.mix, (out - cases.target) * (1 - out**2))


def convex(cases: Cases, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A later loss that is convex, the sum of log(1 + exp(A z - t)); and its gradient."""
    a = np.einsum("tij,jt->it", cases.mix, z) - cases.target
    slope = np.einsum("tij,it->jt", cases.mix, 1 / (1 + np.exp(-a)))
    return np.logaddexp(0, a.real).sum(axis=0), slope


def hessian(gradient: Callable, at: np.ndarray) -> np.ndarray:
    """Entry (i, j, case): how gradient i changes with coordinate j, by the complex step."""
    steps = 1e-30j * np.eye(len(at))[:, :, None]
    return np.stack([gradient(at + step).imag / 1e-30 for step in steps], axis=1)


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(axis=0)


def outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("it,jt->ijt", a, b)


def quadratic(matrix: np.ndarray, a: np.ndarray) -> np.ndarray:
    """aᵀ M a of each case."""
    return np.einsum("it,ijt,jt->t", a, matrix, a)


class Slopes(NamedTuple):
    """What the theorems speak of, for one later loss."""

    g: np.ndarray  # the later gradient at z, behind the norm
    v: np.ndarray  # the gradient at y, before the norm
    at_y: np.ndarray  # the later gradient at y: the network without the norm
    yhat: np.ndarray
    sigma: np.ndarray
    curvature: np.ndarray  # vᵀ Ĥ v
    later: np.ndarray  # vᵀ H v with H at z
    later_at_y: np.ndarray  # the same with H at y


def slopes(cases: Cases, gradient: Callable = later_gradient) -> Slopes:
    def later(z: np.ndarray) -> np.ndarray:
        return gradient(cases, z)

    def through(y: np.ndarray) -> np.ndarray:
        z, cache = batch_norm(y, cases.gamma, cases.beta, eps=0.0)
        return batch_norm_backward(later(z), cache)[0]

    z, cache = batch_norm(cases.y, cases.gamma, cases.beta, eps=0.0)
    v, inner = through(cases.y), cache.standardized
    curves = (hessian(f, at) for f, at in ((through, cases.y), (later, z), (later, cases.y)))
    return Slopes(
        later(z),
        v,
        later(cases.y),
        inner.xhat,
        1 / inner.rstd[0],
        *(quadratic(h, v) for h in curves),
    )


def second_half(hess: np.ndarray, g: np.ndarray, yhat: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """vᵀĤv less the right side of the second half of Theorem 4.2, at σ = 1 and γ = ratio, for any
    later gradient g and Hessian."""
    m, eye = len(g), np.eye(len(g))[:, :, None]
    ones, along = np.ones_like(g), dot(g, yhat)
    P = eye - outer(ones, ones) / m - outer(yhat, yhat) / m
    Pg = np.einsum("ijt,jt->it", P, g)
    v = ratio * Pg
    PHP = np.einsum("ikt,klt,ljt->ijt", P, hess, P)
    fold = outer(Pg, yhat) + outer(yhat, Pg) + along * P
    left = quadratic(ratio**2 * PHP - ratio / m * fold, v)
    return left - ratio**2 * (quadratic(hess, g) - along * dot(v, v) / (m * ratio))


def with_the_ratio(psd: np.ndarray, g: np.ndarray, v: np.ndarray) -> np.ndarray:
    """A positive semidefinite matrix whose quadratic form keeps the ratio of the two norms,
    vᵀHv / |v|² = gᵀHg / |g|², from any other: the smaller of the two is raised."""
    a, b = (u / np.sqrt(dot(u, u)) for u in (g, v))
    of_a, of_b = quadratic(psd, a), quadratic(psd, b)
    lift = np.abs(of_a - of_b) / (1 - dot(a, b) ** 2)
    return psd + lift * np.where(of_a < of_b, outer(a, a), outer(b, b))


def keep_lengths(g: np.ndarray, v: np.ndarray, third: np.ndarray, tilt: float = 0.05) -> np.ndarray:
    """A positive semidefinite matrix with |Hv| / |v| = |Hg| / |g| whose quadratic form is large at
    v and small at g: it sees v by a direction at a right angle to g, and g by one at a right angle
    to v, which has little of g and a large weight. `third` is any direction outside of both."""

    def unit(u: np.ndarray) -> np.ndarray:
        return u / np.sqrt(dot(u, u))

    def without(u: np.ndarray, *axes: np.ndarray) -> np.ndarray:
        return unit(u - sum(dot(u, axis) * axis for axis in axes))

    side = without(g, unit(v))
    out = without(third, unit(v), side)
    sees_v = without(v, unit(g))
    sees_g = unit(side - dot(side, sees_v) / tilt * out)
    sees_v = sees_v + tilt * out  # now at a right angle to sees_g
    length = np.sqrt(dot(sees_v, sees_v) * dot(g, g) / dot(v, v))
    weight = np.abs(length * dot(sees_v, v) / dot(sees_g, g))
    return outer(sees_v, sees_v) + weight * outer(sees_g, sees_g)


# A network that learns digits.


def probe(params: Params, digits: Split) -> np.ndarray:
    """For each hidden unit of a net with batch norm, on all images: γ/σ, the part of ‖g‖² that the
    projector removes, and whether ∂L/∂γ is positive; (3, units)."""
    seen = []

    def noting(dy: np.ndarray, cache) -> tuple:
        dx, dgamma, dbeta = batch_norm_backward(dy, cache)
        ratio = cache.gamma * cache.standardized.rstd[0]
        removed = (dbeta**2 + dgamma**2) / len(dy) / dot(dy, dy)
        seen.append((ratio, removed, dgamma > 0))
        return dx, dgamma, dbeta

    rows = np.arange(len(digits.x_train))
    norm = batch_norm, noting
    networks.gradient(digits.x_train, digits.labels_train, norm)(params, rows)
    return np.array([np.concatenate(part) for part in zip(*seen, strict=True)])


AFTER = 0, 10, 30, 100, 200  # steps of full-batch descent at the rate 0.3


def start(seed: int) -> tuple[Split, Params]:
    rng = np.random.default_rng(seed)
    return data.digits(rng, "raw"), networks.dense((64, 64, 64, 10), rng)


def in_training(seed: int) -> np.ndarray:
    """The probes of a net with two hidden layers of 64 units; (steps, 3, units)."""
    digits, params = start(seed)
    norm = batch_norm, batch_norm_backward
    gradient = networks.gradient(digits.x_train, digits.labels_train, norm)
    probes, rows = [probe(params, digits)], np.arange(len(digits.x_train))
    for more in np.diff(AFTER):
        params = training.train(params, gradient, [rows] * more, 0.3)[1]
        probes.append(probe(params, digits))
    return np.array(probes)
