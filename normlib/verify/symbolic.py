"""The witnesses that compute exactly: the shipped code, run on SymPy symbols."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import sympy as sp
from sympy import QQ, ring
from sympy.core.function import Application
from sympy.polys.rings import PolyElement

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


@lru_cache(maxsize=4096)
def as_fraction(number: sp.Float) -> sp.Expr:
    return sp.nsimplify(number, rational=True)


@lru_cache(maxsize=4096)  # here as below: the wrong twins of a layer share most of its expressions
def exactly(expr: sp.Expr) -> sp.Expr:
    """`** -0.5` leaves a floating exponent; every float here stands for a short rational."""
    expr = sp.sympify(expr)
    return expr.xreplace({f: as_fraction(f) for f in expr.atoms(sp.Float)})


@lru_cache(maxsize=4096)
def derivative(expr: sp.Expr, symbol: sp.Symbol) -> sp.Expr:
    return expr.diff(symbol)


def is_root(expr: sp.Expr) -> bool:
    return expr.is_Pow and expr.exp.is_Rational and not expr.exp.is_Integer


@lru_cache(maxsize=4096)
def split_root(base: sp.Expr, exponent: sp.Rational) -> sp.Expr:
    content, primitive = sp.expand(base).as_content_primitive()
    return content**exponent * primitive**exponent


def with_primitive_roots(expr: sp.Expr) -> sp.Expr:
    """√(27a + 6b) as √3 √(9a + 2b): a positive factor of all terms stands in front of its root."""
    return expr.replace(is_root, lambda power: split_root(*power.args))


def cancels(expr: sp.Expr) -> bool:
    """Whether an expression expands to zero. SymPy's common denominator also finds what is hidden
    in a root, such as the factor of √(c²a + c²b), and takes ten times as long."""
    return cancels_in_a_ring(expr) or sp.expand(sp.numer(sp.together(expr))) == 0


def cancels_in_a_ring(expr: sp.Expr) -> bool:
    """Each root and its inverse are variables of a polynomial ring: at the end all terms have the
    same power of a root in front, and what is even of the rest is a power of its base. Of roots in
    roots it says nothing."""
    powers = {p for p in expr.atoms(sp.Pow) if is_root(p) or p.exp.is_negative}
    bases = sorted({p.base for p in powers}, key=str)
    nested = any(powers & base.atoms(sp.Pow) for base in bases)
    if nested or any((2 * p.exp).q != 1 for p in powers):
        return False
    stand_in = {b: (sp.Dummy(f"root{i}"), sp.Dummy(f"inverse{i}")) for i, b in enumerate(bases)}
    names = [*sorted(expr.free_symbols, key=str), *chain(*stand_in.values())]
    if not names:
        return False
    polynomials = ring(names, QQ)[0]
    told = {p: stand_in[p.base][bool(p.exp < 0)] ** abs(2 * p.exp) for p in powers}
    left = polynomials.from_expr(expr.xreplace(told))
    for base, pair in stand_in.items():
        left = without_root(left, *map(names.index, pair), polynomials.from_expr(base))
    return left == 0


def without_root(poly: PolyElement, root: int, inverse: int, square: PolyElement) -> PolyElement:
    """A polynomial times that power of a root which makes all of its powers whole; of them only the
    first remains, and the others are powers of its square."""
    exponents = {monom: monom[root] - monom[inverse] for monom in poly.itermonoms()}
    least = min(exponents.values(), default=0)
    parts = defaultdict(lambda: poly.ring.zero)
    for monom, coefficient in poly.iterterms():
        whole, odd = divmod(exponents[monom] - least, 2)
        rest = [0 if place == inverse else power for place, power in enumerate(monom)]
        rest[root] = odd
        parts[whole] += poly.ring.term_new(tuple(rest), coefficient)
    total = poly.ring.zero
    for whole in range(max(parts, default=0), -1, -1):
        total = total * square + parts[whole]
    return total


@lru_cache(maxsize=4096)
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


@lru_cache(maxsize=4096)
def find_no_algebra(expr: sp.Expr) -> set[sp.Expr]:
    return expr.atoms(Application, sp.Float)


def is_short(number: sp.Float) -> bool:
    """Whether it is a fraction with few digits. Of others, in which two ways to compute them differ
    by rounding, algebra cannot tell."""
    exact = as_fraction(number)
    return exact.is_Rational and abs(exact.p) * exact.q < 10**16


def lacks_algebra(ran: Run, longest: float) -> str:
    """Why two expressions cannot be told to be equal; empty where they can."""
    arrays = ran.y, *ran.gradients.values()
    expressions = [sp.sympify(e) for array in arrays for e in np.ravel(array)]
    known: dict[sp.Expr, int] = {}
    most = max(length(e, known) for e in expressions)
    if most > longest:
        return f"the expressions are too long, {most} parts"
    found = set().union(*map(find_no_algebra, expressions))
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
                theirs = np.vectorize(partial(derivative, loss), otypes=[object])
                yield f"d{name}", first_difference(gradient, theirs(ran.arrays[name]))

    names = [f"d{name}" for name in asked_arguments(forward, shapes[0])]
    return gather(names, "exact", describe(shapes), failures())


@lru_cache(maxsize=4096)
def at_size(expr: sp.Expr, size: int, entry: int, arrays: tuple[tuple[str, tuple], ...]) -> sp.Expr:
    """An expression in index notation, with its sums written out for one size and entry, and the
    symbols of the arrays in place of indexed ones."""
    written, flat = expr.subs({m: size, k: entry}).doit(), dict(arrays)
    return written.xreplace(
        {i: flat[str(i.base)][int(i.indices[0])] for i in written.atoms(sp.Indexed)}
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
            arrays = tuple((name, tuple(a.ravel())) for name, a in ran.arrays.items())
            for name, expr in derived.items():
                theirs = np.empty(shipped[name].shape, dtype=object)
                for entry, place in enumerate(np.ndindex(theirs.shape)):
                    theirs[place] = at_size(expr, size, entry, arrays)
                yield name, first_difference(shipped[name], theirs)

    if lacking := lacks_symbols(lambda: ran_at(sizes[0])):
        return [skip("general size", lacking)]
    how = "the derivation at m = " + ", ".join(map(str, sizes))
    return gather(["y", *derivation.gradients], "general size", how, failures())
