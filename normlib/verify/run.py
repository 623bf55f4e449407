"""All witnesses that apply, in the order in which a chapter shows them."""

from collections.abc import Callable, Iterator

import numpy as np

from normlib.verify import autograd, numeric, symbolic
from normlib.verify.problem import Problem
from normlib.verify.verdict import Check, VerificationError, Verdict


def witnesses(
    problem: Problem,
    shapes: tuple[symbolic.Shapes, ...],
    derivation: symbolic.Derivation | None,
    flat: numeric.Flat | None,
) -> Iterator[tuple[str, str, Callable[[], list[Check]]]]:
    """Each witness: its name, what it lacks (empty if nothing), and the call that runs it."""
    pair = problem.forward, problem.backward
    lack = "" if problem.reference else "no reference given"
    yield "forward", lack, lambda: autograd.forward(problem)
    lack = "" if derivation else "no derivation given"
    yield "general size", lack, lambda: symbolic.general_size(*pair, derivation)
    lack = "" if shapes else "no small shapes given"
    yield "exact", lack, lambda: symbolic.exact(*pair, shapes)
    yield "complex step", "", lambda: numeric.complex_step(problem)
    yield "central differences", "", lambda: numeric.central_differences(problem)
    yield "autograd", "", lambda: autograd.backpropagation(problem)
    yield "second order", "", lambda: autograd.second_order(problem)
    yield "properties", "", lambda: numeric.properties(problem, flat)


def backward(
    forward: Callable,
    backward: Callable,
    args: tuple[np.ndarray, ...],
    *,
    rng: np.random.Generator,
    reference: Callable | None = None,
    shapes: tuple[symbolic.Shapes, ...] = (),
    derivation: symbolic.Derivation | None = None,
    flat: numeric.Flat | None = None,
    zero: tuple[str, ...] = (),
) -> Verdict:
    """Put a layer before every witness that applies.

    `forward(*args)` returns y and a cache, `backward(dy, cache)` one gradient an argument;
    keyword parameters are bound by the caller with functools.partial. The upstream gradient
    is drawn from `rng`, always.

    reference: torch's own layer, taking the same arguments as tensors.
    shapes: small shapes of the arguments, for the exact witness, such as
    ``(((3, 2), (2,), (2,)), ((4, 1), (1,), (1,)))``.
    derivation: the layer derived for every size; flat: the directions in which it is constant.
    zero: the arguments whose gradient is claimed to be identically zero.

    A witness for which something is missing is named in the verdict as not run.
    Errors: VerificationError if any witness disagrees, with the argument and the worst entry;
    ValueError for arguments that are not float64 arrays, or do not match the signature.
    Source: chapter "Check a gradient".
    """
    problem = Problem(forward, backward, tuple(args), rng, reference, tuple(zero))
    checks, not_run = [], []
    for name, lack, call in witnesses(problem, shapes, derivation, flat):
        if lack:
            not_run.append((name, lack))
        else:
            checks += call()
    verdict = Verdict(tuple(checks), tuple(not_run))
    if verdict.red:
        raise VerificationError(verdict)
    return verdict
