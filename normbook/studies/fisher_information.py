"""The Fisher information of softmax classifiers with norms, on digits.

10 units, 16 inputs (the 8 × 8 pixels, averaged in squares of four), 600 digits. All 180 parameters
are kept in one vector θ: the weights w of the units in turn, the biases b, the gains g; `kind` and
`unit` say which entry is which. No training: the laws hold at every point. The expectation over x
is the mean over these digits, and batch norm takes its statistics from all of them.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

from normbook.lab import data
from normbook.lab.trials import Trial
from normlib.layers import batch_norm, layer_norm, weight_norm
from normlib.layers.core import Array

unit = np.concatenate([np.repeat(np.arange(10), 16), np.arange(10), np.arange(10)])
kind = np.array([*"w" * 160, *"b" * 10, *"g" * 10])


def inputs() -> tuple[np.ndarray, np.ndarray]:
    """600 digits (cases, 16), and their labels."""
    digits = data.digits(np.random.default_rng(0), "raw")
    pixels = digits.x_train.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16)
    return pixels[:600], digits.labels_train[:600]


X, LABELS = inputs()


def by_weights(w: Array, g: Array, b: Array, x: Array, eps: float = 0) -> Array:
    return x @ weight_norm(w, g)[0].T + b


def by_batch(w: Array, g: Array, b: Array, x: Array, eps: float = 0) -> Array:
    return batch_norm(x @ w.T, g, b, eps=eps)[0]


def by_layer(w: Array, g: Array, b: Array, x: Array, eps: float = 0) -> Array:
    return layer_norm(x @ w.T, g, b, eps=eps)[0]


def plain(w: Array, g: Array, b: Array, x: Array, eps: float = 0) -> Array:
    return x @ w.T + b


NORMS = {"weight norm": by_weights, "batch norm": by_batch, "layer norm": by_layer}


def start(seed: int) -> np.ndarray:
    """Random parameters."""
    rng = np.random.default_rng(seed)
    w, b, g = (rng.standard_normal(size) for size in (160, 10, 10))
    return np.concatenate([w / 2, b / 2, np.exp(g / 4)])


def outputs(norm: Callable, theta: Array, x: Array = X, eps: float = 0.0) -> Array:
    return norm(theta[:160].reshape(10, 16), theta[170:], theta[160:170], x, eps)


def derivatives(function: Callable, theta: np.ndarray) -> np.ndarray:
    """∂z/∂θ by complex steps: cases, outputs, parameters."""
    steps = 1e-30j * np.eye(len(theta))
    return np.stack([function(theta + s).imag / 1e-30 for s in steps], axis=2)


def jacobian(norm: Callable, theta: Array, x: Array = X, **eps: float) -> Array:
    return derivatives(lambda t: outputs(norm, t, x, **eps), theta)


def softmax(z: np.ndarray) -> np.ndarray:
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def classes(z: np.ndarray) -> np.ndarray:
    """Cov[y | x] of one label out of ten."""
    p = softmax(z)[:, :, None]
    return p * np.eye(10) - p * p.swapaxes(1, 2)


def independent(z: np.ndarray) -> np.ndarray:
    """Cov[y | x] of ten logistic units."""
    p = 1 / (1 + np.exp(-z))
    return (p * (1 - p))[:, :, None] * np.eye(10)


def average_fisher(J: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    return np.tensordot(J, covariances @ J, axes=((0, 1), (0, 1))) / len(J)


def fisher(
    norm: Callable, theta: Array, x: Array = X, cov: Callable = classes, **eps
) -> np.ndarray:
    """F = E[Jᵀ Cov[y | x] J], the parameters in the order of θ."""
    covariances = cov(outputs(norm, theta, x, **eps))
    return average_fisher(jacobian(norm, theta, x, **eps), covariances)


# What is done to the weights, as factors on θ.

ROW = np.where((kind == "w") & (unit == 3), 2.0, 1.0)  # unit 3 doubled
WHOLE = np.where(kind == "w", 2.0, 1.0)
SOUND = (by_weights, ROW), (by_batch, ROW), (by_layer, WHOLE)  # where the outputs stay
AIMS = np.random.default_rng(1).standard_normal((20, 180))  # directions of θ, of length 1
AIMS /= np.linalg.norm(AIMS, axis=1, keepdims=True)


def ratio(norm: Callable, factors: np.ndarray, theta: np.ndarray, **options) -> np.ndarray:
    """Every entry of F after the weights were multiplied, over the entry before."""
    return fisher(norm, theta * factors, **options) / fisher(norm, theta, **options)


def along_row(F: np.ndarray) -> np.ndarray:
    """δᵀFδ in twenty directions of the weights of unit 3."""
    own = np.flatnonzero(ROW == 2)
    return np.einsum("ui,ij,uj->u", AIMS[:, :16], F[np.ix_(own, own)], AIMS[:, :16])


def quarters() -> np.ndarray:
    """The curvature along the rows after they were doubled, over that before: three sound cases,
    three starts, twenty directions."""
    points = [(norm, factors, start(seed)) for norm, factors in SOUND for seed in range(3)]
    found = [along_row(fisher(n, t * f)) / along_row(fisher(n, t)) for n, f, t in points]
    return np.array(found)


def half_renewed(norm: Callable, theta: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """F after doubling with a planted error: only one of its two Jacobians is renewed."""
    before, after = (jacobian(norm, t) for t in (theta, theta * factors))
    bent = classes(outputs(norm, theta)) @ before
    return np.tensordot(after, bent, axes=((0, 1), (0, 1))) / len(X)


def gradient(norm: Callable, theta: np.ndarray) -> np.ndarray:
    """Of the cross entropy on all digits, with respect to the weights."""
    errors = softmax(outputs(norm, theta)) - np.eye(10)[LABELS]
    return np.einsum("nh,nhp->p", errors, jacobian(norm, theta))[:160] / len(X)


def turns(norm: Callable, c: float, seed: int = 0) -> np.ndarray:
    """‖step‖ / ‖w‖ for a fixed update, a plain gradient step and a natural one, at c times W."""
    at = np.where(kind == "w", c * start(seed), start(seed))
    g, F = gradient(norm, at), fisher(norm, at)[:160, :160]
    steps = AIMS[0, :160], g, np.linalg.pinv(F, rcond=1e-9, hermitian=True) @ g
    lengths = [np.linalg.norm(step) for step in steps]
    return np.array(lengths) / np.linalg.norm(at[:160])


def divergence(norm: Callable, theta: Array, moved: Array, **eps: float) -> float:
    """The Kullback-Leibler divergence of the predictions at `moved` from those at θ."""
    here, there = (outputs(norm, t, **eps) for t in (theta, moved))
    p, shift = softmax(here), there - here
    logs = np.log((p * np.exp(shift)).sum(axis=1))
    return (logs - (p * shift).sum(axis=1)).mean()


LENGTHS = 0.2 / 2.0 ** np.arange(7)


def misses(norm: Callable, theta: np.ndarray, F: np.ndarray) -> np.ndarray:
    """The relative error of ½ δᵀFδ for each length, root mean square over the directions."""
    steps = LENGTHS[:, None, None] * AIMS
    kl = [[divergence(norm, theta, theta + d) for d in row] for row in steps]
    form = np.einsum("sup,pq,suq->su", steps, F, steps) / 2
    return np.sqrt(((form / kl - 1) ** 2).mean(axis=1))


def fisher_unprojected(theta: np.ndarray, x: np.ndarray = X) -> np.ndarray:
    """The Fisher matrix of weight norm with a planted error: χ = x, as if σ stayed."""
    J = jacobian(by_weights, theta, x)
    w, g = theta[:160].reshape(10, 16), theta[170:]
    own = (g / np.linalg.norm(w, axis=1))[:, None] * x[:, None]
    J[:, :, :160] = (np.eye(10)[:, :, None] * own[:, :, None]).reshape(len(x), 10, 160)
    return average_fisher(J, classes(outputs(by_weights, theta, x)))


def as_printed(norm: Callable, theta: np.ndarray, cov: Callable = classes) -> np.ndarray:
    """The blocks of equation 13: only the derivative of z_i by its own w_i."""
    own = jacobian(norm, theta) * (np.arange(10)[:, None] == unit)
    return average_fisher(own, cov(outputs(norm, theta)))


def gain_metric(
    norm: Callable, theta: Array, x: Array = X, g: float = 1.0, eps: float = 0.0
) -> np.ndarray:
    """The diagonal of F along the gains, after these were multiplied by g."""
    F = fisher(norm, np.where(kind == "g", g * theta, theta), x, eps=eps)
    return F.diagonal()[kind == "g"]


def length_metric(theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The metric of the plain model along the length of each unit's weights."""
    w = theta[:160].reshape(10, 16)
    along = x @ (w / np.linalg.norm(w, axis=1, keepdims=True)).T
    p = softmax(outputs(plain, theta, x))
    return (p * (1 - p) * along**2).mean(axis=0)


