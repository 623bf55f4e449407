"""Gradients in deep stacks of random dense layers, before any training.

Each layer multiplies by a fresh random matrix, normalizes, and applies the activation: γ = 1,
β = 0, and ε = 0 unless another is given. A random gradient is sent back from the top.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from normbook.lab import data
from normbook.lab.trials import Trial
from normlib import evidence
from normlib.layers import (
    batch_norm,
    batch_norm_backward,
    layer_norm,
    layer_norm_backward,
    rms_norm,
    rms_norm_backward,
)

BATCH = batch_norm, batch_norm_backward
LAYER = layer_norm, layer_norm_backward
RMS = lambda x, gamma, beta, eps: rms_norm(x, gamma, eps=eps), rms_norm_backward
NONE = lambda x, gamma, beta, eps: (x, None), lambda dy, cache: (dy,)


def centre(x: np.ndarray) -> np.ndarray:
    return x - x.mean(axis=0)


# Batch norm without its division: what is left if the scale is not normalized.
CENTRE = lambda x, gamma, beta, eps: (centre(x), None), lambda dy, cache: (centre(dy),)


def forgetful() -> tuple:
    """Batch norm with a planted error: its backward forgets that the variance moves."""
    return batch_norm, evidence.batch_norm.twins()["dx without the variance term"].backward


def sigmoid(y: np.ndarray) -> np.ndarray:
    return (1 + np.tanh(y / 2)) / 2


# Each activation: what comes out, and its slope.
ACTIVATIONS: dict[str, Callable] = {
    "linear": lambda y: (y, np.ones_like(y)),
    "ReLU": lambda y: (np.maximum(y, 0), y > 0),
    "tanh": lambda y: (np.tanh(y), 1 - np.tanh(y) ** 2),
    "leaky ReLU": lambda y: (np.maximum(y, y / 5), np.where(y > 0, 1, 0.2)),
    "sigmoid": lambda y: (sigmoid(y), sigmoid(y) * sigmoid(-y)),
}


def squared_gradients(
    x: np.ndarray,
    activation: str,
    rng: np.random.Generator,
    *,
    depth: int = 40,
    width: int = 256,
    gain: float = 1.0,
    eps: float = 0.0,
    norm: tuple = BATCH,
    skip: bool = False,
) -> np.ndarray:
    """|gradient|² at the input of each layer, the lowest layer first. The weights have the
    variance gain²/inputs. With skip, each layer is added to its input (not to the data)."""
    act, tape, pair = ACTIVATIONS[activation], [], (np.ones(width), np.zeros(width))
    for inputs in [x.shape[1]] + [width] * (depth - 1):
        w = rng.standard_normal((inputs, width)) * gain / np.sqrt(inputs)
        y, cache = norm[0](x @ w, *pair, eps=eps)
        out, slope = act(y)
        around = skip and len(tape) > 0
        x = x + out if around else out
        tape.append((w, cache, slope, around))
    gradient, sizes = rng.standard_normal(x.shape), []
    for w, cache, slope, around in reversed(tape):
        branch = norm[1](gradient * slope, cache)[0] @ w.T
        gradient = gradient + branch if around else branch
        sizes.append((gradient**2).sum())
    return np.array(sizes[::-1])


# Theory: what a layer multiplies the squared gradient by (Yang et al. 2019).


def arc_cosines(b: float) -> tuple[float, float]:
    """J and J′ at c = -1/(B - 1)."""
    c = -1 / (b - 1)
    slope = 1 - np.arccos(c) / np.pi
    return np.sqrt(1 - c**2) / np.pi + slope * c, slope


def linear_rate(b: float) -> float:
    return (b - 2) / (b - 3)


def relu_rate(b: float) -> float:
    j, slope = arc_cosines(b)
    return (slope + b - 1) / ((b - 3) * (1 - j)) - 1 / (b - 3)


RATES = {"linear": linear_rate, "ReLU": relu_rate}


def forgetful_rate(kind: str, b: float) -> float:
    """The rate that the same derivation gives if the backward forgets the variance: nothing is
    taken out along x̂."""
    if kind == "linear":
        return (b - 1) / (b - 3)
    j, slope = arc_cosines(b)
    positive = b / 2  # entries; what is left of them by the mask and the two centrings
    pairs = positive + b * (b - 1) * slope / 2
    trace = positive * (1 - 1 / b) - (positive - pairs / b) / b
    return 2 * b * trace / ((1 - j) * (b - 1) * (b - 3))


def growth(b: int, kind: str, rng: np.random.Generator, **options) -> float:
    """What a layer multiplies the squared gradient by: the geometric mean over the layers 10 to
    35 of 40. The first ones forget the input, the last ones the gradient that was sent in."""
    sizes = squared_gradients(rng.standard_normal((b, 64)), kind, rng, **options)
    return float((sizes[10] / sizes[35]) ** (1 / 25))


def place(found: float, kind: str, b: int) -> float:
    """Where a growth lies on a logarithmic scale: 0 is the formula, 1 is what the same derivation
    gives with a forgotten variance."""
    formula = RATES[kind](b)
    return float(np.log(found / formula) / np.log(forgetful_rate(kind, b) / formula))


BATCHES = (8, 12, 16)


def rates(seed: int) -> dict[str, float]:
    """The place of the linear and the ReLU rate, and the activations against none at B = 8."""
    rng = np.random.default_rng(seed)
    wrong, found = forgetful(), {}
    for kind in RATES:
        for name, norm in ((kind, BATCH), (f"{kind}, variance forgotten", wrong)):
            places = [place(growth(b, kind, rng, norm=norm), kind, b) for b in BATCHES]
            found[name] = float(np.mean(places))
    for name, norm in (("batch norm", BATCH), ("layer norm", LAYER)):
        none = growth(8, "linear", rng)
        over = {a: np.log(growth(8, a, rng, norm=norm) / none) for a in ACTIVATIONS}
        found |= {f"{a}, {name}": float(v) for a, v in over.items() if a != "linear"}
    for norm in ("batch norm", "layer norm"):
        found[f"least, {norm}"] = min(v for n, v in found.items() if n.endswith(norm))
    return found


# 0 is the formula and 1 the rate of the forgotten variance, so ½ is where a rate is as near to
# the one as to the other. No activation grows more slowly than none if the least is above 0.
RATE = Trial(
    rates,
    seeds=range(6000, 6032),
    bounds={"yang2019-1": 0.5, "yang2019-2": 0.5, "yang2019-4": 0.0},
)


def large(seed: int) -> dict[str, float]:
    """The growth with ReLU for a batch of 128, less 1, in layers wide enough for it."""
    rng = np.random.default_rng(seed)
    return {"growth - 1": growth(128, "ReLU", rng, width=512) - 1}


# The limit for large batches is π/(π - 1), 0.467 above 1; half of that would be as near to 1.
LARGE = Trial(large, seeds=range(6050, 6060), bounds={"yang2019-5": 0.2335})


def one_layer(
    b: int,
    rng: np.random.Generator,
    *,
    backward: Callable = batch_norm_backward,
    entries: int = 10_000_000,
) -> float:
    """What a ReLU layer of infinite width multiplies the squared gradient by, at its fixed point:
    units are Gaussian and independent, no direction of the batch is preferred, neither by them nor
    by the gradient from above. They are drawn with variance 1, and have that of the outputs."""
    parts, sums = 10, np.zeros(3)
    units = entries // parts // b
    pair = np.ones(units), np.zeros(units)
    for _ in range(parts):
        xhat, cache = batch_norm(rng.standard_normal((b, units)), *pair, eps=0.0)
        above = centre(rng.standard_normal((b, units)))
        below, out = backward(above * (xhat > 0), cache)[0], centre(np.maximum(xhat, 0))
        sums += [(a**2).sum() for a in (below, above, out)]
    variance = sums[2] / (b - 1) / units / parts
    return float(sums[0] / sums[1] / variance)


IN_ONE = (8, 32, 128)


def in_one_layer(seed: int) -> dict[str, float]:
    """The growth in a layer of infinite width with its place, and with a forgotten variance."""
    rng, found = np.random.default_rng(seed), {}
    for b in IN_ONE:
        for name, norm in (("", BATCH), (", variance forgotten", forgetful())):
            grown = one_layer(b, rng, backward=norm[1])
            found |= {f"B = {b}{name}": grown, f"B = {b}{name}, place": place(grown, "ReLU", b)}
    return found


# As in RATE, ½ is where a growth is as near to the formula as to the rate of the forgotten
# variance.
ONE_LAYER = Trial(in_one_layer, seeds=range(31010, 31020), bounds={"yang2019-5": 0.5})


# Digits through a hundred layers.


def factor(x: np.ndarray, rng: np.random.Generator, *, depth: int = 100, **options) -> float:
    """log10 of what a ReLU layer multiplies the gradient by, on average from top to bottom."""
    sizes = squared_gradients(x, "ReLU", rng, depth=depth, width=128, **options)
    return float(np.log10(sizes[0] / sizes[-1]) / 2 / (depth - 1))


def factors(seed: int) -> dict[str, float]:
    """The factors of a layer (log10) with a norm and without, for weights of He's size times 0.1,
    1 and 10. Homogeneity makes those without a norm differ by exactly 1."""
    rng = np.random.default_rng(seed)
    x = data.digits(rng).x_train[:32]
    he = float(np.sqrt(2))
    found = {
        f"{name}, weights x {times:g}": factor(x, rng, gain=he * times, norm=norm)
        for name, norm in (("batch norm", BATCH), ("no norm", NONE), ("centred only", CENTRE))
        for times in (0.1, 1.0, 10.0)
    }
    found["layer norm"] = factor(x, rng, gain=he, norm=LAYER)
    found["batch norm, skip connections"] = factor(x, rng, gain=he, skip=True)
    found["no norm, skip connections, weights x 10"] = factor(
        x, rng, gain=10 * he, norm=NONE, skip=True
    )

    def off(name: str, times: tuple) -> float:
        return float(np.mean([abs(found[f"{name}, weights x {t:g}"]) for t in times]))

    bad = (0.1, 10.0)
    for name in ("batch norm", "centred only"):
        found[f"{name}, nearer to 1"] = off("no norm", bad) - off(name, bad)
    found["batch norm, nearer to 1 at He's size"] = off("no norm", (1.0,)) - off(
        "batch norm", (1.0,)
    )
    found["batch norm, least"] = min(
        found[f"batch norm, weights x {t:g}"] for t in (0.1, 1.0, 10.0)
    )
    found["no norm, least"] = min(found[f"no norm, weights x {t:g}"] for t in (0.1, 1.0, 10.0))
    return found


# The notes themselves give the factors of a layer with which a gradient vanishes and explodes, 0.9
# and 1.1 (003, line 17): log10 of them are the bounds.
HUNDRED = Trial(
    factors,
    seeds=range(8430, 8442),
    bounds={"001-90": -0.0458, "001-91": 0.0414, "004-90": 0.0414, "yang2019-3": 0.0414},
)


# With which activations, and with how many skip connections, a gradient does not explode.


def above_the_first(
    seed: int, activation: str, *, depth: int = 100, samples: int = 32, times: float = 1, **options
) -> float:
    """log10 of what a layer multiplies the gradient by. The first one is left out: its inputs are
    digits, of another size than the units above, and it has no skip connection."""
    rng = np.random.default_rng(seed)
    x, gain = data.digits(rng).x_train[:samples], float(np.sqrt(2)) * times
    sizes = squared_gradients(x, activation, rng, depth=depth, width=128, gain=gain, **options)
    return float(np.log10(sizes[1] / sizes[-1]) / 2 / (depth - 2))


SAMPLES = (16, 32, 128)
STRAIGHT = ("linear", "sigmoid")  # nearly straight over what a norm puts out
BENT = ("ReLU", "leaky ReLU", "tanh")


def where_it_explodes(seed: int) -> dict[str, float]:
    """The factors of a layer (log10) without skip connections, by activation; with them, by depth.
    "most" is the largest where none should explode: of straight activations, and of skip
    connections around 49 layers and more. "no norm, least" is that of these stacks without a norm,
    from He's weights with skip connections and from ten times as large without."""
    found = {
        f"{activation}, {depth} layers, B = {b}": above_the_first(
            seed, activation, depth=depth, samples=b
        )
        for activation in STRAIGHT + BENT
        for depth in (10, 100)
        for b in SAMPLES
    }
    inside = [v for name, v in found.items() if name.startswith(STRAIGHT)]
    for depth in (10, 20, 50, 100):
        for activation in ("sigmoid", "ReLU", "tanh"):
            for b in SAMPLES:
                name = f"{activation}, skip connections, {depth} layers, B = {b}"
                found[name] = above_the_first(seed, activation, depth=depth, samples=b, skip=True)
                inside += [found[name]] * (depth >= 50)
    found["most"] = max(inside)
    plain = [above_the_first(seed, a, norm=NONE, times=10) for a in STRAIGHT]
    plain += [above_the_first(seed, "ReLU", norm=NONE, skip=True, depth=d) for d in (50, 100)]
    found["no norm, least"] = min(plain)
    return found


