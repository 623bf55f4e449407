"""The same numbers, kept in memory in another way: what a kernel that counts bytes gets wrong.

Autograd may hand a backward pass an upstream gradient with any strides, and often does: after a
transposition, a slice, or the sum that makes a loss. `torch.autograd.gradcheck` hands on
contiguous ones only.
"""

from collections.abc import Callable

import numpy as np
from numpy.lib.stride_tricks import as_strided

from normlib.verify.problem import Problem, reason
from normlib.verify.verdict import Check, compare


def columns_first(a: np.ndarray) -> np.ndarray:
    return np.array(a, order="F")


def every_second(a: np.ndarray) -> np.ndarray:
    """A view of an array that is twice as large along each axis, and holds other numbers too."""
    wide = np.full([2 * n for n in a.shape], 3.0, a.dtype)
    view = wide[(slice(None, None, 2),) * a.ndim]
    view[...] = a
    return view


def repeated(a: np.ndarray) -> np.ndarray:
    """One sample that stands for all, with a stride of 0, as the gradient of a sum has it."""
    one = a[:1].copy()
    return as_strided(one, a.shape, (0, *one.strides[1:]))


def plain(a: np.ndarray) -> np.ndarray:
    return np.array(a, order="C")


LAYOUTS: dict[str, tuple[Callable, Callable]] = {  # of the arguments, and of the upstream
    "arguments, columns first": (columns_first, plain),
    "arguments, every second value": (every_second, plain),
    "dy, columns first": (plain, columns_first),
    "dy, every second value": (plain, every_second),
    "dy, one sample repeated": (plain, repeated),
}


def results(problem: Problem, args, dy: np.ndarray) -> dict[str, np.ndarray]:
    y, cache = problem.forward(*args)
    gradients = problem.gradients_for(dy, cache)
    named = {f"d{n}": g for n, g in zip(problem.names, gradients, strict=True)}
    return {k: np.array(a) for k, a in ({"y": y} | named).items()}


def unchanged(problem: Problem) -> list[Check]:
    """Neither forward nor backward writes to what it is given: a caller may use it again."""
    given = [np.array(a) for a in (*problem.args, problem.dy)]
    before = [a.copy() for a in given]
    results(problem, given[:-1], given[-1])
    names = [*problem.names, "dy"]
    return [
        Check(
            name, "layouts", "left as it was", "ok",
            "" if np.array_equal(a, b) else "the layer writes to it",
        )
        for name, a, b in zip(names, given, before, strict=True)
    ]  # fmt: skip


def compared(problem: Problem, how: str, found: dict, expected: dict) -> list[Check]:
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


def layouts(problem: Problem) -> list[Check]:
    """y and all gradients are the same a second time, and they are those of plain arrays, however
    their input lies in memory."""
    once = results(problem, map(plain, problem.args), plain(problem.dy))
    again = results(problem, map(plain, problem.args), plain(problem.dy))
    checks = compared(problem, "the same once more", again, once)
    for how, (of_args, of_dy) in LAYOUTS.items():
        args, dy = [of_args(a) for a in problem.args], of_dy(problem.dy)
        expected = results(problem, map(plain, problem.args), plain(dy))
        try:
            found = results(problem, args, dy)
        except Exception as error:  # a kernel may refuse a layout; a caller will meet that
            checks.append(Check("y", "layouts", how, "", f"refused ({reason(error)})"))
            continue
        checks += compared(problem, how, found, expected)
    return checks
