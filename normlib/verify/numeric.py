"""The witnesses that need nothing but numbers: complex step, central differences, properties."""

from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from normlib.verify.problem import DOUBLE, Problem, central_step
from normlib.verify.verdict import Check, compare, skip

EPSILON = float(np.finfo(float).eps)
ROUNDING, CENTRAL = DOUBLE


def gradient_checks(
    problem: Problem, witness: str, how: str, theirs, *, bound: float | None = None
) -> list[Check]:
    """Compare the shipped gradient of every argument with `theirs`; to rounding, unless another
    bound is given."""
    noises = [np.inf] * len(problem.args) if bound else problem.noises
    told = {"bound": bound or problem.bounds.rounding}
    rows = zip(problem.names, problem.gradients, theirs, problem.scales, noises, strict=True)
    return [
        compare(f"d{n}", witness, how, a, b, scale=s, zero=n in problem.zero, noise=e, **told)
        for n, a, b, s, e in rows
    ]


def complex_step(problem: Problem) -> list[Check]:
    """Check by Im f(x + ih) / h at every entry of every argument: no difference, no cancellation.

    Needs a forward that takes complex numbers, is analytic there, and real for real ones.
    """
    if problem.lacks_complex:
        return [skip("complex step", problem.lacks_complex)]
    theirs = [steps.gradient for steps in problem.steps]
    return gradient_checks(problem, "complex step", "Im f(x + ih) / h", theirs)


class Together(NamedTuple):
    """Entries that can move at once, for each output is reached by one of them at most."""

    at: np.ndarray  # their places in the flattened argument
    owner: np.ndarray  # for each of them the number of the outputs that it reaches


def together(reached: dict[bytes, list[int]], outputs: int) -> tuple[list[Together], np.ndarray]:
    """Groups of entries, and for each output the number of the entries that reach it, or 0.

    Where two entries share a part of what they reach, every entry moves alone, and owns all.
    """
    numbers = np.zeros(outputs, int)
    for number, bits in enumerate(reached, 1):
        mine = np.unpackbits(np.frombuffer(bits, np.uint8), count=outputs) == 1
        if numbers[mine].any():
            alone = [Together(place, 0) for same in reached.values() for place in same]
            return alone, np.zeros(outputs, int)
        numbers[mine] = number
    groups = []
    for each in zip_longest(*reached.values()):
        pairs = [(place, n) for n, place in enumerate(each, 1) if place is not None]
        groups.append(Together(*np.transpose(pairs)))
    return groups, numbers


def central_gradient(f: Callable, a: np.ndarray, h: float, groups: list[Together]):
    """(f(a + h) - f(a - h)) / 2h for every entry of `a`; f returns a number for each owner."""
    a, gradient = a.copy(), np.empty(a.shape)
    for at, owner in groups:
        middle = a.flat[at]
        a.flat[at] = up = middle + h
        above = f(a)
        a.flat[at] = down = middle - h
        gradient.flat[at] = (above - f(a))[owner] / (up - down)
        a.flat[at] = middle
    return gradient


LOOKS = 64  # entries that are looked at again before a wrong one ends it


def settle(problem: Problem, index: int, found: np.ndarray) -> np.ndarray:
    """Look again, entry by entry, where the central differences found another gradient.

    A kink within the step is no error of the backward, nor is a slice whose own scale is shorter
    than the step. `slopes` takes shorter ones. At a kink itself, every value between its two
    slopes is right. An entry that stays wrong makes the layer wrong, so not all of them are
    looked at.
    """
    shipped = np.asarray(problem.gradients[index])
    if shipped.shape != found.shape:
        return found
    bound = problem.bounds.central * problem.scales[index]
    off = np.nan_to_num(np.abs(shipped - found)).ravel()  # a nan is wrong without a second look
    wrong = False
    for looks, place in enumerate(np.argsort(-off)[: np.count_nonzero(off > bound)]):
        if wrong and looks >= LOOKS:
            break
        found.flat[place] = np.clip(shipped.flat[place], *problem.slopes_of(index, place))
        wrong |= abs(shipped.flat[place] - found.flat[place]) > bound
    return found


