"""Derivations for every size: index notation, a symbolic N, a symbolic upstream gradient.

The chain rule is applied stage by stage. Differentiating the whole layer in one go makes
SymPy's summation fail; through the statistics every piece is small.
"""

from collections.abc import Callable
from typing import NamedTuple

import sympy as sp

Shapes = tuple[tuple[int, ...], ...]  # one shape an argument

N = sp.Symbol("N", integer=True, positive=True)
i = sp.Symbol("i", integer=True, nonnegative=True)  # runs through a sum
k = sp.Symbol("k", integer=True, nonnegative=True)  # the entry that is meant
eps, mu, var = sp.symbols("eps mu var", positive=True)
x, dy, gamma, beta = map(sp.IndexedBase, ("x", "dy", "gamma", "beta"))


class Stage(NamedTuple):
    """One node of the computational graph: a symbol, and what it stands for."""

    symbol: sp.Symbol
    definition: sp.Expr


class Derivation(NamedTuple):
    """A layer and its gradients, derived for every N.

    Expressions hold N, k and indexed symbols named as the arguments: `x[i]` is the i-th entry
    of x, `dy[i]` of the upstream gradient. `shapes` gives the arguments' shapes at a size.
    """

    y: sp.Expr  # entry k of the output
    stages: tuple[Stage, ...]
    adjoints: dict[sp.Expr, sp.Expr]  # each by those of the stages after it
    gradients: dict[str, sp.Expr]  # the same, written out in the arguments alone
    shapes: Callable[[int], Shapes]


def total(summand: sp.Expr) -> sp.Sum:
    return sp.Sum(summand, (i, 0, N - 1))


def expanded(expr: sp.Expr) -> sp.Expr:
    """Every sum split into its terms, with what does not depend on i in front, so that equal
    expressions look equal."""

    def split(summand: sp.Expr, limits: sp.Tuple) -> sp.Expr:
        terms = [term.as_independent(i) for term in sp.Add.make_args(sp.expand(summand))]
        return sp.Add(*(a * (sp.Sum(b, limits) if b.has(i) else b * N) for a, b in terms))

    return sp.expand(expr.replace(sp.Sum, split))


def adjoint(symbol: sp.Symbol) -> sp.Symbol:
    return sp.Symbol(f"d{symbol}")


def derivative(expr: sp.Expr, variable: sp.Expr) -> sp.Expr:
    """d expr / d variable, where an entry such as x[k] may stand inside sums over 0 … N - 1.

    SymPy answers with a Piecewise that asks whether k lies in that range; it does.
    """
    result = sp.diff(expr, variable).doit()
    return result.replace(
        lambda e: isinstance(e, sp.Piecewise), lambda piecewise: piecewise.args[0].expr
    )


def chain_rule(loss: sp.Expr, stages: tuple[Stage, ...], variables: list[sp.Expr]) -> dict:
    """Backpropagation: the adjoint of each stage, from the last to the first, then of each
    variable. A term for every later stage in which the symbol stands."""
    adjoints: dict[sp.Expr, sp.Expr] = {}
    for symbol in [*(stage.symbol for stage in reversed(stages)), *variables]:
        later = [stage for stage in stages if stage.symbol in adjoints]
        adjoints[symbol] = derivative(loss, symbol) + sum(
            adjoint(stage.symbol) * derivative(stage.definition, symbol) for stage in later
        )
    return adjoints


def written_out(expr: sp.Expr, stages: tuple[Stage, ...], adjoints: dict) -> sp.Expr:
    """Without intermediate symbols: adjoints first, then the statistics they are made of."""
    for stage in stages:
        expr = expr.subs(adjoint(stage.symbol), adjoints[stage.symbol])
    for stage in reversed(stages):
        expr = expr.subs(stage.symbol, stage.definition)
    return expr


def derive(
    y: Callable, stages: tuple[Stage, ...], variables: dict[str, sp.Expr], shapes: Callable
) -> Derivation:
    """From the entry y(k) and the stages to the gradient of every variable, for the loss
    sum of dy[i] y(i), which stands for any loss."""
    loss = total(dy[i] * y(i))
    adjoints = chain_rule(loss, stages, list(variables.values()))
    gradients = {
        f"d{name}": written_out(adjoints[variable], stages, adjoints)
        for name, variable in variables.items()
    }
    return Derivation(written_out(y(k), stages, adjoints), stages, adjoints, gradients, shapes)


MEAN = Stage(mu, total(x[i]) / N)
VARIANCE = Stage(var, total((x[i] - mu) ** 2) / N)


def batch_norm() -> Derivation:
    """One channel: N values, one gamma, one beta (Ioffe and Szegedy 2015, Algorithm 1)."""

    def y(j: sp.Symbol) -> sp.Expr:
        return gamma[0] * (x[j] - mu) / sp.sqrt(var + eps) + beta[0]

    variables = {"x": x[k], "gamma": gamma[0], "beta": beta[0]}
    return derive(y, (MEAN, VARIANCE), variables, lambda n: ((n, 1), (1,), (1,)))


def batch_norm_inference() -> Derivation:
    """One channel with given statistics: an affine map (Ioffe and Szegedy 2015, Algorithm 2)."""
    mean, variance = sp.IndexedBase("mean")[0], sp.IndexedBase("var")[0]

    def y(j: sp.Symbol) -> sp.Expr:
        return gamma[0] * (x[j] - mean) / sp.sqrt(variance + eps) + beta[0]

    variables = {"x": x[k], "mean": mean, "var": variance, "gamma": gamma[0], "beta": beta[0]}
    return derive(y, (), variables, lambda n: ((n, 1), (1,), (1,), (1,), (1,)))
