"""All witnesses that apply, in the order in which a chapter shows them."""

from collections.abc import Callable
from functools import partial

import numpy as np

from normlib.verify import autograd, numeric, symbolic
from normlib.verify.problem import Problem
from normlib.verify.verdict import NOT_RUN, Verdict, VerificationError, skipped


def calls(problem: Problem, shapes=(), derivation=None, flat=None) -> dict[str, Callable | str]:
    """The witnesses by name, in the order in which a chapter shows them: the call that runs one,
    or what it lacks."""
    pair = problem.forward, problem.backward
    return {
        "forward": partial(autograd.forward, problem)
        if problem.reference
        else "no reference given",
        "general size": partial(symbolic.general_size, *pair, derivation, problem.varied)
        if derivation
        else "no derivation given",
        "exact": partial(symbolic.exact, *pair, shapes, problem.varied)
        if shapes
        else "no small shapes given",
        "complex step": partial(numeric.complex_step, problem),
        "central differences": partial(numeric.central_differences, problem),
        "autograd": partial(autograd.backpropagation, problem),
        "second order": partial(autograd.second_order, problem),
        "properties": partial(numeric.properties, problem, flat),
    }


WITNESSES = (
    "forward",
    "general size",
    "exact",
    "complex step",
    "central differences",
    "autograd",
    "second order",
    "properties",
)


def protected(a: np.ndarray) -> np.ndarray:
    """A copy that cannot be written to: a layer that does so is stopped."""
    if isinstance(a, np.ndarray):
        a = a.copy()
        a.setflags(write=False)
    return a


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
    reference_twice: bool = True,
    varied: tuple[str, ...] = (),
    plants: tuple = (),
) -> Verdict:
    """Put a layer before every witness that applies.

    `forward(*args)` returns y and a cache, `backward(dy, cache)` one gradient for each argument;
    keyword parameters are bound by the caller with functools.partial. All arguments are arrays of
    float64, or all of float32, which have bounds of their own. The upstream gradient is drawn
    from `rng`, always.

    reference: torch's own layer, taking the same arguments as tensors. If it names keyword
    parameters of `forward`, such as eps, it is given the values that `forward` uses.
    shapes: small shapes of the arguments, for the exact witness, such as
    ``(((3, 2), (2,), (2,)), ((4, 1), (1,), (1,)))``.
    derivation: the layer derived for every size; flat: the directions in which it is constant.
    zero: the arguments whose gradient is claimed to be identically zero.
    reference_twice: False where the double backward of torch's own layer is wrong.
    varied: the settings, such as eps, that the exact witnesses take as symbols, and that are 0
    in the flat directions. No other number of the layer is touched.
    plants: the errors that `falsify` plants; not used here, so that both take the same options.

    A witness for which something is missing is named in the verdict as not run: a reference,
    or a forward that takes complex numbers, symbols, or torch tensors.
    Errors: VerificationError if any witness disagrees, with the argument and the worst entry;
    ValueError for arguments of another kind, or that do not match the signature.
    Source: chapter "Gradient checking".
    """
    args = tuple(map(protected, args))
    told = reference, tuple(zero), reference_twice, tuple(varied)
    problem = Problem(forward, backward, args, rng, *told)
    checks, not_run = [], []
    for name, call in calls(problem, shapes, derivation, flat).items():
        said = [skipped(name, call)] if isinstance(call, str) else call()
        checks += [check for check in said if check.passed != NOT_RUN]
        not_run += [(name, check.how) for check in said if check.passed == NOT_RUN]
    if not reference_twice:
        not_run.append(("second order", "torch's own double backward is wrong here"))
    if flat is None:
        not_run.append(("properties", "no flat directions given"))
    verdict = Verdict(tuple(checks), tuple(not_run))
    if verdict.red:
        raise VerificationError(verdict)
    return verdict