def central_differences(problem: Problem) -> list[Check]:
    """Check by the derivative that assumes nothing but the forward pass, with the error that theory
    predicts.

    The complex step has shown which outputs an entry reaches, so entries that reach different
    ones move at once (Curtis, Powell and Reid 1974). Any other output that moves counts against
    all of them.
    """
    theirs = []
    for index, (a, steps) in enumerate(zip(problem.args, problem.steps, strict=True)):
        groups, numbers = together(steps.reached, problem.y.size)
        most = len(steps.reached) + 1

        def losses(b, index=index, numbers=numbers, most=most) -> np.ndarray:
            args = (*problem.args[:index], b, *problem.args[index + 1 :])
            terms = (problem.forward(*args)[0] - problem.y) * problem.dy
            sums = np.bincount(numbers, terms.ravel().astype(float), minlength=most)
            sums[1:] += sums[0]
            return sums

        gradient = central_gradient(losses, a, central_step(a), groups)
        theirs.append(settle(problem, index, gradient))
    how = "(f(x + h) - f(x - h)) / 2h"
    bound = problem.bounds.central
    return gradient_checks(problem, "central differences", how, theirs, bound=bound)


def linearity(problem: Problem) -> list[Check]:
    """backward(a u + b v) = a backward(u) + b backward(v): a gradient is linear in dy."""
    (a, b), u = problem.rng.uniform(1, 2, 2).tolist(), problem.dy
    v = problem.rng.permuted(u)
    cache = problem.forward(*problem.args)[1]
    whole, at_u, at_v = (problem.gradients_for(w, cache) for w in (a * u + b * v, u, v))
    return [
        compare(
            f"d{n}", "properties", "linear in dy", w, a * p + b * q,
            scale=4 * s, bound=problem.bounds.rounding, zero=n in problem.zero,
        )
        for n, w, p, q, s in zip(problem.names, whole, at_u, at_v, problem.scales, strict=True)
    ]  # fmt: skip


class Flat(NamedTuple):
    """The directions in which the first argument can move, at eps = 0, and y stays as it is.

    Every slice (a channel, a sample, a row) moves on its own: `mean(a, *args)` takes an array
    shaped as the first argument to the mean of each of its slices, spread out to that shape.
    A direction is a function of the arguments.
    """

    mean: Callable
    directions: dict[str, Callable]


def flatness(problem: Problem, flat: Flat) -> list[Check]:
    """y does not change along a flat direction, and so dx has no part along it."""
    at_zero = dict.fromkeys(problem.above_zero, 0.0)
    forward = partial(problem.forward, **at_zero)
    (x, *rest), argument = problem.args, f"d{problem.names[0]}"
    bound = problem.bounds.rounding
    with np.errstate(divide="ignore", invalid="ignore"):
        y, cache = forward(x, *rest)
    if not np.all(np.isfinite(y)):
        raise ValueError(
            "x must not be constant over the axes of flat, but y is not finite at eps = 0; "
            "leave flat out, or try other data"
        )
    dx = problem.gradients_for(problem.dy, cache)[0]
    mean = lambda a: flat.mean(a, x, *rest)  # noqa: E731
    checks = []
    for label, direction in flat.directions.items():
        d = direction(x, *rest)
        reach = problem.scales[0] * np.abs(d)  # where dx is zero, its natural unit remains
        along, size = mean(d * dx), float(np.max(mean(np.abs(d * dx) + reach)))
        moved = x + mean(problem.rng.uniform(0.5, 2, x.shape)).astype(x.dtype) * d
        checks += [
            compare(
                argument, "properties", f"⟂ {label}, eps = 0", along, np.zeros_like(along),
                scale=size, bound=bound, zero=True,
            ),
            compare(
                "y", "properties", f"constant along {label}, eps = 0", forward(moved, *rest)[0], y,
                scale=float(np.max(np.abs(y))), bound=bound, zero=False,
            ),
        ]  # fmt: skip
    return checks


def properties(problem: Problem, flat: Flat | None = None) -> list[Check]:
    """Check what must hold whatever the formula is: linearity in dy, and the flat directions."""
    flat = flat or problem.flat
    last = flatness(problem, flat) if flat else [skip("properties", "no flat directions given")]
    return linearity(problem) + last
