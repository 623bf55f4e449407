"""The witnesses that compute exactly: the shipped code, run on SymPy symbols."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import sympy as sp
from sympy import QQ, ring
from sympy.core.function import Application

from normlib.verify.derivations import Derivation, Shapes, k, m
from normlib.verify.pair import as_tuple, is_integer
from normlib.verify.problem import reason
from normlib.verify.signature import above_zero, argument_names, data, positional_parameters
from normlib.verify.verdict import Check, skip


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


def is_root(expr: sp.Expr) -> bool:
    return expr.is_Pow and expr.exp.is_Rational and not expr.exp.is_Integer


def with_primitive_roots(expr: sp.Expr) -> sp.Expr:
    """√(27a + 6b) as √3 √(9a + 2b): a positive factor of all terms stands in front of its root."""

    def split(base: sp.Expr, exponent: sp.Expr) -> sp.Expr:
        content, primitive = sp.expand(base).as_content_primitive()
        return content**exponent * primitive**exponent

    return expr.replace(is_root, lambda power: split(*power.args))


def cancels(expr: sp.Expr) -> bool:
    numerator = sp.numer(sp.together(expr))
    names = sorted(numerator.free_symbols, key=str)
    if not names or numerator.find(is_root):
        return sp.expand(numerator) == 0
    return ring(names, QQ)[0].from_expr(numerator) == 0  # without roots: many times faster


@lru_cache(maxsize=4096)  # the wrong twins of a layer share most of its expressions
def is_zero(expr: sp.Expr) -> bool:
    """Whether an algebraic expression is identically zero.

    A value of it at one rational point, to 30 digits, settles most of the wrong ones at once;
    only the expansion of the numerator can say yes. Roots of multiples of each other, as they come
    from statistics that were merged from parts, have to be taken apart first; roots in roots grow
    by that, and are tried as they are.
    """
    expr = exactly(expr)
    names = sorted(expr.free_symbols, key=str)
    point = {s: sp.Rational(7 + 3 * i, 5 + 2 * (i % 7)) for i, s in enumerate(names)}
    if abs(expr.xreplace(point).evalf(30)) > 1e-20:
        return False
    nested = any(root.base.find(is_root) for root in expr.find(is_root))
    return (nested and cancels(expr)) or cancels(with_primitive_roots(expr))


def first_difference(ours: np.ndarray, theirs: np.ndarray) -> str:
    """Where two arrays of expressions differ; empty if nowhere."""
    if np.shape(ours) != np.shape(theirs):
        return f"the shape is {np.shape(ours)}, and must be {np.shape(theirs)}"
    for entry in np.ndindex(np.shape(theirs)):
        if not is_zero(exactly(ours[entry]) - exactly(theirs[entry])):
            return f"the difference at entry {list(entry)} is not identically zero"
    return ""


def corner(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The first entries of each axis; integers may count or name what is now less than it was."""
    cut = a[(..., *map(slice, shape))]
    return np.minimum(cut, 1) if is_integer(a) else cut


class Run(NamedTuple):
    """The shipped pair on symbols."""

    arrays: dict[str, np.ndarray]  # every array by name, the upstream as dy
    y: np.ndarray
    gradients: dict[str, np.ndarray]  # by the name of the argument


def check_shapes(forward: Callable, shapes: Shapes) -> None:
    needed = [p.name for p in positional_parameters(forward) if p.default is p.empty] + [
        *data(forward)
    ]
    most = len(positional_parameters(forward)) + len(data(forward)) or len(shapes)
    fitting = len(needed) <= len(shapes) <= most
    if not fitting or not all(isinstance(shape, tuple) for shape in shapes):
        raise ValueError(
            f"shapes must hold, in each set, one tuple for each of {needed}, but got {shapes}; "
            f"write (((3, 2), (2,), (2,)),) for a single set"
        )


def asked_arguments(forward: Callable, shapes: Shapes) -> list[str]:
    """The arguments of which gradients are asked: those that are no bound arrays."""
    return argument_names(forward, len(shapes) - len(data(forward)))


def run(
    forward: Callable, backward: Callable, shapes: Shapes, varied: tuple[str, ...] = (), **keywords
) -> Run:
    """Arguments, then bound arrays, become symbols of these shapes; so do the settings that
    are named as varied. Integers stay what they are."""
    names, held = asked_arguments(forward, shapes), data(forward)
    every = [*names, *held]
    arrays = {name: symbols(name, shape) for name, shape in zip(every, shapes, strict=True)}
    arrays |= {n: corner(a, arrays[n].shape) for n, a in held.items() if is_integer(a)}
    bound = {n: sp.Symbol(n, positive=True) for n in above_zero(forward, len(names), varied)}
    bound |= {name: arrays[name] for name in held}
    y, cache = forward(*(arrays[name] for name in names), **bound | keywords)
    dy = symbols("dy", y.shape)
    gradients = [np.asarray(g, dtype=object) for g in as_tuple(backward(dy, cache))]
    return Run(arrays | {"dy": dy}, y, dict(zip(names, gradients, strict=True)))


def describe(shapes: tuple[Shapes, ...]) -> str:
    return "SymPy " + ", ".join("×".join(map(str, s[0])) for s in shapes)


def gather(names: list[str], witness: str, how: str, failures: Iterator[tuple[str, str]]):
    """One check a name; the first failure found for it makes it red."""
    found: dict[str, str] = {}
    for name, failure in failures:
        if failure:
            found.setdefault(name, failure)
    return [Check(n, witness, how, "0", found.get(n, "")) for n in names]


