"""A small generative adversarial network on digits, with and without spectral normalization.

Everything is dense, float64 and seeded: every random number comes from one NumPy generator, and
torch only computes and differentiates. A layer is a pair (w, b). The spectral norm is this book's.
The loop is one of its own: `training.walk` descends one loss by one gradient, while here two
players take turns on one batch, each with a loss, an optimizer and noise of its own.
"""

import itertools
from collections.abc import Iterator

import numpy as np
import torch
from sklearn.neighbors import KNeighborsClassifier
from torch import Tensor
from torch.nn import functional

from normbook.lab import data
from normbook.lab.data import Split
from normbook.lab.trials import Trial
from normlib.layers import power_iteration, spectral_norm

Layers = list[tuple[Tensor, Tensor]]  # w (out, in), b (out,)
Pairs = list[tuple[Tensor, Tensor]]  # u (out,), v (in,)

NOISE, BATCH, SLOPE = 16, 64, 0.2
GENERATOR, CRITIC = (NOISE, 128, 128, 64), (64, 128, 128, 1)


def normal(rng: np.random.Generator, *shape: int) -> Tensor:
    return torch.tensor(rng.standard_normal(shape))


def layers(sizes: tuple[int, ...], rng: np.random.Generator) -> Layers:
    """Random weights (He et al. 2015), biases of zero."""
    made = []
    for inputs, outputs in itertools.pairwise(sizes):
        w = normal(rng, outputs, inputs) * (2 / inputs) ** 0.5
        made.append((w.requires_grad_(), torch.zeros(outputs).double().requires_grad_()))
    return made


def dense(net: Layers, x: Tensor) -> Tensor:
    """Dense layers, with a leaky ReLU between any two."""
    for w, b in net[:-1]:
        x = functional.leaky_relu(x @ w.T + b, SLOPE)
    w, b = net[-1]
    return x @ w.T + b


def generate(generator: Layers, noise: Tensor) -> Tensor:
    return torch.sigmoid(dense(generator, noise))


def iterate(net: Layers, pairs: Pairs) -> Pairs:
    """One power iteration for each layer."""
    with torch.no_grad():
        both = zip(net, pairs, strict=True)
        return [power_iteration(w, u, v) for (w, _), (u, v) in both]


def bound_layers(net: Layers, pairs: Pairs, bound: float) -> Layers:
    """The same layers with weights of one spectral norm each, whose product is `bound`."""
    gain = bound ** (1 / len(net))
    both = zip(net, pairs, strict=True)
    return [(gain * spectral_norm(w, *pair)[0], b) for (w, b), pair in both]


def train(
    x: np.ndarray, *, bound: float | None, rate: float, seed: int, steps: int
) -> Iterator[tuple[Layers, Layers]]:
    """Yields, before the first step and after every one, the generator and the critic as it is
    used: with spectral norm and this bound on its Lipschitz constant, or without for None.

    Non-saturating logistic loss (Goodfellow et al. 2014), Adam with (0.5, 0.999) for both.
    """
    rng = np.random.default_rng(seed)
    generator, critic = layers(GENERATOR, rng), layers(CRITIC, rng)
    pairs = [(normal(rng, w.shape[0]), normal(rng, w.shape[1])) for w, _ in critic]
    optimizers = [adam(critic, rate), adam(generator, rate)]
    for _ in range(10):
        pairs = iterate(critic, pairs)
    for _ in range(steps):
        yield generator, bound_layers(critic, pairs, bound) if bound else critic
        real = torch.tensor(x[rng.choice(len(x), BATCH, replace=False)])
        fake = generate(generator, normal(rng, BATCH, NOISE))
        pairs = iterate(critic, pairs)
        for optimizer, loss in zip(optimizers, (critic_loss, generator_loss), strict=True):
            net = bound_layers(critic, pairs, bound) if bound else critic
            step(optimizer, loss(net, real, fake))
    yield generator, bound_layers(critic, pairs, bound) if bound else critic


def critic_loss(critic: Layers, real: Tensor, fake: Tensor) -> Tensor:
    of_real, of_fake = dense(critic, real), dense(critic, fake.detach())
    return (functional.softplus(-of_real) + functional.softplus(of_fake)).mean()


def generator_loss(critic: Layers, real: Tensor, fake: Tensor) -> Tensor:
    return functional.softplus(-dense(critic, fake)).mean()


