"""The same numbers, kept in memory in another way: what a kernel that counts bytes gets wrong.

Autograd may hand a backward pass an upstream gradient with any strides, and often does: after a
transposition, a slice, or the sum that makes a loss. `torch.autograd.gradcheck` hands on
contiguous ones only.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.lib.stride_tricks import as_strided

from normlib.verify.problem import Problem, reason
from normlib.verify.verdict import Check, Verdict, compare


def columns_first(a: np.ndarray) -> np.ndarray:
    return np.array(a, order="F")


def every_second(a: np.ndarray) -> np.ndarray:
    """A view of an array that is twice as large along each axis, and holds other numbers too."""
    wide = np.full([2 * n for n in a.shape], 3.0, a.dtype)
    view = wide[(..., *(slice(None, None, 2),) * a.ndim)]
    view[...] = a
    return view


def repeat_sample(a: np.ndarray) -> np.ndarray:
    """One sample that stands for all, with a stride of 0, as the gradient of a sum has it."""
    one = a[:1].copy()
    return as_strided(one, a.shape, (0, *one.strides[1:]))


def plain(a: np.ndarray) -> np.ndarray:
    return np.array(a, order="C")


ARGUMENTS = {"columns first": columns_first, "every second value": every_second}
UPSTREAM = ARGUMENTS | {"one sample repeated": repeat_sample}


def laid_out(whole: list, ways: list[dict[str, Callable]]) -> Iterable[tuple[int, str, list]]:
    """Each array in its other layouts, and it alone: a kernel may look at the strides of one array
    and believe them of all."""
    for place, layouts in enumerate(ways):
        for how, layout in layouts.items():
            yield place, how, [*whole[:place], layout(whole[place]), *whole[place + 1 :]]


def worst(checks: Iterable[tuple[str, Check]]) -> list[Check]:
    """One check for each result and layout: a failure, under the name of the array whose strides
    bring it about, or what is furthest off; the first of each pair says what it passes as."""
    found: dict[tuple[str, str], Check] = {}
    for how, check in checks:
        check = check if check.failure else check._replace(how=how)
        held = found.setdefault((check.argument, how), check)
        if (bool(check.failure), check.error) > (bool(held.failure), held.error):
            found[check.argument, how] = check
    return [*found.values()]


def results(problem: Problem, args, dy: np.ndarray) -> dict[str, np.ndarray]:
    y, cache = problem.forward(*args)
    gradients = problem.gradients_for(dy, cache)
    named = {f"d{n}": g for n, g in zip(problem.names, gradients, strict=True)}
    return {k: np.array(a) for k, a in ({"y": y} | named).items()}


def left_alone(problem: Problem) -> list[Check]:
    """Neither forward nor backward writes to what it is given: a caller may use it again."""
    names, given = [*problem.names], [np.array(a) for a in problem.args]
    before = [a.copy() for a in given]
    writes = {}

    def look(who: str) -> None:
        now = zip(names, given, before, strict=True)
        writes.update({n: who for n, a, b in now if n not in writes and not np.array_equal(a, b)})

    try:
        with np.errstate(divide="ignore", invalid="ignore"):  # a nan is told by `problem.y`
            _, cache = problem.forward(*given)
    except Exception:  # torch stops a layer that writes to a leaf
        look("forward")
        if not writes:
            raise
    look("forward")
    if not writes:
        names, given, before = [*names, "dy"], [*given, np.array(problem.dy)], [*before, problem.dy]
        problem.gradients_for(given[-1], cache)
        look("backward")
    failures = {n: f"{writes[n]} writes to it" if n in writes else "" for n in names}
    return [Check(n, "layouts", "left as it was", "ok", why) for n, why in failures.items()]


def first_look(problem: Problem) -> Verdict | None:
    """The verdict, if the layer does what makes every other question senseless: it writes to
    what it is given, or says something else each time."""
    checks = left_alone(problem)
    if any(check.failure for check in checks):
        return Verdict(tuple(checks), (("all others", "the layer writes to what it is given"),))
    again, size = problem.forward(*problem.args)[0], np.max(np.abs(problem.y))
    if np.max(np.abs(again - problem.y)) > problem.bounds.rounding * size:
        why = "the layer gives different outputs for the same input"
        mend = "fix its seed, or give it its random numbers"
        check = Check("y", "layouts", "the same once more", "", f"{why}; {mend}")
        return Verdict((check,), (("all others", why),))
    return None


def compare_results(problem: Problem, how: str, found: dict, expected: dict) -> list[Check]:
    """Two results that have to be the same; a gradient that is zero in both is."""
    scales = dict(zip((f"d{n}" for n in problem.names), problem.scales, strict=True))
    scales["y"] = float(np.max(np.abs(problem.y))) or 1.0
    bound, checks = problem.bounds.rounding, []
    for name, theirs in expected.items():
        largest = float(np.max(np.abs(theirs)))
        size = max(scales[name], largest)
        told = {"scale": size, "bound": bound, "zero": largest <= bound * size}
        checks.append(compare(name, "layouts", how, found[name], theirs, **told))
    return checks


def check_layouts(problem: Problem) -> list[Check]:
    """What is given is left alone; y and all gradients are the same a second time, and they are
    those of plain arrays, however their input lies in memory."""
    once = results(problem, map(plain, problem.args), plain(problem.dy))
    again = results(problem, map(plain, problem.args), plain(problem.dy))
    checks = left_alone(problem) + compare_results(problem, "the same once more", again, once)
    names, whole = [*problem.names, "dy"], [plain(a) for a in (*problem.args, problem.dy)]
    asked = []
    for place, layout, (*args, dy) in laid_out(whole, [ARGUMENTS] * len(problem.args) + [UPSTREAM]):
        how, kind = f"{names[place]}, {layout}", "arguments" if place < len(names) - 1 else "dy"
        expected = results(problem, map(plain, problem.args), plain(dy))
        try:
            found = results(problem, args, dy)
        except Exception as error:  # a kernel may refuse a layout; a caller will meet that
            said = [Check("y", "layouts", how, "", f"refused ({reason(error)})")]
        else:
            said = compare_results(problem, how, found, expected)
        asked += [(f"{kind}, {layout}", check) for check in said]
    return checks + worst(asked)
