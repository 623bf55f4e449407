"""Small shapes, at which a layer is what it is at the shapes in use: for the exact witness."""

import math
from collections.abc import Iterator
from itertools import product

import numpy as np

from normlib.verify.derivations import Shapes
from normlib.verify.problem import Problem
from normlib.verify.signature import data
from normlib.verify.symbolic import corner

SIZES = (3, 4, 2, 6, 1)  # of an axis, the most wanted first; 4 and 6 for what comes in groups
ENTRIES = 12  # of one array, so that the algebra takes seconds


def candidates(sizes: list[int]) -> Iterator[dict[int, int]]:
    """For each size that an axis has a smaller one; what was equal stays equal."""
    ranks = [[rank for rank, size in enumerate(SIZES) if size <= n] for n in sizes]
    for chosen in sorted(product(*ranks), key=sum):
        yield {n: SIZES[rank] for n, rank in zip(sizes, chosen, strict=True)}


def serves(problem: Problem, shapes: Shapes) -> bool:
    """Whether the layer runs on the first entries of its arrays, with finite results and with
    gradients that are not much smaller than they were: a slice of one value has none."""
    held = data(problem.forward)
    arrays = [*problem.args, *held.values()]
    cut = [corner(a, shape) for a, shape in zip(arrays, shapes, strict=True)]
    args, bound = cut[: len(problem.args)], dict(zip(held, cut[len(problem.args) :], strict=True))
    try:
        y, cache = problem.forward(*args, **bound)
        gradients = problem.gradients_for(np.resize(problem.dy, y.shape), cache)
    except Exception:
        return False
    return np.all(np.isfinite(y)) and all(
        g.shape == a.shape and (n in problem.zero or np.max(np.abs(g)) > 1e-3 * np.max(np.abs(w)))
        for n, a, g, w in zip(problem.names, args, gradients, problem.gradients, strict=True)
    )


def smaller(problem: Problem) -> tuple[Shapes, ...]:
    """One set of small shapes; none, if there are none at which the layer runs."""
    arrays = [*problem.args, *data(problem.forward).values()]
    for to in candidates(sorted({n for a in arrays for n in a.shape})):
        shapes = tuple(tuple(to[n] for n in a.shape) for a in arrays)
        if max(map(math.prod, shapes)) <= ENTRIES and serves(problem, shapes):
            return (shapes,)
    return ()