# The spectrum of a network with two hidden ReLU layers. Its parameters stand in θ layer by layer:
# weights, biases, gains; a layer without a norm does not use its gains.

SIZES = 16, 10, 10, 10
PIXELS = {"raw": X[:300], "centred": X[:300] - X[:300].mean(axis=0)}


def by_frozen_batch(w: Array, g: Array, b: Array, x: Array, eps: float = 0) -> Array:
    """Batch norm with a planted error: a complex step does not move its statistics."""
    z = x @ w.T
    return g * (z - z.real.mean(axis=0)) / z.real.std(axis=0) + b


NETWORKS: dict[str, tuple[Callable, ...]] = {
    "no norm": (plain, plain, plain),
    "batch norm": (by_batch, by_batch, plain),
    "layer norm": (by_layer, by_layer, plain),
    "batch norm, outputs too": (by_batch, by_batch, by_batch),
    "layer norm, outputs too": (by_layer, by_layer, by_layer),
    "batch norm, statistics frozen": (by_frozen_batch, by_frozen_batch, plain),
}
RAW = "no norm", "layer norm", "layer norm, outputs too"  # batch norm takes out any mean


def network_start(rng: np.random.Generator) -> np.ndarray:
    """Weights of the size that suits what follows, ReLU or the softmax; no biases; gains of 1."""
    parts, last = [], len(SIZES) - 2
    for layer, (inputs, units) in enumerate(pairwise(SIZES)):
        w = rng.standard_normal(units * inputs) * np.sqrt((1 if layer == last else 2) / inputs)
        parts += [w, np.zeros(units), np.ones(units)]
    return np.concatenate(parts)


