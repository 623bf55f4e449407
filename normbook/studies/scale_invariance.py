"""Gradient descent on weights in front of a norm: their length, with weight decay and without.

One hidden layer of 32 units on digits. Only its weights are trained; the output layer is kept, so
that with a norm all trained weights are scale invariant.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from normbook.lab import data, networks, training
from normbook.lab.data import Split
from normbook.lab.networks import Pair
from normbook.lab.trials import Trial
from normlib.layers import batch_norm, batch_norm_backward, standardize, standardize_backward

BATCH: Pair = partial(batch_norm, eps=0.0), batch_norm_backward
WIDE: Pair = partial(batch_norm, eps=1.0), batch_norm_backward  # above the variance of the units
NONE: Pair = networks.no_norm, networks.no_norm_backward


def start(seed: int, inputs: str = "centred") -> tuple[Split, dict]:
    rng = np.random.default_rng(seed)
    return data.digits(rng, inputs), networks.dense((64, 32, 10), rng)


def slope(
    digits: Split, net: dict, w: np.ndarray, rows: np.ndarray, norm: Pair
) -> tuple[float, np.ndarray]:
    """The loss on these rows, and its gradient with respect to the weights w. The cross entropy
    is written so that complex numbers may pass."""
    params = net | {"w0": w}
    logits, caches = networks.forward(params, digits.x_train[rows], norm[0])
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p, targets = p / p.sum(axis=1, keepdims=True), np.eye(10)
    targets = targets[digits.labels_train[rows]]
    back = networks.backward(params, (p - targets) / len(rows), caches, norm[1])
    return -np.log((p * targets).sum(axis=1) + 1e-300).mean(), back["w0"]


def descent(
    slope: Callable,
    w: np.ndarray,
    batches: Iterable,
    rate: float,
    norm: Pair,
    decay: float = 0.0,
    update: Callable | None = None,
) -> Iterator[training.Moment]:
    """Every step of gradient descent with weight decay, or of another update; `slope` is a
    function (w, rows, norm)."""

    def gradient(params: dict, rows: np.ndarray) -> tuple[float, dict]:
        loss, g = slope(params["w"], rows, norm)
        return loss, {"w": g}

    update = update or partial(training.sgd, decay=decay)
    return training.walk({"w": w}, gradient, batches, rate, update=update)


def size(w: np.ndarray) -> float:
    return float(np.linalg.norm(w))


# A rate that brakes itself: 150 steps on 256 digits.


def course(seed: int, rate: float, norm: Pair, steps: int = 150) -> np.ndarray:
    """The loss before each step, and after the last."""
    digits, net = start(seed)
    block = [np.arange(256)] * (steps + 1)
    moments = descent(partial(slope, digits, net), net["w0"], block, rate, norm)
    return np.array([moment.loss for moment in moments])


def gain(losses: np.ndarray) -> float:
    """log of how much lower the loss ends than that of the net as it was, or as it is frozen after
    one step, whichever is lower."""
    return float(np.log(min(losses[:2]) / losses[-1]))


def brake(seed: int) -> dict[str, float]:
    """The gain at large rates, with batch norm and without a norm, and at a far larger one."""
    found = {
        name: float(np.mean([gain(course(seed, rate, norm)) for rate in (10.0, 100.0)]))
        for name, norm in (("large rates", BATCH), ("large rates, no norm", NONE))
    }
    return found | {"a rate of 1e5": gain(course(seed, 1e5, BATCH))}


# Progress that matters: the loss is halved again after the first step, or lower. log 2 = 0.693.
BRAKE = Trial(brake, seeds=range(8640, 8652), bounds={"arora2018-3": 0.693})


# The balance under weight decay: batches of 32 digits, 700 steps.


def settle(
    slope: Callable, w: np.ndarray, ratio: float, product: float, norm: Pair, rng
) -> tuple[float, float, np.ndarray]:
    """Over the last 400 steps: the mean length, the length predicted from the gradients, and the
    angle by which each step turns the weights. ratio is η/λ, product is ηλ."""
    rate, decay = np.sqrt(ratio * product), np.sqrt(product / ratio)
    batches, seen = training.batches(1437, 32, 700, rng), []
    for moment in descent(slope, w, batches, rate, norm, decay):
        w, g, new = moment.before["w"], moment.slopes["w"], moment.after["w"]
        seen.append((size(w), size(w) * size(g), (w * new).sum() / size(w) / size(new)))
    n, steady, cosine = np.array(seen[300:]).T
    predicted = (rate / (2 * decay) * (steady**2).mean()) ** 0.25
    return n.mean(), predicted, np.arccos(np.minimum(cosine, 1))


def root_mean_square(a: np.ndarray) -> float:
    return float(np.sqrt((a * a).mean()))


RATIOS = (1.0, 10.0, 100.0, 1e3, 1e4)


def lengths(seed: int) -> dict[str, float]:
    """The exponent with which the length follows η/λ, minus ¼, and the angle of a step over
    arccos(1 - ηλ), at ηλ = 0.01."""
    digits, net = start(seed, "raw")
    found = {}
    for name, norm in (("batch norm", BATCH), ("eps = 1", WIDE), ("no norm", NONE)):
        runs = [
            settle(
                partial(slope, digits, net), net["w0"], r, 0.01, norm, np.random.default_rng(seed)
            )
            for r in RATIOS
        ]
        n, predicted, angles = ([run[i] for run in runs] for i in range(3))
        found[f"{name}, exponent - 1/4"] = float(np.polyfit(np.log(RATIOS), np.log(n), 1)[0]) - 0.25
        if norm is not NONE:  # where the weights can go to 0, and the prediction with them
            found[f"{name}, length over predicted"] = float(np.mean(np.divide(n, predicted)))
        turned = angles[2] / np.arccos(0.99)
        found[f"{name}, angle"] = root_mean_square(turned)
        found[f"{name}, largest angle"] = float(turned.max())
    return found


# A gradient that falls as 1/n^p with the length n gives the exponent 1/(2 + 2p): ½, ¼ and ⅙ for
# p = 0, 1 and 2. The bound is half the way from ¼ to the nearer of the others, 1/24.
LENGTH = Trial(lengths, seeds=range(6400, 6412), bounds={"vanlaarhoven2017-3": 0.0417}, stretch=310)


# The balance where η alone is varied, over three decades, for five rules of descent side by side.


def one_size(
    params: dict, slopes: dict, rate: float, state: tuple | None, *, decay: float
) -> tuple[dict, tuple]:
    """One step of AdamW with one second moment for all weights of a matrix, the mean of all: so the
    gradient changes its length, and not its direction."""
    step, m, v = state or (0, dict.fromkeys(params, 0.0), dict.fromkeys(params, 0.0))
    step += 1
    m = {name: 0.9 * m[name] + 0.1 * slopes[name] for name in params}
    v = {name: 0.999 * v[name] + 0.001 * np.mean(slopes[name] ** 2) for name in params}
    roots = {name: (v[name] / (1 - 0.999**step)) ** 0.5 for name in params}
    moves = {name: m[name] / (1 - 0.9**step) / (roots[name] + 1e-8) for name in params}
    return training.sgd(params, moves, rate, decay=decay)[0], (step, m, v)


class Rule(NamedTuple):
    """How it descends, its momentum, its λ, and whether it divides by the size of the gradient."""

    step: Callable
    inertia: float
    decay: float
    divides: bool = False


PRODUCTS = 0.1 * 4.0 ** -np.arange(6)  # ηλ, from 0.1 to 0.0001
RULES = {
    "SGD": Rule(training.sgd, 0.0, 0.01),
    "momentum": Rule(training.momentum, 0.9, 0.01),
    "AdamW": Rule(training.adam, 0.9, 0.1, divides=True),
    "AdamW, one size": Rule(one_size, 0.9, 0.1, divides=True),
    "no norm": Rule(training.sgd, 0.0, 0.01),
}


def turn(rule: Rule, product: float) -> float:
    """The angle by which a step turns the weights at the balance, by the laws of the page."""
    if rule.divides:
        keep = 1 - product
        return float(np.arccos((keep + rule.inertia) / (1 + keep * rule.inertia)))
    return float(np.arccos(1 - product / (1 + rule.inertia)))


def near_balance(rule: Rule, product: float, w: np.ndarray) -> np.ndarray:
    """These weights, about as long as they will be: for SGD with a gradient of about 2.2 at
    length 1, for AdamW with steps of about η in each of them."""
    ratio = product / rule.decay**2
    if rule.divides:
        return w / size(w) * np.sqrt(ratio * w.size / 2)
    return w / size(w) * 1.25 * (ratio / (1 - rule.inertia)) ** 0.25


def slopes(
    x: np.ndarray, targets: np.ndarray, w_out: np.ndarray, w: np.ndarray, norm: bool
) -> np.ndarray:
    """As `slope`, without the loss, for a stack of weights w (nets, 64, 32)."""
    z, cache = standardize(x @ w, axes=(1,), eps=0.0) if norm else (x @ w, None)
    logits = np.maximum(z, 0) @ w_out
    p = np.exp(logits - logits.max(axis=2, keepdims=True))
    p /= p.sum(axis=2, keepdims=True)
    dz = (p - targets) / len(x) @ w_out.T * (z > 0)
    return x.T @ (standardize_backward(dz, cache) if norm else dz)


def side_by_side(digits: Split, net: dict, product: float, rng: np.random.Generator) -> np.ndarray:
    """By rule, over the last third of the steps, in root mean square (rules, 3): the length, the
    angle of a step, and the gradient at length 1."""
    onehot = np.eye(10)[digits.labels_train]

    def gradient(params: dict, rows: np.ndarray) -> tuple[float, dict]:
        task = digits.x_train[rows], onehot[rows], net["w_out"]
        w = np.array([*params.values()])  # that without a norm is the last
        found = *slopes(*task, w[:-1], True), *slopes(*task, w[-1:], False)
        return 0.0, dict(zip(RULES, found, strict=True))

    def update(params: dict, found: dict, _: float, states: dict | None) -> tuple[dict, dict]:
        states, moved = states or dict.fromkeys(RULES), {}
        for name, rule in RULES.items():
            given = {name: params[name]}, found, product / rule.decay
            new, states[name] = rule.step(*given, states[name], decay=rule.decay)
            moved |= new
        return moved, states

    params = {name: near_balance(rule, product, net["w0"]) for name, rule in RULES.items()}
    batches = training.batches(1437, 32, max(1200, round(2 / product)), rng)
    moments = training.walk(params, gradient, batches, 0.0, update=update)
    seen = [look(moment) for t, moment in enumerate(moments) if t % 2 == 0]
    return np.sqrt(np.mean(seen[-(len(seen) // 3) - 1 :], axis=0))


def look(moment: training.Moment) -> np.ndarray:
    """Squares (rules, 3): of the length, of the angle of the step and of the gradient at length
    1."""
    found = []
    for name, w in moment.before.items():
        g, new = moment.slopes[name], moment.after[name]
        square = np.vdot(w, w)
        cosine = np.vdot(w, new) / np.sqrt(square * np.vdot(new, new))
        found.append((square, np.arccos(min(cosine, 1)) ** 2, square * np.vdot(g, g)))
    return np.array(found)


def balances(seed: int) -> dict[str, float]:
    """By rule: the exponent with which the length follows η at one λ, less ¼, and that with which
    the gradient at length 1 follows ηλ; and by product the length, the angle over that of the law,
    and the gradient."""
    digits, net = start(seed)
    runs = np.array(
        [side_by_side(digits, net, p, np.random.default_rng([seed, 2])) for p in PRODUCTS]
    )
    found = {}
    for i, (name, rule) in enumerate(RULES.items()):
        n, angle, steady = runs[:, i].T
        over = angle / [turn(rule, p) for p in PRODUCTS]
        exponent, of_gradient = np.polyfit(np.log(PRODUCTS), np.log([n, steady]).T, 1)[0]
        found |= {f"{name}, exponent - 1/4": exponent - 0.25, f"{name}, gradient": of_gradient}
        for k, p in enumerate(PRODUCTS):
            each = {"length": n[k], "angle": over[k], "gradient": steady[k]}
            found |= {f"{name}, {what} at {p:.1g}": value for what, value in each.items()}
    return {name: float(value) for name, value in found.items()}


# The claim once more. LENGTH keeps ηλ and varies η/λ: that is a symmetry of SGD (w → cw, η → c²η,
# λ → λ/c²), and its exponent is ¼ for any loss that does not see the length. Here ηλ changes, and
# the exponent is ¼ only if the gradient at length 1 does not change with it. The bound is that of
# LENGTH. By the symmetry the exponent of λ at one η is that of η less ½ (AdamW: less 1, as there
# η → cη). An angle would differ from its law if it were off by a twentieth.
BALANCE = Trial(balances, seeds=range(8800, 8810), bounds={"vanlaarhoven2017-3": 0.0417})


# Decay, or a rate that grows.


def train_by_schedule(
    digits: Split,
    rate_at: Callable[[int], float],
    decay: float,
    names: Collection[str],
    eps: float = 0.0,
    step: Callable = training.sgd,
    speed: float = 0.0,
) -> np.ndarray:
    """The losses of 100 steps on two hidden layers. The parameters named get this rate at step t
    and the decay, the others a constant rate of 0.5 and none. A momentum begins with this speed
    times the weights."""
    net = networks.dense((64, 32, 32, 10), np.random.default_rng(3))
    order = list(training.batches(1437, 64, 100, np.random.default_rng(4)))

    def update(params: dict, slopes: dict, rate: float, state: tuple | None) -> tuple[dict, tuple]:
        t, speeds = state or (0, {n: speed * params[n] for n in names})
        others = {n: value for n, value in params.items() if n not in names}
        named = {n: params[n] for n in names}
        moved, speeds = step(named, slopes, rate_at(t), speeds, decay=decay)
        return moved | training.sgd(others, slopes, rate)[0], (t + 1, speeds)

    norm = partial(batch_norm, eps=eps), batch_norm_backward
    gradient = networks.gradient(digits.x_train, digits.labels_train, norm)
    return training.train(net, gradient, order, 0.5, update=update)[0]


def off_schedule(
    digits: Split,
    exponent: Callable[[int], float],
    names: Collection[str] = ("w0", "w1"),
    eps: float = 0.0,
) -> float:
    """The largest relative distance of the losses with ηλ = 0.025 from those without decay, at the
    rate η a^exponent(t), a = 1 - ηλ."""
    decay = train_by_schedule(digits, lambda t: 0.5, 0.05, names, eps)
    growing = train_by_schedule(digits, lambda t: 0.5 * 0.975 ** exponent(t), 0.0, names, eps)
    return float(np.abs(growing / decay - 1).max())


def off_schedule_with_momentum(
    digits: Split, exponent: Callable[[int], float], names: Collection[str] = ("w0", "w1")
) -> float:
    """The same with a momentum of μ = 0.9 and ηλ = 0.002. Here a is the larger root of
    x² - (1 + μ - ηλ) x + μ = 0, and the speed begins at -(1 - a) / (ηa) times the weights, as if
    they had grown before."""
    rate, decay = 0.05, 0.04
    a = np.roots([1, -(1 + 0.9 - rate * decay), 0.9]).max()
    by_momentum = partial(train_by_schedule, digits, names=names, step=training.momentum)
    decaying = by_momentum(lambda t: rate, decay)
    growing = by_momentum(lambda t: rate * a ** exponent(t), 0.0, speed=-(1 - a) / (rate * a))
    return float(np.abs(growing / decaying - 1).max())
