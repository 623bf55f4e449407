"""Any layer, wherever it was written: arguments are drawn, and every witness that can is asked."""

from collections.abc import Callable

import numpy as np

from normlib.verify.layouts import layouts, unchanged
from normlib.verify.problem import Problem, argument_names
from normlib.verify.run import backward as verify_backward
from normlib.verify.torch_layer import from_torch
from normlib.verify.verdict import Verdict, VerificationError


def drawn(forward: Callable, shapes, rng: np.random.Generator, dtype, positive) -> tuple:
    """Standard normal numbers; for the arguments that are named as positive, from 1/2 to 2."""
    names = argument_names(forward, len(shapes))
    if unknown := sorted(set(positive) - set(names)):
        raise ValueError(
            f"positive must name arguments among {names}, but got {unknown}; "
            f"a tuple is needed: positive=('var',)"
        )
    args = (
        rng.uniform(0.5, 2, shape) if name in positive else rng.standard_normal(shape)
        for name, shape in zip(names, shapes, strict=True)
    )
    return tuple(np.asarray(a, dtype) for a in args)


def layer(
    forward: Callable,
    backward: Callable | None = None,
    *,
    shapes: tuple[tuple[int, ...], ...],
    rng: np.random.Generator,
    small: tuple[tuple[int, ...], ...] = (),
    dtype=float,
    positive: tuple[str, ...] = (),
    **options,
) -> Verdict:
    """Put a layer that was written elsewhere before every witness that can serve it.

    `forward(*args)` returns y and a cache, `backward(dy, cache)` one gradient for each argument.
    Without `backward` the layer is one of torch: a function of tensors that returns y, a subclass
    of torch.autograd.Function, or a module, whose parameters follow x among the arguments. The
    backward is then what torch passes back through it.

    Beside the witnesses of `verify.backward` there is one more, layouts: the same numbers with
    other strides give the same results, and nothing that is given is written to.

    shapes: of the arguments, which are drawn at random; `positive` names those that have to be
    above 0, `dtype` is float64 or float32.
    small: smaller shapes, for the exact witness.
    Other options are those of `verify.backward`.
    Errors: VerificationError if any witness disagrees, with all that was found in its verdict;
    ValueError for arguments that do not match the signature.
    Source: chapter "Check your own layer".
    """
    if backward is None:
        forward, backward = from_torch(forward)
    args = drawn(forward, shapes, rng, dtype, positive)
    told = {n: tuple(options.get(n, ())) for n in ("zero", "varied")}
    problem = Problem(forward, backward, args, rng, **told)
    checks = unchanged(problem)
    if any(check.failure for check in checks):
        others = (("all others", "the layer writes to what it is given"),)
        raise VerificationError(Verdict(tuple(checks), others))
    checks += layouts(problem)
    options["shapes"] = (tuple(small),) if small else ()
    try:
        verdict = verify_backward(forward, backward, args, rng=rng, **options)
    except VerificationError as error:
        verdict = error.verdict
    verdict = Verdict((*verdict.checks, *checks), verdict.not_run)
    if verdict.red:
        raise VerificationError(verdict)
    return verdict
