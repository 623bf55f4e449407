"""A derivation on the page: what is shown is what was checked.

An equation is entered as a SymPy expression, arranged as a textbook writes it, and independently of
the derivation. The same object is rendered and compared: a slip of the pen cannot reach the page.
"""

from typing import NamedTuple

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE

from normlib.verify.derivations import (
    Derivation,
    Stage,
    adjoint,
    dy,
    entry,
    i,
    instead,
    k,
    m,
    split_sums,
    total,
)

# The letters of the book for the names of the code.
LETTERS = {
    "beta": r"\beta",
    "eps": r"\varepsilon",
    "gamma": r"\gamma",
    "ms": "q",  # the mean square
    "mean": r"\mu",  # a mean that is given
    "mu": r"\mu",
    "sigma": r"\sigma",
    "var": r"\sigma^{2}",
    "xhat": r"\hat{x}",
}


class StepError(AssertionError):
    """What was entered is not what was derived."""


class Mean(sp.Expr):
    """1/m times a sum over i, printed as that."""

    @property
    def summand(self) -> sp.Expr:
        return self.args[0]

    def doit(self, **hints) -> sp.Expr:
        return total(self.summand) / m


def mean(summand: sp.Expr) -> Mean:
    return Mean(summand)


def letter(name: str) -> str:
    if name in LETTERS:
        return LETTERS[name]
    if len(name) > 1 and name[0] == "d" and name != "delta":  # dx, dvar: a derivative of the loss
        return rf"\mathrm{{d}}{letter(name[1:])}"
    return sp.latex(sp.Symbol(name))


class Textbook(LatexPrinter):
    """In the order in which an expression was entered, with the letters of the book. A parameter
    of a single channel, gamma[0], is written without its index."""

    def __init__(self):
        super().__init__({"order": "none"})

    def _print_Symbol(self, symbol: sp.Symbol, style: str = "plain") -> str:
        return letter(symbol.name)

    def _print_Indexed(self, indexed: sp.Indexed) -> str:
        (index,) = indexed.indices
        name = letter(str(indexed.base))
        return name if index == 0 else f"{name}_{{{self._print(index)}}}"

    def summed(self, summand: sp.Expr, count: sp.Expr = m) -> str:
        factors = [summand] if isinstance(summand, sp.Add) else sp.Mul.make_args(summand)
        level = PRECEDENCE["Mul"]
        below = "i" if count == m else rf"i \leq {self._print(count)}"
        return rf"\sum_{{{below}}} {' '.join(self.parenthesize(f, level) for f in factors)}"

    def _print_Mul(self, product: sp.Mul) -> str:
        """A sum stands behind the fraction, not in it."""
        sums = [f for f in product.args if isinstance(f, sp.Sum | Mean)]
        others = [f for f in product.args if f not in sums]
        if not sums or not others:
            return super()._print_Mul(product)
        before = super()._print_Mul(sp.Mul(*others, evaluate=False)) if others != [-1] else "-"
        return " ".join([before, *map(self._print, sums)])

    def _print_MatrixSymbol(self, matrix: sp.MatrixSymbol) -> str:
        return letter(matrix.name)

    def _print_MatAdd(self, sum_: sp.MatAdd) -> str:
        return " + ".join(map(self._print, sum_.args)).replace("+ - ", "- ")

    def _print_Transpose(self, transpose: sp.Transpose) -> str:
        return rf"{self.parenthesize(transpose.arg, PRECEDENCE['Pow'])}^{{\top}}"

    def _print_Sum(self, sum_: sp.Sum) -> str:
        (_, _, last), *_ = sum_.limits
        return self.summed(sum_.function, last + 1)

    def _print_Mean(self, mean_: Mean) -> str:
        return rf"\frac{{1}}{{m}} {self.summed(mean_.summand)}"


def parts(kind: type, expr: sp.Expr) -> list[sp.Expr]:
    """The terms of nested sums, or the factors of nested products, in their order."""
    if not isinstance(expr, kind):
        return [expr]
    return [part for arg in expr.args for part in parts(kind, arg)]


def flat(expr: sp.Expr) -> sp.Expr:
    """Without the brackets that entering term by term leaves: (a + b) + c is a + b + c. Of a
    product the numbers go to the front, as one. Matrices in symbols stay as they were entered."""
    if isinstance(expr, sp.MatrixExpr):
        return expr
    if isinstance(expr, sp.Add):
        return sp.Add(*map(flat, parts(sp.Add, expr)), evaluate=False)
    if isinstance(expr, sp.Mul):
        factors = [flat(factor) for factor in parts(sp.Mul, expr)]
        number = sp.prod(f for f in factors if f.is_Number)
        others = [f for f in factors if not f.is_Number]
        return sp.Mul(*[number] * (number != 1 or not others), *others, evaluate=False)
    return expr.func(*map(flat, expr.args)) if expr.args else expr


def latex(expr: sp.Expr) -> str:
    return Textbook().doprint(flat(expr))


def evaluate(expr: sp.Expr) -> sp.Expr:
    """The same expression as SymPy arranges it."""
    if not expr.args:
        return expr
    rebuilt = expr.func(*map(evaluate, expr.args))
    return rebuilt.doit() if isinstance(rebuilt, Mean) else rebuilt


