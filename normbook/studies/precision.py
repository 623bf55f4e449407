"""Norms and quantization: weights and outputs on a few levels, folding before and after. Norms
and precision at work: what layers of PyTorch make of 16 bits."""

from collections.abc import Callable
from functools import cache

import numpy as np
import torch

from normbook.lab import networks, training
from normbook.lab.data import Split, digits
from normbook.lab.networks import Params, Statistics
from normlib.layers.core import Array

EPS = 1e-5


def rounded(w: Array, bits: int, *, channels: bool = False) -> Array:
    """Each entry of w (inputs, outputs) on the nearest of 2^bits - 1 levels, from -max |w| to
    max |w|: one step for the whole matrix, or one for each output channel."""
    largest = np.abs(w).max(axis=0 if channels else None, keepdims=True)
    step = largest / (2 ** (bits - 1) - 1)
    return step * np.round(w / step)


@cache
def trained(seed: int = 0) -> tuple[Split, Params, Statistics]:
    """A network with batch norm in two hidden layers of 32 units, on centred digits."""
    rng, split = np.random.default_rng(seed), digits(np.random.default_rng(0))
    params = networks.dense((64, 32, 32, 10), rng)
    order = training.batches(len(split.x_train), 64, 300, rng)
    on = split.x_train, split.labels_train
    _, params, running = networks.train_batch_norm(params, *on, order, rate=0.3)
    return split, params, running


def folded(params: Params, running: Statistics) -> list[tuple[Array, Array]]:
    """The weights (inputs, outputs) and the bias of each layer, its norm multiplied in."""
    layers = []
    for i, (mean, var) in enumerate(running):
        a = params[f"gamma{i}"] / np.sqrt(var + EPS)
        layers.append((a * params[f"w{i}"], params[f"beta{i}"] - a * mean))
    return [*layers, (params["w_out"], params["bias"])]


def answers(layers: list[tuple[Array, Array]], x: Array) -> Array:
    """The class of each sample."""
    for w, b in layers[:-1]:
        x = np.maximum(x @ w + b, 0)
    return (x @ layers[-1][0] + layers[-1][1]).argmax(axis=1)


def stretched(params: Params, rng: np.random.Generator) -> Params:
    """The same function, but for ε: the columns in front of each norm, whose length it ignores,
    are multiplied by powers of two from 1/8 to 8."""
    wider = {
        name: value * 2.0 ** rng.integers(-3, 4, value.shape[1])
        for name, value in params.items()
        if name.startswith("w") and name != "w_out"
    }
    return params | wider


def accuracies(bits: int, seed: int) -> dict[str, float]:
    """The share of right answers with rounded weights, in four ways."""
    split, params, running = trained(seed)
    other = stretched(params, np.random.default_rng(seed))
    again = networks.statistics(other, split.x_train)
    running = networks.statistics(params, split.x_train)
    weights = [name for name in params if name.startswith("w")]

    def before(net: Params, statistics: Statistics) -> list:
        return folded(net | {name: rounded(net[name], bits) for name in weights}, statistics)

    def after(net: Params, statistics: Statistics, channels: bool) -> list:
        return [(rounded(w, bits, channels=channels), b) for w, b in folded(net, statistics)]

    layers = {
        "one step, before folding": before(params, running),
        "one step, before folding, units stretched": before(other, again),
        "one step, after folding": after(params, running, False),
        "a step for each unit": after(params, running, True),
    }
    return {
        name: float((answers(each, split.x_test) == split.labels_test).mean())
        for name, each in layers.items()
    }


def jitter(size: int, draws: int, rng: np.random.Generator) -> tuple[float, float]:
    """By how much the deviation of a batch of this size varies, relatively, and the law
    ½ √((ρ + 2) / m) for it; means over the 32 channels of a trained network's first layer."""
    split, params, _ = trained()
    z = split.x_train @ params["w0"]
    c = z - z.mean(axis=0)
    rho = (c**4).mean(axis=0) / (c**2).mean(axis=0) ** 2 - 3
    rows = [rng.choice(len(z), size, replace=False) for _ in range(draws)]
    found = np.array([z[some].std(axis=0) for some in rows])
    return float((found.std(axis=0) / z.std(axis=0)).mean()), float(
        (np.sqrt((rho + 2) / size) / 2).mean()
    )


# Outputs on a few levels.


def int8(y: Array) -> Array:
    """Each row on 255 levels, from -max |y| to max |y| of the row."""
    step = np.abs(y).max(axis=-1, keepdims=True) / 127
    return step * np.round(y / step)


def float8(y: Array) -> Array:
    """In float8 (e4m3), scaled so that the largest entry of all is its largest number, 448."""
    scale = 448 / np.abs(y).max()
    kept = torch.tensor(scale * y).to(torch.float8_e4m3fn)
    return kept.double().numpy() / scale


def off(found: Array, true: Array) -> float:
    """The length of the error, relative to that of the truth."""
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


# Layers as PyTorch runs them.

LAYERS: dict[str, Callable] = {
    "batch norm": lambda x, w, b, f: f.batch_norm(x, None, None, w, b, training=True),
    "layer norm": lambda x, w, b, f: f.layer_norm(x, x.shape[1:], w, b),
    "group norm": lambda x, w, b, f: f.group_norm(x, 4, w, b),
    "RMSNorm": lambda x, w, b, f: f.rms_norm(x, x.shape[1:], w, 1e-6),
}


def units(
    layer: Callable, dtype: torch.dtype, parameters: torch.dtype, device: str = "cpu"
) -> tuple[str, float]:
    """What comes out for an input of this format, and the worst error of an entry that is not
    small, in units of u, half the spacing at 1. The input has the mean 3 and the deviation 1."""
    rng = np.random.default_rng(0)
    x = torch.tensor(3 + rng.standard_normal((512, 32))).to(device, dtype)
    w, b = (torch.tensor(rng.uniform(0.5, 1.5, 32)).to(device, parameters) for _ in range(2))
    true = layer(x.double(), w.double(), b.double(), torch.nn.functional)
    y = layer(x, w, b, torch.nn.functional)
    error = ((y.double() - true) / true).abs()[true.abs() > 0.1].max().item()
    return str(y.dtype).removeprefix("torch."), error / (torch.finfo(dtype).eps / 2)


def counted(rows: int, dtype: torch.dtype, *, up: bool = False) -> float:
    """How many rows layer norm's dβ counts, for an upstream gradient of ones; `up` gives the
    layer, kept in float32, the rows in float32."""
    norm = torch.nn.LayerNorm(8, dtype=torch.float32 if up else dtype)
    x = torch.randn(rows, 8, generator=torch.manual_seed(0)).to(dtype)
    y = norm(x.float()).to(dtype) if up else norm(x)
    y.backward(torch.ones_like(y))
    return float(norm.bias.grad[0])
