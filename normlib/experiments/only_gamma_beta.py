"""Train a chosen part of a batch-normalized net, the rest frozen at its random start."""

from collections.abc import Callable

import numpy as np

from normlib.experiments import networks, training
from normlib.experiments.data import Split
from normlib.experiments.training import Gradient, Params
from normlib.layers import batch_norm, batch_norm_backward


def affine(params: Params) -> list[str]:
    return [name for name in params if name.startswith(("gamma", "beta"))]


def hidden_weights(params: Params) -> list[str]:
    return [f"w{layer}" for layer in range(networks.depth(params))]


def whole(params: Params, names: list[str]) -> Params:
    """A mask that is 1 on all entries of these arrays."""
    return {name: np.full(value.shape, float(name in names)) for name, value in params.items()}


def scattered(params: Params, count: int, rng: np.random.Generator) -> Params:
    """A mask that is 1 on `count` hidden weights, drawn without replacement."""
    names = hidden_weights(params)
    sizes = [params[name].size for name in names]
    flat = np.zeros(sum(sizes))
    flat[rng.choice(flat.size, count, replace=False)] = 1
    pieces = np.split(flat, np.cumsum(sizes)[:-1])
    chosen = {n: piece.reshape(params[n].shape) for n, piece in zip(names, pieces, strict=True)}
    return whole(params, []) | chosen


def masked(gradient: Gradient, mask: Params) -> Gradient:
    """The same loss, and its gradient where the mask is 1; elsewhere 0, with which Adam stays."""

    def of_chosen(params: Params, rows: np.ndarray) -> tuple[float, Params]:
        loss, slopes = gradient(params, rows)
        return loss, {name: slopes[name] * mask[name] for name in params}

    return of_chosen


def train(params: Params, mask: Params, x, labels, order, *, rate: float) -> tuple:
    """Adam on the entries where the mask is 1; returns the losses and the trained net."""
    gradient = networks.gradient(x, labels, (batch_norm, batch_norm_backward))
    frozen = [name for name in params if not mask[name].any()]
    options = {"update": training.adam, "frozen": frozen}
    return training.train(params, masked(gradient, mask), order, rate, **options)


def predict(params: Params, x_train: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Classes of x, with the statistics of the whole training set."""
    return networks.predict(params, networks.statistics(params, x_train), x)


# The experiment of chapters/only-gamma-beta.ipynb.

Part = Callable[[Params, np.random.Generator], Params]
T_OF_FIVE = 2.776  # of Student's t with 4 degrees of freedom, 95 % lie within ± this
OFF = 0.05  # a feature counts as turned off if its γ is smaller than this in size


def named(*starts: str) -> Part:
    """The part of a net that these names begin: its mask."""
    return lambda params, _: whole(params, [name for name in params if name.startswith(starts)])


def as_many(times: int) -> Part:
    """Random hidden weights, so many times as many as there are γ and β."""
    return lambda params, rng: scattered(
        params, times * sum(params[name].size for name in affine(params)), rng
    )


PARTS = {
    "gamma and beta": named("gamma", "beta"),
    "random weights": as_many(1),
    "last layer": named("w_out", "bias"),
    "gamma": named("gamma"),
    "beta": named("beta"),
    "2 x random weights": as_many(2),
    "4 x random weights": as_many(4),
    "8 x random weights": as_many(8),
}


def start(depth: int, seed: int) -> tuple[Params, np.random.Generator]:
    """A random net with hidden layers of 64 units, and the generator that drew it."""
    rng = np.random.default_rng(seed)
    return networks.dense((64, *[64] * depth, 10), rng), rng


def chosen(part: str, depth: int, seed: int) -> tuple[Params, Params]:
    """The net of a seed, the same for every part, and the mask of the part."""
    params, rng = start(depth, seed)
    return params, PARTS[part](params, rng)


def fit(digits: Split, params: Params, mask: Params, rng: np.random.Generator) -> tuple:
    """400 steps of Adam on batches of 64; the losses and the trained net."""
    order = training.batches(len(digits.x_train), 64, 400, rng)
    task = digits.x_train, digits.labels_train, order
    return train(params, mask, *task, rate=0.03)


def run(digits: Split, part: str, *, depth: int, seed: int) -> tuple:
    """Train one part; within a seed all parts meet the same batches."""
    params, mask = chosen(part, depth, seed)
    return fit(digits, params, mask, np.random.default_rng(seed))


def share_off(params: Params) -> float:
    """The share of features that are turned off."""
    gammas = [value for name, value in params.items() if name.startswith("gamma")]
    return float(np.mean(np.abs(np.concatenate(gammas)) < OFF))


def outcome(digits: Split, losses: np.ndarray, net: Params) -> dict[str, float]:
    """loss: the mean of the last 20 batches. accuracy: on the test digits. off: `share_off`."""
    right = predict(net, digits.x_train, digits.x_test) == digits.labels_test
    return {"loss": losses[-20:].mean(), "accuracy": right.mean(), "off": share_off(net)}


def off_from_uniform(digits: Split, seed: int) -> tuple[float, float]:
    """`share_off` before and after γ and β are trained in four layers, γ uniform in (0, 1)."""
    params, rng = start(4, seed)
    params |= {f"gamma{layer}": rng.uniform(0, 1, 64) for layer in range(4)}
    _, net = fit(digits, params, PARTS["gamma and beta"](params, rng), rng)
    return share_off(params), share_off(net)


def interval(effects: np.ndarray) -> tuple[float, float, float]:
    """Low end, mean and high end: the 95 % interval of a mean over five seeds, by Student's t."""
    half = T_OF_FIVE * effects.std(ddof=1) / np.sqrt(5)
    return effects.mean() - half, effects.mean(), effects.mean() + half