# The bound of HUNDRED. Without skip connections, with ReLU, it must be exceeded: the case outside.
WHERE = Trial(where_it_explodes, seeds=range(31000, 31010), bounds={"001-91": 0.0414})


# What a stack keeps of its inputs.


class Passed(NamedTuple):
    """What went through a stack, up and down."""

    states: list[np.ndarray]  # the samples below each layer and at the top: samples, units
    gradients: np.ndarray  # |gradient|² with respect to each of them
    weights: np.ndarray  # |gradient|² with respect to the weights of each layer


def draw(rng: np.random.Generator, *, depth: int = 100, width: int = 256) -> np.ndarray:
    """The weights of a stack: depth, inputs, units. Their variance is He's for ReLU."""
    return rng.standard_normal((depth, width, width)) * np.sqrt(2 / width)


def bring_to_width(x: np.ndarray, rng: np.random.Generator, *, width: int = 256) -> np.ndarray:
    """The samples, brought to the width of a stack by a random matrix."""
    return x @ rng.standard_normal((x.shape[1], width)) / np.sqrt(x.shape[1])


def through(
    h: np.ndarray,
    weights: np.ndarray,
    gradient: np.ndarray,
    *,
    order: str = "WNA",
    norm: tuple = BATCH,
    skip: bool = False,
) -> Passed:
    """Send samples up through ReLU layers, and a gradient down. A layer is its weights W, its norm
    N and its activation A in the given order; with skip it is added to its input."""
    states, tape, pair = [h], [], (np.ones(h.shape[1]), np.zeros(h.shape[1]))
    for w in weights:
        out, kept = h, {}
        for part in order:
            if part == "W":
                out, kept[part] = out @ w, out
            elif part == "N":
                out, kept[part] = norm[0](out, *pair, eps=0.0)
            else:
                out, kept[part] = ACTIVATIONS["ReLU"](out)
        h = h + out if skip else out
        states.append(h)
        tape.append((w, kept))
    sizes, of_weights = [(gradient**2).sum()], []
    for w, kept in reversed(tape):
        branch = gradient
        for part in reversed(order):
            if part == "W":  # |hᵀd|² of the weights, from the products of samples
                of_weights.append((kept[part] @ kept[part].T * (branch @ branch.T)).sum())
                branch = branch @ w.T
            elif part == "N":
                branch = norm[1](branch, kept[part])[0]
            else:
                branch = branch * kept[part]
        gradient = gradient + branch if skip else branch
        sizes.append((gradient**2).sum())
    return Passed(states, np.array(sizes[::-1]), np.array(of_weights[::-1]))


