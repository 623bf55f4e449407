"""Six changes of weights or data, nine layers, and which layer sees which change.

A layer is a function of a net and eps; a change takes a net, a factor delta and a vector c to
another net.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from normlib import layers
from normlib.layers.core import Array
from normlib.verify.signature import positional
from normlib.verify.symbolic import exactly, is_zero, symbols

YES, NO = "yes", "no"
ROUNDING, CLEAR = 1e-9, 1e-3  # a gap below the first is none, above the second one to be seen


class Net(NamedTuple):
    """One linear map and the parameters of its norm."""

    w: Array  # (units, inputs)
    x: Array  # (cases, inputs), or (cases, inputs, positions)
    gamma: Array  # (units,)
    beta: Array  # (units,)


Layer = Callable[[Net, Any], Array]
Change = Callable[[Net, Any, Array], Net]


def summed_inputs(net: Net) -> Array:
    """The map, the same at every position: (cases, units) or (cases, units, positions)."""
    return net.w @ net.x if net.x.ndim == 3 else net.x @ net.w.T


def of_summed_inputs(norm: Callable, **keywords) -> Layer:
    """norm(X Wᵀ): the statistics are those of the units."""

    def layer(net: Net, eps: Any) -> Array:
        parameters = (net.gamma, net.beta)[: len(positional(norm)) - 1]
        return norm(summed_inputs(net), *parameters, eps=eps, **keywords)[0]

    return layer


def of_weights(norm: Callable, after: Callable = lambda z, beta: (z + beta, None)) -> Layer:
    """X norm(W)ᵀ: the statistics are those of the weights, so that there is no eps."""
    return lambda net, eps: after(net.x @ norm(net.w, net.gamma)[0].T, net.beta)[0]


def leading_vectors(w: Array) -> tuple[Array, Array]:
    """The first singular vectors u and v; exact ones where the numbers are exact."""
    if w.dtype != object:
        u, _, vt = np.linalg.svd(w)
        return u[:, 0], vt[0]
    square, _, (v, *_) = max(sp.Matrix(w.T @ w).eigenvects(), key=lambda found: found[0])
    v = np.array(list(v / v.norm()), dtype=object)
    return w @ v / sp.sqrt(square), v


def of_spectrum(norm: Callable, pair: Callable = leading_vectors) -> Layer:
    """X norm(W)ᵀ with the singular vectors that `pair` finds for the weights."""
    return lambda net, eps: net.x @ norm(net.w, *pair(net.w))[0].T


LAYERS: dict[str, Layer] = {
    "batch": of_summed_inputs(layers.batch_norm),
    "weight": of_weights(layers.weight_norm),
    "layer": of_summed_inputs(layers.layer_norm),
    "RMS": of_summed_inputs(layers.rms_norm),
    "partial RMS": of_summed_inputs(layers.partial_rms_norm, fraction=1 / 2),
    "group": of_summed_inputs(layers.group_norm, groups=2),
    "instance": of_summed_inputs(layers.instance_norm),
    "spectral": of_spectrum(layers.spectral_norm),
    "mean-only batch": of_weights(layers.weight_norm, layers.mean_only_batch_norm),
}


def first_times(a: Array, delta: Any) -> Array:
    return np.stack([delta * a[0], *a[1:]])


CHANGES: dict[str, Change] = {
    "W' = δW": lambda n, delta, c: n._replace(w=delta * n.w),
    "W' = W + 1cᵀ": lambda n, delta, c: n._replace(w=n.w + c),
    "one unit × δ": lambda n, delta, c: n._replace(w=first_times(n.w, delta)),
    "X' = δX": lambda n, delta, c: n._replace(x=delta * n.x),
    "X' = X + 1cᵀ": lambda n, delta, c: n._replace(x=n.x + c.reshape(-1, *[1] * (n.x.ndim - 2))),
    "one case × δ": lambda n, delta, c: n._replace(x=first_times(n.x, delta)),
}


def table(answer: Callable[[str, str], str]) -> dict[str, tuple[str, ...]]:
    """The answers of all layers, each to all changes, by their names."""
    return {name: tuple(answer(name, change) for change in CHANGES) for name in LAYERS}


# By algebra: the shipped functions on symbols.


@lru_cache(maxsize=4096)
def factor(expr: sp.Expr) -> sp.Expr:
    return sp.factor(expr)


def roots_factored(expr: sp.Expr) -> sp.Expr:
    """Below every root a product, so that a square in it can leave: √(δ²a + δ²b) is δ√(a + b)."""
    roots = lambda e: e.is_Pow and not e.exp.is_Integer  # noqa: E731
    return exactly(expr).replace(roots, lambda root: factor(root.base) ** root.exp)


def net_of_symbols(name: str) -> Net:
    """Small, but three values or more share a statistic; two of four for partial RMSNorm."""
    units = {"group": 6, "partial RMS": 4}.get(name, 3)
    x = symbols("x", (2, 2, 3) if name == "instance" else (3, 2))
    return Net(symbols("w", (units, 2)), x, symbols("gamma", (units,)), symbols("beta", (units,)))


DELTA, C = sp.Symbol("delta", positive=True), symbols("c", (2,))


def symbolic(name: str) -> Layer:
    """The layer; for spectral norm with u and v kept, which a positive factor leaves alone."""
    if name == "spectral":
        return of_spectrum(layers.spectral_norm, lambda w: (symbols("u", (3,)), symbols("v", (2,))))
    return LAYERS[name]


def is_identity(
    layer: Layer,
    change: Change,
    net: Net,
    eps: Any = 0,
    delta: Any = DELTA,
) -> bool:
    """Whether the output after the change, minus the one before it, is 0 in every entry."""
    difference = layer(change(net, delta, C), eps) - layer(net, eps)
    return all(is_zero(roots_factored(entry)) for entry in difference.ravel())


def exact_output(name: str, net: Net) -> Array:
    """The output for exact numbers. Of those ** -0.5 would make floats, so symbols go through the
    layer in their place. Spectral norm has no root, but has to find its singular vectors."""
    if name == "spectral":
        return LAYERS[name](net, 0)
    stand_in = Net(*(symbols(f, a.shape) for f, a in zip(Net._fields, net, strict=True)))
    pairs = (zip(a.flat, b.flat, strict=True) for a, b in zip(stand_in, net, strict=True))
    numbers = {symbol: number for pair in pairs for symbol, number in pair}
    into = np.vectorize(lambda e: exactly(e).xreplace(numbers), otypes=[object])
    return into(LAYERS[name](stand_in, 0))


TWO, SHIFT = sp.Integer(2), np.array([sp.Integer(-3), sp.Integer(-2)])
UNITS = [[3, 1], [2, 1], [1, 0], [2, 2], [3, 3], [3, -2]]  # the first three; all for group norm
CASES = [[1, 3], [-1, 3], [3, 0]]
AT_POSITIONS = [[[-1, 2, 0], [2, 1, 0]], [[-1, 3, -1], [1, 1, 2]]]


def example(name: str) -> Net:
    """A net of small integers. Spectral norm has a W whose singular values stay rational."""
    units = {"group": UNITS, "spectral": [[3, 0], [0, 2]]}.get(name, UNITS[:3])
    x = AT_POSITIONS if name == "instance" else CASES
    parts = units, x, [1] * len(units), [0] * len(units)
    return Net(*(np.vectorize(sp.Integer, otypes=[object])(part) for part in parts))


class Counterexample(NamedTuple):
    entry: tuple[int, ...]  # of the output
    before: sp.Expr
    after: sp.Expr


def counterexample(name: str, change: Change) -> Counterexample | None:
    """Where the output of the example changes, in the entry that is shortest to write."""
    net = example(name)
    outputs = exact_output(name, net), exact_output(name, change(net, TWO, SHIFT))
    found = [
        Counterexample(entry, *(sp.radsimp(y[entry]) for y in outputs))
        for entry in np.ndindex(outputs[0].shape)
        if not is_zero(outputs[0][entry] - outputs[1][entry])
    ]
    return min(found, key=lambda f: len(f"{f.before}{f.after}"), default=None)


def proof(name: str, change: str) -> str:
    """Yes, by an identity in symbols; no, by a counterexample in integers."""
    if is_identity(symbolic(name), CHANGES[change], net_of_symbols(name)):
        return YES
    if counterexample(name, CHANGES[change]):
        return NO
    raise ValueError(f"{name}, {change}: neither an identity nor refuted by the example was found")


# By numbers: many random nets.


class Draw(NamedTuple):
    net: Net
    delta: float
    c: np.ndarray  # (inputs,)


def drawn(name: str, rng: np.random.Generator, sign: float = 1.0) -> Draw:
    """Eight cases, five inputs, six units; for instance norm at four positions. The factor is
    between 1.5 and 8 or the inverse of such a number, so that it changes something."""
    x = rng.standard_normal((8, 5, 4) if name == "instance" else (8, 5)) + rng.standard_normal()
    parameters = rng.uniform(0.5, 2, 6) * rng.choice([-1, 1], 6), rng.standard_normal(6)
    net = Net(rng.standard_normal((6, 5)), x, *parameters)
    delta = sign * rng.uniform(1.5, 8) ** rng.choice([-1, 1])
    return Draw(net, delta, rng.standard_normal(5))


def gap(layer: Layer, change: Change, draw: Draw, eps: float = 0.0) -> float:
    """How far the output moves, relative to how much it varies from case to case."""
    before, after = layer(draw.net, eps), layer(change(*draw), eps)
    spread = before.std(axis=0)
    if not (spread > CLEAR).all():
        raise ValueError("the output must vary between cases, but a unit is constant; other data?")
    return float(np.abs(after - before).max() / spread.max())


def gaps(name: str, layer: Layer | None = None, *, draws: int = 200, **setting) -> np.ndarray:
    """(changes, draws): the gaps of a layer under this name, the shipped one unless told.

    setting: sign of the factor, and eps; by default 1 and 0.
    """
    rng, layer = np.random.default_rng(0), layer or LAYERS[name]
    eps, sign = setting.get("eps", 0.0), setting.get("sign", 1.0)
    found = [drawn(name, rng, sign) for _ in range(draws)]
    return np.array([[gap(layer, change, d, eps) for d in found] for change in CHANGES.values()])


def answer(gaps: np.ndarray) -> str:
    """Yes if all gaps are rounding, no if all are clear; anything else is no answer."""
    if gaps.max() < ROUNDING:
        return YES
    if gaps.min() > CLEAR:
        return NO
    raise ValueError(f"gaps must be all below {ROUNDING} or all above {CLEAR}; take other data")


def answer_by_rule(name: str, change: str) -> str:
    """What the rule says of a layer on summed inputs: yes if the values that share a statistic are
    all multiplied by one number, or all shifted by one and the layer subtracts their mean."""
    draw = drawn(name, np.random.default_rng(0))
    before, after = map(summed_inputs, (draw.net, CHANGES[change](*draw)))
    if name == "batch":
        before, after = before.T, after.T
    rows = {"group": (-1, 3), "instance": (-1, 4)}.get(name, before.shape)
    found = (a.reshape(rows) for a in (after / before, after - before))
    times, plus = (np.ptp(a, axis=1).max() < ROUNDING for a in found)
    return YES if times or (plus and "RMS" not in name) else NO


def answers(gaps: np.ndarray) -> tuple[str, ...]:
    return tuple(map(answer, gaps))