def network(norms: Sequence[Callable], theta: Array, x: Array) -> Array:
    """The outputs before the softmax."""
    z, at = x, 0
    for norm, (inputs, units) in zip(norms, pairwise(SIZES), strict=True):
        h = z * (z.real > 0) if at else x
        own = theta[at : at + units * (inputs + 2)].reshape(inputs + 2, units)
        z = norm(own[:-2].reshape(units, inputs), own[-1], own[-2], h)
        at += own.shape[0] * units
    return z


def scale_to_one(x: np.ndarray) -> np.ndarray:
    """The same inputs with a mean square of 1, which is what the size of the weights expects."""
    return x / np.sqrt((x**2).mean())


def spectrum(norms: Sequence[Callable], theta: np.ndarray, x: np.ndarray) -> dict[str, float]:
    """The largest eigenvalue of F, its share of the trace, the participation ratio of all, and
    what is left of the largest if the mean of J over the samples is taken out. F is that of all
    labels of the batch given its inputs, over their number: J has what the output of a sample owes
    to the others by the statistics of batch norm."""
    J = derivatives(lambda t: network(norms, t, x), theta)
    covariances = classes(network(norms, theta, x))
    values = np.linalg.eigvalsh(average_fisher(J, covariances))
    apart = np.linalg.eigvalsh(average_fisher(J - J.mean(axis=0), covariances))
    return {
        "largest": float(values[-1]),
        "share": float(values[-1] / values.sum()),
        "rank": float(values.sum() ** 2 / (values**2).sum()),
        "apart": float(apart[-1] / values[-1]),
    }


def spectra(seed: int) -> dict[str, float]:
    theta, found = network_start(np.random.default_rng(seed)), {}
    for inputs, arms in (("centred", NETWORKS), ("raw", RAW)):
        for arm in arms:
            measured = spectrum(NETWORKS[arm], theta, scale_to_one(PIXELS[inputs]))
            found |= {f"{arm}, {inputs}: {name}": v for name, v in measured.items()}
    return found


# It decides no claim. What would matter: a factor of two, in logarithms.
SPECTRUM = Trial(spectra, seeds=range(8750, 8762), bounds={"twice": 0.693})
