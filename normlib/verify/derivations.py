"""Derivations for every size: index notation, a symbolic m, a symbolic upstream gradient.

The chain rule is applied stage by stage. Differentiating the whole layer in one go makes
SymPy's summation fail; through the statistics every piece is small.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import sympy as sp

Shapes = tuple[tuple[int, ...], ...]  # one shape an argument

m, K = sp.symbols("m K", integer=True, positive=True)  # all entries; the first K of them
i = sp.Symbol("i", integer=True, nonnegative=True)  # runs through a sum
k = sp.Symbol("k", integer=True, nonnegative=True)  # the entry that is meant
eps, mu, var, ms = sp.symbols("eps mu var ms", positive=True)
x, xhat, dy, gamma, beta = map(sp.IndexedBase, ("x", "xhat", "dy", "gamma", "beta"))


class Stage(NamedTuple):
    """One node of the computational graph: a symbol, and what it stands for. One value for each
    entry of x is written with an index: xhat[i]."""

    symbol: sp.Expr
    definition: sp.Expr


class Derivation(NamedTuple):
    """A layer and its gradients, derived for every m.

    Expressions hold m, k and indexed symbols named as the arguments: `x[i]` is the i-th entry
    of x, `dy[i]` of the upstream gradient. `shapes` gives the arguments' shapes at a size.
    """

    y: sp.Expr  # entry k of the output, written out in the arguments
    output: sp.Expr  # the same, in the symbols of the stages
    stages: tuple[Stage, ...]
    adjoints: dict[sp.Expr, sp.Expr]  # each by those of the stages after it
    gradients: dict[str, sp.Expr]  # the same, written out in the arguments alone
    shapes: Callable[[int], Shapes]
    keywords: Mapping = MappingProxyType({})  # what the layer is called with at these shapes


def total(summand: sp.Expr, count: sp.Expr = m) -> sp.Sum:
    return sp.Sum(summand, (i, 0, count - 1))


def split_sums(expr: sp.Expr) -> sp.Expr:
    """Every sum split into its terms, with what does not depend on i in front, so that equal
    expressions look equal."""

    def split(summand: sp.Expr, limits: sp.Tuple) -> sp.Expr:
        (_, first, last), terms = limits, sp.Add.make_args(sp.expand(summand))
        count, parts = last - first + 1, [term.as_independent(i) for term in terms]
        return sp.Add(*(a * (sp.Sum(b, limits) if b.has(i) else b * count) for a, b in parts))

    return sp.expand(expr.replace(sp.Sum, split))


def adjoint(symbol: sp.Expr) -> sp.Expr:
    """What stands for the derivative of the loss: dmu for mu, dxhat[i] for xhat[i]."""
    if isinstance(symbol, sp.Indexed):
        return sp.IndexedBase(f"d{symbol.base}")[symbol.indices]
    return sp.Symbol(f"d{symbol}")


def entry(symbol: sp.Expr) -> sp.Expr:
    """Of a stage with an index, the entry k."""
    return symbol.subs(i, k)


def instead(expr: sp.Expr, symbol: sp.Expr, value: sp.Expr) -> sp.Expr:
    """`value` in place of a symbol; of an indexed one, xhat[i], wherever it has an index."""
    if not isinstance(symbol, sp.Indexed):
        return expr.subs(symbol, value)
    (index,) = symbol.indices
    return expr.replace(
        lambda e: isinstance(e, sp.Indexed) and e.base == symbol.base,
        lambda e: value.subs(index, e.indices[0]),
    )


def derivative(expr: sp.Expr, variable: sp.Expr) -> sp.Expr:
    """d expr / d variable, where an entry such as x[k] may stand inside sums over 0 … m - 1.

    SymPy answers with a Piecewise that asks whether k lies in that range; it does. In the range
    0 … K - 1 it may or may not lie, so that question stays.
    """
    result = sp.diff(expr, variable).doit()
    return result.replace(
        lambda e: isinstance(e, sp.Piecewise) and not e.args[0].cond.has(K),
        lambda piecewise: piecewise.args[0].expr,
    )


def pull_back(stage: Stage) -> sp.Expr:
    """The part of the loss that runs through a stage, with its adjoint held fixed."""
    term = adjoint(stage.symbol) * stage.definition
    return total(term) if isinstance(stage.symbol, sp.Indexed) else term


def chain_rule(loss: sp.Expr, stages: tuple[Stage, ...], variables: list[sp.Expr]) -> dict:
    """Backpropagation: the adjoint of each stage, from the last to the first, then of each
    variable. A term for every later stage in which the symbol stands."""
    adjoints: dict[sp.Expr, sp.Expr] = {}
    for symbol in [*(entry(stage.symbol) for stage in reversed(stages)), *variables]:
        later = [stage for stage in stages if entry(stage.symbol) in adjoints]
        adjoints[symbol] = derivative(loss, symbol) + sum(
            derivative(pull_back(stage), symbol) for stage in later
        )
    return adjoints


def write_out(expr: sp.Expr, stages: tuple[Stage, ...], adjoints: dict) -> sp.Expr:
    """Without intermediate symbols: adjoints first, then the statistics they are made of."""
    for stage in stages:
        symbol = entry(stage.symbol)
        expr = instead(expr, adjoint(symbol), adjoints[symbol])
    for stage in reversed(stages):
        expr = instead(expr, stage.symbol, stage.definition)
    return expr


def derive(
    y: Callable,
    stages: tuple[Stage, ...],
    variables: dict[str, sp.Expr],
    shapes: Callable,
    *,
    count: sp.Expr = m,
) -> Derivation:
    """From the entry y(k) and the stages to the gradient of every variable, for the loss
    sum of dy[i] y(i), which stands for any loss; i runs through `count` entries."""
    loss = total(dy[i] * y(i), count)
    adjoints = chain_rule(loss, stages, list(variables.values()))
    gradients = {
        f"d{name}": write_out(adjoints[variable], stages, adjoints)
        for name, variable in variables.items()
    }
    y_k = write_out(y(k), stages, adjoints)
    return Derivation(y_k, y(k), stages, adjoints, gradients, shapes)


MEAN = Stage(mu, total(x[i]) / m)
VARIANCE = Stage(var, total((x[i] - mu) ** 2) / m)
MEAN_SQUARE = Stage(ms, total(x[i] ** 2) / m)
STANDARDIZED = Stage(xhat[i], (x[i] - mu) / sp.sqrt(var + eps))