def cosine(h: np.ndarray) -> float:
    """The mean cosine between two samples."""
    unit = h / np.linalg.norm(h, axis=1, keepdims=True)
    return float((unit @ unit.T)[np.triu_indices(len(h), 1)].mean())


def share_differing(h: np.ndarray) -> float:
    """The share of the energy that is not in the mean of the samples."""
    return float((centre(h) ** 2).sum() / (h**2).sum())


def effective_rank(h: np.ndarray) -> float:
    """The participation ratio of the centred samples: (Σλ)² / Σλ² over the eigenvalues λ of their
    covariance."""
    gram = centre(h) @ centre(h).T
    return float(np.trace(gram) ** 2 / (gram**2).sum())


def distances(h: np.ndarray) -> np.ndarray:
    """Between all pairs of samples. Their mean, which may be long, is taken out first."""
    gram = centre(h) @ centre(h).T
    squares = gram.diagonal()[:, None] + gram.diagonal() - 2 * gram
    return np.sqrt(np.maximum(squares, 0))[np.triu_indices(len(h), 1)]


def resemblance(h: np.ndarray, x: np.ndarray) -> float:
    """The correlation of the distances between samples with those between the same inputs: 1 if
    what was near is near."""
    return float(np.corrcoef(distances(h), distances(x))[0, 1])