def lacks_symbols(call: Callable) -> str:
    """Why code does not run on symbols; empty where it does."""
    try:
        call()
    except Exception as error:
        return f"the code takes no symbols ({reason(error)})"
    return ""


def try_numbers(forward: Callable, shapes: Shapes) -> None:
    """An error in the shapes is that of the caller, and is not taken for a lack of the layer. A
    TypeError is: what takes no float64 takes no symbols either."""
    numbers = [np.linspace(1, 2, int(np.prod(shape))).reshape(shape) for shape in shapes]
    count, held = len(asked_arguments(forward, shapes)), data(forward)
    bound = dict(zip(held, numbers[count:], strict=True))
    bound |= {n: corner(a, bound[n].shape) for n, a in held.items() if is_integer(a)}
    with suppress(TypeError):
        forward(*numbers[:count], **bound)


def length(expr: sp.Expr, known: dict) -> int:
    """How many parts an expression has when it is written out. What it shares counts each time."""
    if expr not in known:
        known[expr] = 1 + sum(length(part, known) for part in expr.args)
    return known[expr]


def is_short(number: sp.Float) -> bool:
    """Whether it is a fraction with few digits. Of others, in which two ways to compute them differ
    by rounding, algebra cannot tell."""
    exact = sp.nsimplify(number, rational=True)
    return exact.is_Rational and abs(exact.p) * exact.q < 10**16


def lacks_algebra(ran: Run, longest: float) -> str:
    """Why two expressions cannot be told to be equal; empty where they can."""
    arrays = ran.y, *ran.gradients.values()
    expressions = [sp.sympify(e) for array in arrays for e in np.ravel(array)]
    known: dict[sp.Expr, int] = {}
    most = max(length(e, known) for e in expressions)
    if most > longest:
        return f"the expressions are too long, {most} parts"
    found = set().union(*(e.atoms(Application, sp.Float) for e in expressions))
    names = sorted({str(part.func) for part in found if isinstance(part, Application)})
    if names:
        return f"not algebraic: {', '.join(names)}"
    rounded = [part for part in found if not is_short(part)]
    return f"the code holds rounded numbers, such as {min(rounded):.6g}" if rounded else ""


def exact(
    forward: Callable,
    backward: Callable,
    shapes: tuple[Shapes, ...],
    varied: tuple[str, ...] = (),
    longest: float = np.inf,
) -> list[Check]:
    """Check that the shipped backward minus SymPy's derivative of the shipped forward is 0 at every
    entry.

    Needs a forward and a backward that run on arrays of symbols, with results of powers, products
    and sums, none of more than `longest` parts, and with numbers that are short fractions.
    """
    if not shapes:
        return [skip("exact", "no small shapes given")]
    for at in shapes:
        check_shapes(forward, at)
        try_numbers(forward, at)
    runs: list[Run] = []
    lacking = lacks_symbols(
        lambda: runs.extend(run(forward, backward, at, varied) for at in shapes)
    )
    for lack in filter(None, [lacking, *(lacks_algebra(ran, longest) for ran in runs)]):
        return [skip("exact", lack)]

    def failures() -> Iterator[tuple[str, str]]:
        for ran in runs:
            loss = exactly((ran.arrays["dy"] * ran.y).sum())
            for name, gradient in ran.gradients.items():
                theirs = np.vectorize(lambda s, f=loss: f.diff(s), otypes=[object])
                yield f"d{name}", first_difference(gradient, theirs(ran.arrays[name]))

    names = [f"d{name}" for name in asked_arguments(forward, shapes[0])]
    return gather(names, "exact", describe(shapes), failures())


@lru_cache(maxsize=1024)
def write_at(expr: sp.Expr, size: int, entry: int) -> sp.Expr:
    """An expression in index notation, with its sums written out for one size and entry."""
    return expr.subs({m: size, k: entry}).doit()


def at_size(expr: sp.Expr, size: int, entry: int, arrays: dict[str, np.ndarray]) -> sp.Expr:
    """The same, with the symbols of the arrays in place of indexed ones."""
    written = write_at(expr, size, entry)
    return written.xreplace(
        {i: arrays[str(i.base)].ravel()[int(i.indices[0])] for i in written.atoms(sp.Indexed)}
    )


def general_size(
    forward: Callable,
    backward: Callable,
    derivation: Derivation | None,
    varied: tuple[str, ...] = (),
    sizes: tuple[int, ...] = (3, 5),
) -> list[Check]:
    """Check that what was derived for every m, written out at two sizes, is what the shipped pair
    computes.

    Needs a forward and a backward that run on arrays of symbols.
    """
    if not derivation:
        return [skip("general size", "no derivation given")]

    def ran_at(size: int) -> Run:
        return run(forward, backward, derivation.shapes(size), varied, **derivation.keywords)

    def failures() -> Iterator[tuple[str, str]]:
        for size in sizes:
            ran = ran_at(size)
            shipped = {"y": ran.y} | {f"d{name}": g for name, g in ran.gradients.items()}
            derived = {"y": derivation.y} | derivation.gradients
            for name, expr in derived.items():
                theirs = np.empty(shipped[name].shape, dtype=object)
                for entry, place in enumerate(np.ndindex(theirs.shape)):
                    theirs[place] = at_size(expr, size, entry, ran.arrays)
                yield name, first_difference(shipped[name], theirs)

    if lacking := lacks_symbols(lambda: ran_at(sizes[0])):
        return [skip("general size", lacking)]
    how = "the derivation at m = " + ", ".join(map(str, sizes))
    return gather(["y", *derivation.gradients], "general size", how, failures())