class Shown(NamedTuple):
    """One displayed equation: its left side, and one or more right sides, all equal."""

    left: str
    right: tuple[sp.Expr, ...]

    def __repr__(self) -> str:
        return " = ".join([self.left, *map(str, map(evaluate, self.right))])

    def _repr_latex_(self) -> str:
        return "$$" + " = ".join([self.left, *map(latex, self.right)]) + "$$"


def equation(
    left: str, derived: sp.Expr, *right: sp.Expr, short: dict[sp.Symbol, sp.Expr] | None = None
) -> Shown:
    """An equation of any kind: each right side, in textbook form, must equal what SymPy derived by
    a way of its own: a derivative, an integral, a solution, a product of matrices. Its left side
    is LaTeX; `short` holds abbreviations, as in Steps. Matrices are compared entry by entry. For a
    gradient that is derived in stages there is Steps.
    """
    derived, *right = map(sp.sympify, (derived, *right))
    for form in right:
        if not same(evaluate(form), derived, short):
            raise step_error(left, derived, form)
    return Shown(left, tuple(right))


def entries(expr: sp.Expr) -> sp.Expr:
    """Of a matrix that is written in symbols, a matrix of its entries."""
    return expr.as_explicit() if isinstance(expr, sp.MatrixExpr) else expr


def same(one: sp.Expr, other: sp.Expr, short: dict[sp.Symbol, sp.Expr] | None = None) -> bool:
    difference = sp.simplify((entries(one) - entries(other)).subs(short or {}))
    return difference == 0 * difference  # a number or a matrix


def step_error(left: object, derived: sp.Expr, form: sp.Expr) -> StepError:
    return StepError(
        f"the equation for {left} is not what was derived: expected an expression equal to "
        f"{derived}, got {evaluate(form)}; correct the one that is wrong"
    )


class Steps:
    """The equations of one derivation, shown one after the other.

    `short` holds abbreviations, such as r for 1/√(var + eps): symbols that the equations may use,
    and what they stand for. `output` is the letter of what comes out, where it is not y.
    """

    def __init__(
        self,
        derivation: Derivation,
        short: dict[sp.Symbol, sp.Expr] | None = None,
        output: str = "y",
    ):
        self.short, self.y = short or {}, sp.IndexedBase(output)
        self.derivation = with_upstream(derivation, sp.IndexedBase(f"d{output}"))
        self.facts = facts(derivation.stages)

    def abbreviation(self, symbol: sp.Symbol) -> Shown:
        """What an abbreviation stands for."""
        return Shown(latex(symbol), (self.short[symbol],))

    def definition(self, symbol: sp.Expr, *right: sp.Expr) -> Shown:
        """A stage of the forward pass."""
        stages = {stage.symbol: stage.definition for stage in self.derivation.stages}
        return self.check(entry(symbol), right, entry(stages[symbol]))

    def output(self, *right: sp.Expr) -> Shown:
        """y, in the symbols of the stages."""
        return self.check(self.y[k], right, self.derivation.output)

    def gradient(self, symbol: sp.Expr, *right: sp.Expr) -> Shown:
        """The derivative of the loss with respect to a stage or a variable."""
        return self.check(adjoint(symbol), right, self.derivation.adjoints[symbol])

    def consequence(self, left: sp.Expr, *right: sp.Expr) -> Shown:
        """What follows from the steps: both sides are equal once they are put in."""
        return self.check(left, right, evaluate(left))

    def check(self, left: sp.Expr, right: tuple[sp.Expr, ...], derived: sp.Expr) -> Shown:
        for form in right:
            if not self.equal(evaluate(form), derived):
                raise step_error(left, derived, form)
        return Shown(latex(left), right)

    def equal(self, one: sp.Expr, other: sp.Expr) -> bool:
        """For every m and every eps: their difference, without abbreviations and adjoints, is 0
        once the sums that define the statistics are replaced by these."""
        difference = instead((one - other).subs(self.short), self.y[k], self.derivation.output)
        for symbol, value in reversed(self.derivation.adjoints.items()):
            difference = instead(difference, adjoint(symbol), value)
        for stage in reversed(self.derivation.stages):
            if isinstance(stage.symbol, sp.Indexed):
                difference = instead(difference, stage.symbol, stage.definition)
        difference = split_sums(difference.subs(self.short))
        return sp.expand(sp.numer(sp.together(difference.subs(self.facts)))) == 0


def with_upstream(derivation: Derivation, upstream: sp.IndexedBase) -> Derivation:
    """The same with another letter for the upstream gradient."""
    adjoints = {s: instead(a, dy[i], upstream[i]) for s, a in derivation.adjoints.items()}
    return derivation._replace(adjoints=adjoints)


def facts(stages: tuple[Stage, ...]) -> dict[sp.Sum, sp.Expr]:
    """The sums that define a statistic, by the statistic: sum of x is m mu."""
    found: dict[sp.Sum, sp.Expr] = {}
    for symbol, definition in stages:
        if isinstance(symbol, sp.Indexed):
            continue
        equation = split_sums(definition).subs(found) - symbol
        for unknown in equation.atoms(sp.Sum):
            found[unknown] = sp.expand(sp.solve(equation, unknown)[0])
    return found