def adam(net: Layers, rate: float) -> torch.optim.Adam:
    return torch.optim.Adam([a for layer in net for a in layer], lr=rate, betas=(0.5, 0.999))


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step for the parameters of this optimizer, and of no other."""
    parameters = optimizer.param_groups[0]["params"]
    for p, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        p.grad = gradient
    optimizer.step()


def shortfall(w: np.ndarray, u: np.ndarray, v: np.ndarray) -> float:
    """By how much the estimate is too small after one iteration from these vectors."""
    return 1 - spectral_norm(w, *power_iteration(w, u, v))[1].sigma / np.linalg.norm(w, 2)


def one_iteration(seed: int, rate: float = 0.001) -> dict[str, float]:
    """By how much one iteration a step underestimates the norms of the two wide layers of a
    critic in training, on average: from the vectors of the step before, and from new ones."""
    rng = np.random.default_rng(seed)
    digits, kept, new = data.digits(rng, "raw"), [], []
    nets = train(digits.x_train, bound=1.0, rate=rate, seed=seed, steps=60)
    for _, critic in itertools.islice(nets, 5, None, 5):
        for layer, _ in critic[:2]:  # the third has one row: there every iteration is exact
            w = layer.detach().numpy()
            kept.append(1 - 1 / np.linalg.norm(w, 2))  # w was divided by the estimate
            new.append(shortfall(w, *(rng.standard_normal(n) for n in w.shape)))
    return {"kept": float(np.mean(kept)), "worst": max(kept), "new": float(np.mean(new))}


def two_rates(seed: int) -> dict[str, float]:
    """The same, and on average at a tenth of the rate, so with weights that change less a step."""
    return one_iteration(seed) | {"slower": one_iteration(seed, rate=0.0001)["kept"]}


# A layer a tenth above its bound would matter: three of them exceed theirs by a third.
TWO_RATES = Trial(two_rates, seeds=range(29200, 29210), bounds={"miyato2018-2": 0.1})


def samples(generator: Layers, count: int) -> np.ndarray:
    """Images from noise that is the same at every call."""
    with torch.no_grad():
        return generate(generator, normal(np.random.default_rng(0), count, NOISE)).numpy()


def frechet(one: np.ndarray, other: np.ndarray) -> float:
    """The Fréchet distance, squared, of the Gaussians with the moments of two samples:
    |m1 - m2|² + tr(C1 + C2 - 2 (C1 C2)^(1/2))."""
    c1, c2 = (np.cov(a, rowvar=False, bias=True) for a in (one, other))
    roots = np.sqrt(np.maximum(np.linalg.eigvals(c1 @ c2).real, 0))
    gap = one.mean(axis=0) - other.mean(axis=0)
    return float(gap @ gap + np.trace(c1) + np.trace(c2) - 2 * roots.sum())


class Judge:
    """Two numbers for generated images, both in terms of the digits."""

    def __init__(self, digits: Split, components: int = 20):
        self.mean = digits.x_train.mean(axis=0)
        self.axes = np.linalg.svd(digits.x_train - self.mean, full_matrices=False)[2][:components]
        self.target = self.project(digits.x_test)
        self.classifier = KNeighborsClassifier(3).fit(digits.x_train, digits.labels_train)

    def project(self, images: np.ndarray) -> np.ndarray:
        return (images - self.mean) @ self.axes.T

    def distance(self, images: np.ndarray) -> float:
        """The squared Fréchet distance to the test digits in the leading principal components."""
        return frechet(self.project(images), self.target)

    def classes(self, images: np.ndarray) -> float:
        """The effective number of classes: e to the entropy of the labels that three nearest
        neighbours give. 10 if all occur equally often, 1 if there is only one."""
        share = np.bincount(self.classifier.predict(images), minlength=10) / len(images)
        share = share[share > 0]
        return float(np.exp(-(share * np.log(share)).sum()))

    def follow(self, x: np.ndarray, checkpoints: tuple[int, ...], **setting) -> dict:
        """Train with this setting; both numbers for 1,000 images after these steps."""
        found: dict = {"distance": [], "classes": []}
        nets = train(x, **setting, steps=max(checkpoints))
        for number, (generator, _) in enumerate(nets):
            if number in checkpoints:
                images = samples(generator, 1000)
                found["distance"].append(round(self.distance(images), 6))
                found["classes"].append(round(self.classes(images), 6))
        return found


# What is bounded.


def true_constant(w1: np.ndarray, w2: np.ndarray) -> float:
    """The Lipschitz constant of w2 · relu(w1 x) with two inputs: the largest norm over all sectors
    on which the network is linear."""
    first = np.arctan2(-w1[:, 0], w1[:, 1])
    edges = np.sort(np.r_[first, first + np.pi] % (2 * np.pi))
    middles = (edges + np.r_[edges[1:], edges[0] + 2 * np.pi]) / 2
    active = w1 @ np.array([np.cos(middles), np.sin(middles)]) > 0
    return max(np.linalg.norm(w2 @ (on[:, None] * w1), 2) for on in active.T)


def product(*weights: np.ndarray) -> float:
    """Of the spectral norms."""
    return float(np.prod([np.linalg.norm(a, 2) for a in weights]))


def gain(kernel: np.ndarray, size: int = 32) -> np.ndarray:
    """For each frequency of an image that is continued periodically, the norm of the matrix that
    maps its input channels to its output channels; the largest is the norm of the convolution."""
    spectrum = np.fft.fft2(kernel, (size, size), axes=(2, 3)).transpose(2, 3, 0, 1)
    return np.linalg.norm(spectrum, 2, axis=(2, 3))
