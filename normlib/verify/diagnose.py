"""Say what is wrong with a backward pass: find the mistake whose gradient it has.

A mistake is named only if the gradient that it would give is the one that was found, at several
arguments and to rounding. What fits nothing is said to be wrong, and no more.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, combinations_with_replacement, product
from typing import Any, NamedTuple

import numpy as np

from normlib.verify import autograd
from normlib.verify import lines as notation
from normlib.verify.lines import Layout, Lines, Slip
from normlib.verify.problem import TINY, Problem, central_columns
from normlib.verify.signature import settings

DRAWS = 3  # the given arguments, and others of their shapes and signs
NEAR, SINGLE, COARSE = 1e-8, 1e-4, 1e-5  # in float64, float32, and where differences are the truth
CLOSE = 1e-6  # of a factor to the number that it is taken for
MANY = 12  # counts that are tried in the place of a setting such as the number of groups
Named = tuple[str, str]  # what is said, and of what kind it is
UNKNOWN = "it is wrong, and no single mistake that is known here gives it", "unknown"

OF_THE_RIGHT = "it is the gradient of the right layer, not of this forward", "forward"


class Finding(NamedTuple):
    """One mistake: the results that it spoils, and what it is. `kind` is "unknown" for none."""

    results: tuple[str, ...]
    says: str
    kind: str

    def __str__(self) -> str:
        return f"{', '.join(self.results)}: {self.says}"


class Diagnosis(NamedTuple):
    """What was found, and the results that are right."""

    findings: tuple[Finding, ...]
    right: tuple[str, ...]

    def __repr__(self) -> str:
        right = [f"right: {', '.join(self.right)}"] if self.right else []
        return "\n".join([*map(str, self.findings), *right])


class Draw(NamedTuple):
    """The layer at some arguments: what its backward gives, and the gradient of its forward."""

    problem: Problem
    cache: Any
    found: list[np.ndarray]
    right: list[np.ndarray]
    tolerance: float
    arrays: dict[str, np.ndarray]  # what a formula of the backward can be made of
    made: dict[tuple, np.ndarray | None]  # products of them, each multiplied once

    def same(self, place: int, found: Any, expected: Any) -> bool:
        """Whether two gradients of one argument are the same, up to the terms that cancel."""
        if np.shape(found) != np.shape(expected) or not np.all(np.isfinite(found)):
            return False
        sizes = (np.max(np.abs(a), initial=0) for a in (found, expected))
        far = np.max(np.abs(found - expected), initial=0)
        return bool(far <= self.tolerance * max(self.problem.scales[place], *sizes))

    def ask(self, place: int, dy: np.ndarray, cache: Any) -> np.ndarray:
        return np.asarray(self.problem.gradients_for(dy, cache)[place], float)


def find_gradients(problem: Problem) -> tuple[list[np.ndarray], float]:
    """The gradients of the forward by the best witness there is, and how near they are."""
    if not problem.lacks_complex:
        return [steps.gradient for steps in problem.steps], NEAR
    if not problem.by_torch and not autograd.lacks_tensors(problem):
        found = autograd.first_order(problem, autograd.own_forward(problem))
        pairs = zip(found, problem.args, strict=True)
        return [np.zeros(a.shape) if g is None else g for g, a in pairs], NEAR
    found = [np.empty(a.shape) for a in problem.args]
    for place, a in enumerate(problem.args):
        before, after = problem.args[:place], problem.args[place + 1 :]
        y = lambda a, before=before, after=after: problem.forward(*before, a, *after)[0]  # noqa: E731
        for entry, column in central_columns(y, a):
            found[place][entry] = (column * problem.dy).sum()
    return found, COARSE


def collect(problem: Problem, cache: Any) -> dict[str, np.ndarray]:
    """What a formula of the backward can be made of: dy, y, the arguments and the cache."""
    found = {"dy": problem.dy, "y": problem.y}
    found |= dict(zip(problem.names, problem.args, strict=True))

    def look(name: str, thing: Any) -> None:
        if isinstance(thing, np.ndarray | np.generic) and np.asarray(thing).dtype.kind == "f":
            if not any(np.array_equal(thing, a) for a in found.values()):
                found[name] = np.asarray(thing)
        elif isinstance(thing, dict | tuple | list):
            numbers = [f"{name}[{n}]" for n in range(len(thing))]
            names = thing if isinstance(thing, dict) else getattr(thing, "_fields", numbers)
            values = thing.values() if isinstance(thing, dict) else thing
            for key, value in zip(names, values, strict=True):
                look(str(key), value)

    look("cache", cache[1])  # beside it the problem keeps the shapes of several outputs
    return found


def draw(problem: Problem) -> Draw:
    y, cache = problem.forward(*problem.args)
    given = problem.gradients_for(problem.dy, cache)
    right, tolerance = find_gradients(problem)
    single = any(np.asarray(a).dtype == np.float32 for a in (y, *given))
    found = [np.asarray(g, float) for g in given]
    tolerance = SINGLE if single else tolerance
    return Draw(problem, cache, found, right, tolerance, collect(problem, cache), {})


# Factors and their names.


def list_lengths(drawn: Draw, place: int) -> dict[str, float]:
    """The numbers that a gradient may be wrong by, with their names."""
    problem = drawn.problem
    found = {"2": 2.0}
    for axis, size in enumerate(problem.args[0].shape):
        found[f"{size}, the length of axis {axis} of {problem.names[0]}"] = float(size)
    each = problem.y.size / max(drawn.right[place].size, 1)
    found[f"{each:g}, the number of outputs for each entry"] = each
    return found | {f"{problem.y.size}, the number of outputs": float(problem.y.size)}


def name_factor(c: float, drawn: Draw, place: int) -> str:
    """2.5 times what it should be; 0.25 as 1/4, and what 4 is."""
    for name, size in list_lengths(drawn, place).items():
        n, _, what = name.partition(", ")
        forms = {size: n, 1 / size: f"1/{n}", size**0.5: f"√{n}", size**-0.5: f"1/√{n}"}
        if size > 2:
            forms[size / (size - 1)] = f"{n}/({n} - 1), as in an unbiased variance,"
            forms[(size - 1) / size] = f"({n} - 1)/{n}"
        for value, text in forms.items():
            if value != 1 and abs(abs(c) / value - 1) < CLOSE:
                of = f"; {n} is {what}" if what else ""
                return f"{'-' if c < 0 else ''}{text} times what it should be{of}"
    if abs(c + 1) < CLOSE:
        return "of the wrong sign"
    return "missing" if abs(c) < CLOSE else f"{c:.6g} times what it should be"


def fit(found: np.ndarray, expected: np.ndarray) -> float:
    """The c of found = c · expected that fits best; 1 where it is 1 to rounding."""
    size = float(np.vdot(expected, expected))
    c = float(np.vdot(found, expected)) / size if size else 0.0
    return 1.0 if abs(c - 1) < CLOSE else c


def fit_all(draws: list[Draw], place: int, predict: Callable[[Draw], Any]) -> float | None:
    """The c for which the gradient is c times what is predicted, at all arguments; else None."""
    c = None
    for drawn in draws:
        found, expected = drawn.found[place], predict(drawn)
        if expected is None or found.shape != np.shape(expected):
            return None
        c = fit(found, expected) if c is None else c
        if not np.isfinite(c) or abs(c) < CLOSE or not drawn.same(place, found, c * expected):
            return None
    return c


# What needs no derivation.


def place_beside(a: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """`a` in a shape that broadcasts to `shape`: one value a channel goes to axis 1."""
    if a.size == np.prod(shape):
        return a.reshape(shape)
    for axis in (len(shape) - 1, 1, 0):
        if a.ndim == 1 and axis < len(shape) and shape[axis] == a.size:
            return a.reshape([-1 if n == axis else 1 for n in range(len(shape))])
    fits = a.ndim <= len(shape) and all(
        one in (1, other) for one, other in zip(a.shape[::-1], shape[::-1], strict=False)
    )
    return a if fits else None


def multiply(drawn: Draw, names: tuple[str, ...], shape: tuple[int, ...]) -> np.ndarray | None:
    if (names, shape) not in drawn.made:
        arrays = [place_beside(drawn.arrays[name], shape) for name in names]
        whole = not any(a is None for a in arrays)
        product = np.prod(np.broadcast_arrays(np.ones(shape), *arrays), axis=0) if whole else None
        drawn.made[names, shape] = product
    return drawn.made[names, shape]


def list_products(drawn: Draw) -> list[tuple[str, ...]]:
    names = [name for name in drawn.arrays if name != "dy"]
    return [p for count in range(3) for p in combinations_with_replacement(names, count)]


def list_axes(ndim: int) -> list[tuple[int, ...]]:
    return [axes for count in range(ndim + 1) for axes in combinations(range(ndim), count)]


def write_sum(names: tuple[str, ...], axes: tuple[int, ...]) -> str:
    where = f" over axis {axes[0]}" if len(axes) == 1 else f" over axes {axes}"
    return f"sum({' * '.join(names)}{where})" if axes else " * ".join(names)


def explain_shape(draws: list[Draw], place: int) -> Named | None:
    drawn, found, right = draws[0], draws[0].found[place], draws[0].right[place]
    if found.shape == right.shape:
        if not np.all(np.isfinite(found)):
            return "it is not finite", "not finite"
        return None if found.any() else ("it is zero", "zero")
    says = f"its shape is {found.shape}, and has to be {right.shape}"
    for axes in list_axes(found.ndim)[1:]:
        shorter = found.sum(axis=axes)
        if shorter.size == right.size and drawn.same(place, shorter.reshape(right.shape), right):
            return f"{says}: it is not added up over axes {axes}", "not summed"
    if drawn.same(place, found.T, right):
        return f"{says}: it is transposed", "transposed"
    same = found.size == right.size and drawn.same(place, found.reshape(right.shape), right)
    return (f"{says}; its numbers are right", "shape") if same else (says, "shape")


def explain_factor(draws: list[Draw], place: int) -> Named | None:
    c = fit_all(draws, place, lambda d: d.right[place])
    if c is None:
        return None
    if abs(c + 1) < CLOSE:
        return "it has the wrong sign", "sign"
    return f"it is {name_factor(c, draws[0], place)}", "factor"


def explain_places(draws: list[Draw], place: int) -> Named | None:
    """The right numbers at wrong places, or all but one entry right."""
    for other, name in enumerate(draws[0].problem.names):
        if other != place and fit_all(draws, place, lambda d, o=other: d.right[o]) == 1:
            return f"it is the gradient of {name}", "swapped"
    for axes in combinations(range(draws[0].right[place].ndim), 2):
        if fit_all(draws, place, lambda d, axes=axes: d.right[place].swapaxes(*axes)) == 1:
            return "it is transposed", "transposed"
    pairs = [(d, d.found[place], d.right[place]) for d in draws]
    wrong = [np.abs(f - r) > d.tolerance * d.problem.scales[place] for d, f, r in pairs]
    if all(w.sum() == 1 for w in wrong) and wrong[0].size > 2:
        at = [int(n) for n in np.argwhere(wrong[0])[0]]
        return f"one entry alone is wrong, {at}", "entry"
    if all(d.same(place, np.sort(f, axis=None), np.sort(r, axis=None)) for d, f, r in pairs):
        return "its numbers are right, but stand at other places", "places"
    return None


def explain_dy(draws: list[Draw], place: int) -> Named | None:
    """What every backward has to be: the same when called again, and linear in dy."""
    for drawn in draws:
        found, dy = drawn.found[place], drawn.problem.dy
        again, twice, back = (drawn.ask(place, c * dy, drawn.cache) for c in (1.0, 2.0, -1.0))
        if not drawn.same(place, again, found):
            return "a second call with the same dy and cache gives something else", "second call"
        if not drawn.same(place, twice, 2 * found):
            alike = drawn.same(place, back, found) and drawn.same(place, twice, found)
            depends = "dy has no part in it" if alike else "it is not linear in dy"
            return f"{depends}: twice the dy does not give twice the gradient", "not linear"
    return None


def explain_array(draws: list[Draw], place: int) -> Named | None:
    """The right gradient, times or over something at hand."""
    shape = draws[0].right[place].shape
    for name, power in product(draws[0].arrays, (1.0, -1.0, 2.0, -2.0)):

        def predict(d: Draw, name=name, power=power) -> np.ndarray | None:
            a = place_beside(d.arrays[name], shape)
            with np.errstate(all="ignore"):
                return None if a is None or a.size == 1 else d.right[place] * a**power

        c = fit_all(draws, place, predict)
        if c is not None:
            how = "is missing" if power < 0 else "stands there once too often"
            how += " (its square)" if abs(power) == 2 else ""
            more = "" if c == 1 else f", and it is {name_factor(c, draws[0], place)}"
            return f"the factor {name} {how}{more}", "factor"
    return None


def derive_along(drawn: Draw, place: int) -> np.ndarray | None:
    """The derivative of y along dy: what the Jacobian gives that is not transposed."""
    problem = drawn.problem
    if problem.args[place].shape != problem.dy.shape or problem.lacks_complex:
        return None
    args = [a.astype(complex) for a in problem.args]
    args[place] = args[place] + TINY * 1j * problem.dy
    return problem.forward(*args)[0].imag / TINY


def derive_at_y(drawn: Draw, place: int) -> np.ndarray | None:
    """The gradient as it would be if this argument were y."""
    problem = drawn.problem
    if problem.args[place].shape != problem.y.shape:
        return None
    args = (*problem.args[:place], problem.y, *problem.args[place + 1 :])
    there = Problem(problem.forward, problem.backward, args, problem.rng)
    there.dy = problem.dy
    try:
        return find_gradients(there)[0][place]
    except ValueError:  # y need not be an argument that the layer takes
        return None


def explain_elsewhere(draws: list[Draw], place: int) -> Named | None:
    if fit_all(draws, place, lambda d: derive_along(d, place)) == 1:
        return "it is the derivative of y along dy: the Jacobian is not transposed", "transposed"
    if fit_all(draws, place, lambda d: derive_at_y(d, place)) == 1:
        return f"its derivative is taken at y, not at {draws[0].problem.names[place]}", "at y"
    return None


def derive_with(drawn: Draw, place: int, name: str, value: float) -> np.ndarray | None:
    """The gradient as it would be with another value of a setting."""
    problem = drawn.problem
    try:
        there = Problem(
            partial(problem.forward, **{name: value}), problem.backward, problem.args, problem.rng
        )
        there.dy = problem.dy
        return find_gradients(there)[0][place]
    except Exception:  # the layer may not take it
        return None


def explain_setting(draws: list[Draw], place: int) -> Named | None:
    """As if a number were forgotten, or a count another one."""
    for name, value in settings(draws[0].problem.forward, draws[0].problem.names).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        for other in range(1, MANY + 1) if isinstance(value, int) else (0.0,):
            guess = lambda d, name=name, other=other: derive_with(d, place, name, other)  # noqa: E731
            if other != value and fit_all(draws, place, guess) == 1:
                return f"it is the gradient for {name} = {other:g}, not {value:g}", "setting"
    return None


def explain_cache(draws: list[Draw], place: int) -> Named | None:
    """With the cache of the samples in another order it would be right."""

    def is_mended(drawn: Draw, turn: int) -> bool:
        x, *rest = drawn.problem.args
        cache = drawn.problem.forward(np.roll(x, turn, axis=0), *rest)[1]
        return drawn.same(place, drawn.ask(place, drawn.problem.dy, cache), drawn.right[place])

    try:
        turns = range(1, min(len(draws[0].problem.args[0]), 9))
        if any(all(is_mended(drawn, turn) for drawn in draws) for turn in turns):
            return "the cache is that of other samples", "cache"
    except Exception:  # the layer may not take its samples in another order
        pass
    return None


def explain_whole(draws: list[Draw], place: int) -> Named | None:
    """One product with dy, added up over some axes, is all that it is."""
    shape, full = draws[0].found[place].shape, draws[0].problem.dy.shape
    products = list_products(draws[0])
    for axes, names, turned in product(list_axes(len(full)), products, (False, True)):
        if turned and (len(full) == 1 or not axes):
            continue

        def predict(d: Draw, axes=axes, names=names, turned=turned) -> np.ndarray | None:
            factor = multiply(d, names, full)
            if factor is None:
                return None
            summand = d.problem.dy * factor
            summand = summand.swapaxes(0, 1).reshape(full) if turned else summand
            found = summand.sum(axis=axes) if axes else summand
            return found.reshape(shape) if found.size == d.found[place].size else None

        c = fit_all(draws, place, predict)
        if c is not None:
            text = f"it is {'' if c == 1 else f'{c:.6g} * '}{write_sum(('dy', *names), axes)}"
            if turned:
                return f"{text}, its numbers read in another order", "places"
            return f"{text}, and no more", "whole"
    return None


def explain_term(draws: list[Draw], place: int) -> Named | None:
    """What it is off by is one term: a product, times a sum of products with dy; or that sum
    over some axes less that over others."""
    off = [d._replace(found=[f - r for f, r in zip(d.found, d.right, strict=True)]) for d in draws]
    full = off[0].problem.dy.shape
    if off[0].found[place].shape != full:
        return None
    products, axes = list_products(off[0]), list_axes(len(full))
    once = [(np.sum, (right,)) for right in axes]
    twice = product((np.sum, np.mean), combinations(axes[1:], 2))
    for (reduce, over), inside in product((*once, *twice), products):
        for outside in products if over[0] else [()]:

            def predict(d: Draw, reduce=reduce, over=over, inside=inside, outside=outside):
                parts = multiply(d, inside, full), multiply(d, outside, full)
                if any(part is None for part in parts):
                    return None
                summand = d.problem.dy * parts[0]
                sums = [reduce(summand, axis=s, keepdims=True) if s else summand for s in over]
                return np.broadcast_to(parts[1] * (sums[0] - sum(sums[1:])), full)

            c = fit_all(off, place, predict)
            if c is not None and len(over) == 2:
                text = write_sum(("dy", *inside), over[0])
                return f"in the term {' * '.join([*outside, text])} the axes are wrong", "axis"
            if c is not None:
                term = " * ".join([*outside, write_sum(("dy", *inside), over[0])])
                return say_term(c, term, float(np.prod([full[axis] for axis in over[0]])))
    return None


def say_term(c: float, term: str, count: float) -> Named:
    """What it means to be off by c times a sum over `count` values."""
    for share, text in ((c, term), (c * count, f"1/{count:g} * {term}")):
        if abs(abs(share) - 1) < CLOSE:
            return f"the term {text} is missing, or stands there once too often", "term"
        if abs(abs(share) - 2) < CLOSE:
            return f"the term {text} has the wrong sign", "sign of a term"
    if min(abs(abs(c) - (1 - 1 / count)), abs(abs(c) * count - (count - 1))) < CLOSE:
        return f"in the term {term} a sum and a mean are confused", "mean or sum"
    return f"it is off by {c:.6g} * {term}", "term"


# What the lines of the layer tell.


class Known(NamedTuple):
    """The lines of a layer, laid out for each of the draws."""

    lines: Lines
    layouts: list[Layout]
    draws: list[Draw]

    def predict(self, which: int, slips: tuple[Slip, ...]) -> dict[str, np.ndarray]:
        """The value of every line with these slips; none where one cannot be computed."""
        try:
            dy = self.draws[which].problem.dy
            return notation.evaluate(self.lines, self.layouts[which], dy, slips)
        except (NameError, ValueError):  # a line may use what comes later
            return {}

    def gradient(self, which: int, slips: tuple[Slip, ...], place: int) -> np.ndarray | None:
        problem = self.draws[which].problem
        g, a = self.predict(which, slips).get(self.line(place)), problem.args[place]
        return g.reshape(a.shape) if np.size(g) == a.size and np.all(np.isfinite(g)) else None

    def line(self, place: int) -> str:
        """The line of a gradient: the arguments may have other names here."""
        return f"d{self.lines.arguments[place]}"

    def gives(self, slips: tuple[Slip, ...]) -> bool:
        """Whether the forward with these slips is the one that was found."""
        for which, drawn in enumerate(self.draws):
            y, found = self.predict(which, slips).get(self.lines.output), drawn.problem.y
            scale = np.abs(found).max() or 1.0
            if np.shape(y) != found.shape or not np.abs(y - found).max() <= drawn.tolerance * scale:
                return False
        return True

    def fit(self, slips: tuple[Slip, ...], wrong: list[int]) -> dict[int, float]:
        """For each wrong gradient that the slips explain, the factor that is left."""
        found = {}
        for place in wrong:
            guess = lambda d, place=place: self.gradient(self.draws.index(d), slips, place)  # noqa: E731
            c = fit_all(self.draws, place, guess)
            if c is not None:
                found[place] = c
        return found

    def say(self, slips: tuple[Slip, ...], place: int, c: float) -> Named:
        says = "; ".join(slip.says for slip in slips)
        kinds = {slip.kind for slip in slips} | ({"factor"} if c != 1 else set())
        more = "" if c == 1 else f"; and it is {name_factor(c, self.draws[0], place)}"
        return says + more, ", ".join(sorted(kinds))


def explain_forward(known: Known) -> Named | None:
    """What is wrong with y, if anything is."""
    if known.gives(()):
        return None
    for slip in notation.list_slips(known.lines):
        if known.gives((slip,)):
            return slip.says, slip.kind
    return "it is not that of the layer", "unknown"


def explain_terms(known: Known, place: int) -> Named | None:
    """The terms of the right formula, each times a number of its own."""
    line = known.line(place)
    formula = known.lines.formulas[line]
    parts = notation.split_terms(formula)
    if len(parts) < 2:
        return None
    terms = []
    for _, alone in parts:
        slip = Slip(line, alone, "", "")
        values = (known.gradient(n, (slip,), place) for n in range(len(known.draws)))
        terms.append(np.concatenate([np.ravel(value) for value in values]))
    found = np.concatenate([np.ravel(drawn.found[place]) for drawn in known.draws])
    numbers = np.linalg.lstsq(np.array(terms).T, found, rcond=None)[0]
    scale = max(*(drawn.problem.scales[place] for drawn in known.draws), np.abs(found).max())
    far = np.abs(numbers @ terms - found).max() > known.draws[0].tolerance * scale
    if far or np.linalg.matrix_rank(terms) < len(parts):
        return None
    says = [
        f"the term {part} is {name_factor(n, known.draws[0], place)}"
        for n, (part, _) in zip(numbers, parts, strict=True)
        if abs(n - 1) > CLOSE
    ]
    return f"{'; '.join(says)}, in {line} = {formula}", "factor of a term"


def list_pairs(slips: list[Slip]) -> Iterator[tuple[Slip, ...]]:
    """Two slips at once: in two lines, or in one line of a gradient."""
    for one, other in combinations(slips, 2):
        if one.line != other.line:
            yield one, other
    for one in slips:
        if one.line[0] == "d" and len(one.line) > 1:
            for formula, says, kind in notation.changes(one.formula):
                yield (Slip(one.line, formula, f"{one.says}; and then {says}", kind),)


def explain_by_lines(known: Known, wrong: list[int]) -> dict[int, Named]:
    """Name each wrong gradient by as few slips as explain it, first those that explain most."""
    used = notation.list_used(known.lines, [known.line(place) for place in wrong])
    slips = [slip for slip in notation.list_slips(known.lines) if slip.line in used]
    tried = [((slip,), known.fit((slip,), wrong)) for slip in slips]
    own = {known.line(place) for place in wrong}
    tried.sort(key=lambda pair: sum(c != 1 for c in pair[1].values()))
    tried.sort(key=lambda pair: (-len(pair[1]), pair[0][0].line not in own))
    found: dict[int, Named] = {}
    for slip, factors in tried:
        found = {place: known.say(slip, place, c) for place, c in factors.items()} | found
    for place in [p for p in wrong if p not in found]:
        if named := explain_terms(known, place):
            found[place] = named
    left = [p for p in wrong if p not in found]
    for pair in list_pairs(slips) if left else ():
        found |= {p: known.say(pair, p, c) for p, c in known.fit(pair, left).items()}
        left = [p for p in left if p not in found]
        if not left:
            break
    return found


def vary(args: tuple, rng: np.random.Generator) -> tuple:
    """Other arguments of the same shapes and signs; integers are data, and stay."""
    return tuple(a * rng.uniform(0.7, 1.3, a.shape) if a.dtype.kind == "f" else a for a in args)


SIMPLE = explain_shape, explain_factor, explain_places
OTHERS = (
    explain_dy, explain_array, explain_elsewhere, explain_setting, explain_cache, explain_whole,
    explain_term,
)  # fmt: skip


def diagnose_pair(forward, backward, args: tuple, rng, lines: Lines | None = None) -> Diagnosis:
    """The diagnosis of a pair to which its settings are bound."""
    args = tuple(a.astype(float) if a.dtype.kind == "f" else a for a in map(np.asarray, args))
    every = [args, *(vary(args, rng) for _ in range(DRAWS - 1))]
    draws = [draw(Problem(forward, backward, given, rng)) for given in every]
    names, findings, said = draws[0].problem.names, [], {}
    wrong = [
        place
        for place in range(len(names))
        if not all(d.same(place, d.found[place], d.right[place]) for d in draws)
    ]

    def left() -> list[int]:
        return [place for place in wrong if place not in said]

    def explain(ways: tuple[Callable, ...]) -> None:
        for way, place in product(ways, wrong):
            if place not in said and (named := way(draws, place)):
                said[place] = named

    known = None
    if lines is not None:
        layouts = [lines.layout(d.problem.args, settings(d.problem.forward, names)) for d in draws]
        known = Known(lines, layouts, draws)
        if named := explain_forward(known):
            findings.append(Finding((lines.output,), *named))
            said |= {place: OF_THE_RIGHT for place, c in known.fit((), left()).items() if c == 1}
    explain(SIMPLE)
    if known and left() and not findings:
        said |= explain_by_lines(known, left())
    explain(OTHERS)
    together: dict[Named, list[str]] = {}
    for place in wrong:
        together.setdefault(said.get(place, UNKNOWN), []).append(f"d{names[place]}")
    findings += [Finding(tuple(results), *named) for named, results in together.items()]
    right = tuple(f"d{name}" for place, name in enumerate(names) if place not in wrong)
    return Diagnosis(tuple(findings), right)
