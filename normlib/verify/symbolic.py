"""The witnesses that compute exactly: the shipped code, run on SymPy symbols."""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import sympy as sp

from normlib.verify.derivations import Derivation, N, Shapes, k
from normlib.verify.problem import as_tuple, float_keywords, positional
from normlib.verify.verdict import Check


def symbols(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """An array of real symbols: x of shape (2, 3) holds x_0_0 … x_1_2."""
    array = np.empty(shape, dtype=object)
    for entry in np.ndindex(shape):
        array[entry] = sp.Symbol("_".join([name, *map(str, entry)]), real=True)
    return array


def exactly(expr: sp.Expr) -> sp.Expr:
    """`** -0.5` leaves a floating exponent; every float here stands for a short rational."""
    expr = sp.sympify(expr)
    return expr.xreplace({f: sp.nsimplify(f, rational=True) for f in expr.atoms(sp.Float)})


def is_zero(expr: sp.Expr) -> bool:
    """Whether an algebraic expression is identically zero.

    A value of it at one rational point, to 30 digits, settles most of the wrong ones at once;
    only the expansion of the numerator can say yes.
    """
    expr = exactly(expr)
    names = sorted(expr.free_symbols, key=str)
    point = {s: sp.Rational(7 + 3 * i, 5 + 2 * (i % 7)) for i, s in enumerate(names)}
    if abs(expr.xreplace(point).evalf(30)) > 1e-20:
        return False
    return sp.expand(sp.numer(sp.together(expr))) == 0


def symbolic_forward(forward: Callable) -> Callable:
    """The forward with every positive keyword number, as eps, made a symbol."""
    names = float_keywords(forward)
    return partial(forward, **{n: sp.Symbol(n, positive=True) for n in names})


def first_difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Where two arrays of expressions differ; empty if nowhere."""
    if np.shape(ours) != np.shape(theirs):
        return f"the shape is {np.shape(ours)}, and must be {np.shape(theirs)}"
    for entry in np.ndindex(np.shape(theirs)):
        if not is_zero(ours[entry] - theirs[entry]):
            return f"the difference at entry {list(entry)} is not identically zero"
    return ""


def run(forward: Callable, backward: Callable, shapes: Shapes) -> tuple:
    """The shipped pair on symbols: arguments, upstream, y and the gradients."""
    args = [symbols(n, s) for n, s in zip(positional(forward), shapes, strict=True)]
    y, cache = symbolic_forward(forward)(*args)
    dy = symbols("dy", y.shape)
    return args, dy, y, as_tuple(backward(dy, cache))


def describe(shapes: tuple[Shapes, ...]) -> str:
    return "SymPy " + ", ".join("×".join(map(str, s[0])) for s in shapes)


def gather(names: list[str], witness: str, how: str, failures: Iterator[tuple[str, str]]):
    """One check a name; the first failure found for it makes it red."""
    found: dict[str, str] = {}
    for name, failure in failures:
        if failure:
            found.setdefault(name, failure)
    return [Check(n, witness, how, "0", found.get(n, "")) for n in names]


def exact(forward: Callable, backward: Callable, shapes: tuple[Shapes, ...]) -> list[Check]:
    """The shipped backward minus SymPy's derivative of the shipped forward is 0 at every entry."""

    def failures() -> Iterator[tuple[str, str]]:
        for at in shapes:
            args, dy, y, gradients = run(forward, backward, at)
            loss = exactly((dy * y).sum())
            for name, a, gradient in zip(positional(forward), args, gradients, strict=True):
                theirs = np.vectorize(lambda s, f=loss: f.diff(s), otypes=[object])(a)
                yield f"d{name}", first_difference(gradient, theirs)

    names = [f"d{name}" for name in positional(forward)]
    return gather(names, "exact", describe(shapes), failures())


def at_size(expr: sp.Expr, size: int, entry: int, arrays: dict[str, np.ndarray]) -> sp.Expr:
    """An expression in index notation, written out for one size and entry."""
    written = expr.subs({N: size, k: entry}).doit()
    return written.xreplace(
        {i: arrays[str(i.base)].ravel()[int(i.indices[0])] for i in written.atoms(sp.Indexed)}
    )


def general_size(
    forward: Callable, backward: Callable, derivation: Derivation, sizes: tuple[int, ...] = (3, 5)
) -> list[Check]:
    """What was derived for every N, written out at two sizes, is what the shipped pair computes."""

    def failures() -> Iterator[tuple[str, str]]:
        for size in sizes:
            args, dy, y, gradients = run(forward, backward, derivation.shapes(size))
            arrays = dict(zip(positional(forward), args, strict=True)) | {"dy": dy}
            shipped = {"y": y}
            for name, gradient in zip(positional(forward), gradients, strict=True):
                shipped[f"d{name}"] = gradient
            derived = {"y": derivation.y} | derivation.gradients
            for name, expr in derived.items():
                theirs = np.empty(shipped[name].shape, dtype=object)
                for entry, place in enumerate(np.ndindex(theirs.shape)):
                    theirs[place] = at_size(expr, size, entry, arrays)
                yield name, first_difference(shipped[name], theirs)

    how = "the derivation at N = " + ", ".join(map(str, sizes))
    return gather(["y", *derivation.gradients], "general size", how, failures())