KEPT: dict[str, dict[str, Any]] = {
    "no norm": {"norm": NONE},
    "batch norm": {"norm": BATCH},
    "layer norm": {"norm": LAYER},
    "RMS norm": {"norm": RMS},
    "layer norm behind ReLU": {"norm": LAYER, "order": "WAN"},
    "batch norm, skip": {"norm": BATCH, "skip": True},
    "layer norm, skip": {"norm": LAYER, "skip": True},
    "batch norm first, skip": {"norm": BATCH, "order": "NAW", "skip": True},
    "layer norm first, skip": {"norm": LAYER, "order": "NAW", "skip": True},
}
RAW = "no norm", "layer norm", "layer norm, skip", "layer norm first, skip"


def measure(x: np.ndarray, h: np.ndarray) -> dict[str, float]:
    return {
        "cosine": cosine(h),
        "differing": share_differing(h),
        "rank": effective_rank(h),
        "resemblance": resemblance(h, x),
    }


def kept(seed: int) -> dict[str, float]:
    """What stacks of a hundred layers keep of 32 digits, centred, and raw where that can matter:
    batch norm takes out any mean. And log10 of what they multiply a gradient by, that of the
    samples and that of the weights. The control compares with the inputs in another order."""
    found = {}
    for inputs, arms in (("centred", KEPT), ("raw", RAW)):
        rng = np.random.default_rng(seed)
        x = data.digits(rng, inputs).x_train[:32]
        h, weights, gradient = bring_to_width(x, rng), draw(rng), rng.standard_normal((32, 256))
        found |= {f"inputs, {inputs}: {name}": v for name, v in measure(x, x).items()}
        for arm in arms:
            passed = through(h, weights, gradient, **KEPT[arm])
            top, key = passed.states[-1], f"{arm}, {inputs}"
            for name, sizes in (("gradient", passed.gradients), ("weights", passed.weights)):
                found[f"{key}: {name}"] = float(np.log10(sizes[0] / sizes[-1]) / 2)
            found |= {f"{key}: {name}": v for name, v in measure(x, top).items()}
            found[f"{key}: control"] = resemblance(top, np.roll(x, 1, axis=0))
    return found


# It decides no claim. A gradient explodes from 1.1 a layer on, as in HUNDRED: log10 of that, a
# hundred times. Directions: a factor of two, in log2. Resemblance: a correlation that explains a
# tenth of the variance. The control must stay below that.
FORGET = Trial(
    kept,
    seeds=range(8700, 8712),
    bounds={"explodes": 4.14, "directions": 1.0, "resembles": 0.316},
)
