"""One question, is this the backward pass of this layer, put to every witness that can answer."""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np

from normlib.verify import autograd, layouts, numeric, symbolic
from normlib.verify.diagnose import Diagnosis, diagnose_pair
from normlib.verify.lines import Lines
from normlib.verify.problem import Problem, reason
from normlib.verify.signature import argument_names, unwrap
from normlib.verify.small import smaller
from normlib.verify.torch_layer import from_torch
from normlib.verify.verdict import NOT_RUN, Check, Verdict, VerificationError, skip

LONGEST = 3000  # parts of an expression; those of a family of layers are proved in seconds
LARGE = 10**8  # entries of the arguments times outputs, from which on it takes seconds


def general_size(problem: Problem) -> list[Check]:
    given = problem.forward, problem.backward, problem.derivation, problem.varied
    return symbolic.general_size(*given)


def exact(problem: Problem) -> list[Check]:
    layer = problem.forward, problem.backward
    if problem.small is not None:
        return symbolic.exact(*layer, problem.small, problem.varied)
    if found := smaller(problem):
        return symbolic.exact(*layer, found, problem.varied, LONGEST)
    return [skip("exact", "no small shapes found at which the layer runs")]


ALL: dict[str, Callable[[Problem], list[Check]]] = {  # in the order in which a chapter shows them
    "forward": autograd.forward,
    "general size": general_size,
    "exact": exact,
    "complex step": numeric.complex_step,
    "central differences": numeric.central_differences,
    "autograd": autograd.backpropagation,
    "second order": autograd.second_order,
    "properties": numeric.properties,
    "layouts": layouts.check_layouts,
}
WITNESSES = tuple(name for name in ALL if name != "layouts")  # those of `backward`


def warn_of_size(problem: Problem) -> None:
    entries, outputs = sum(a.size for a in problem.args), problem.y.size
    if entries * outputs > LARGE:
        warnings.warn(
            f"{entries} entries of the arguments are moved one by one, and {outputs} outputs "
            f"computed each time, which takes a while; smaller shapes show the same errors",
            stacklevel=4,
        )


DECIDE = "complex step", "autograd"  # exact to rounding, as differences are not


def leave_out_zeros(said: list[Check]) -> list[Check]:
    """A witness that cannot tell a gradient from zero did not serve, if another one could."""
    told = {c.argument for c in said if c.witness in DECIDE and c.bound and not c.undecided}
    why = "{} is zero to what it can tell"
    return [
        skip(c.witness, why.format(c.argument)) if c.undecided and c.argument in told else c
        for c in said
    ]


def ask(problem: Problem, witnesses: tuple[str, ...]) -> Verdict:
    """What each witness says, or why it could not run."""
    if stopped := layouts.first_look(problem):
        return stopped
    warn_of_size(problem)
    said = leave_out_zeros([check for name in witnesses for check in ALL[name](problem)])
    checks = tuple(check for check in said if check.passed != NOT_RUN)
    return Verdict(checks, tuple((c.witness, c.how) for c in said if c.passed == NOT_RUN))


def draw(forward: Callable, shapes, rng: np.random.Generator, dtype, positive) -> tuple:
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


def prepare(forward, backward, args, shapes, settings, rng, dtype, positive) -> tuple:
    """The pair with its settings bound, and its arguments, drawn if they are not given."""
    if (args is None) is (shapes is None):
        raise ValueError(
            f"args or shapes must be given, but got {'none' if args is None else 'both'}; try "
            f"shapes=((8, 3), (3,)), a shape for each argument"
        )
    forward, bound = unwrap(forward)
    if backward is None:
        forward, backward = from_torch(forward)
    bound = bound | (settings or {})
    forward = partial(forward, **bound) if bound else forward
    drawn = draw(forward, shapes, rng, dtype, positive) if args is None else args
    return (forward, backward), drawn


def explain_failure(forward, backward, args, rng, lines: Lines | None) -> str:
    """What `diagnose` says, for the message of an error, which it must not replace by another."""
    try:
        found = diagnose_pair(forward, backward, args, rng, lines)
    except Exception as error:
        return f"what is wrong could not be found out ({reason(error)})"
    return f"diagnosis:\n{found}"


def diagnose(
    forward: Callable,
    backward: Callable | None = None,
    args: tuple[np.ndarray, ...] | None = None,
    *,
    shapes: tuple[tuple[int, ...], ...] | None = None,
    settings: dict | None = None,
    seed: int = 0,
    rng: np.random.Generator | None = None,
    positive: tuple[str, ...] = (),
    lines: Lines | None = None,
    **evidence,
) -> Diagnosis:
    """Say what is wrong with a backward pass, and with a forward pass whose `lines` are known.

    A mistake is named if the gradient that it would give is the one that was found, at three
    sets of arguments and to rounding. For any layer: a factor, a sign, a transposition, a sum
    that is missing, the gradient of another argument, the cache of other samples, one term. With
    `lines`, the layer in the notation of its page, every small slip in one line or in two: a term,
    a factor, mean and sum, an axis, ε, the unbiased variance. What fits none is "unknown".

    The arguments are those of `check`; `lines` and the rest of the evidence come from
    ``**evidence.batch_norm()``, and what is not needed here is accepted.
    Errors: ValueError for arguments of another kind, or that do not match the signature.
    Source: chapters "Check your own layer" and "Gradient checking".
    """
    rng = np.random.default_rng(seed) if rng is None else rng
    pair, drawn = prepare(forward, backward, args, shapes, settings, rng, float, positive)
    return diagnose_pair(*pair, drawn, rng, lines)


def check(
    forward: Callable,
    backward: Callable | None = None,
    args: tuple[np.ndarray, ...] | None = None,
    *,
    shapes: tuple[tuple[int, ...], ...] | None = None,
    settings: dict | None = None,
    reference: Callable | None = None,
    zero: tuple[str, ...] = (),
    seed: int = 0,
    rng: np.random.Generator | None = None,
    dtype=float,
    positive: tuple[str, ...] = (),
    small: tuple | Callable | None = None,
    derivation: symbolic.Derivation | Callable | None = None,
    flat: numeric.Flat | Callable | None = None,
    varied: tuple[str, ...] = (),
    reference_twice: bool = True,
    plants: tuple = (),
    lines: Lines | None = None,
    witnesses: tuple[str, ...] = tuple(ALL),
    raises: bool = True,
) -> Verdict:
    """Check that a backward pass belongs to its forward pass, by every witness that can serve.

    `forward(*args)` returns y and a cache, `backward(dy, cache)` one gradient for each argument.
    y may be a number, or a tuple of arrays: dy is then a number, or a tuple. Without `backward`
    the layer is one of torch: a function of tensors, a subclass of torch.autograd.Function, or a
    module, whose parameters follow x among the arguments.

    args: arrays of float64, or all of float32, which have bounds of their own; arrays of integers
    are data, and have no gradient. Or `shapes`, and they are drawn: `positive` names those that
    have to be above 0, `dtype` is float64 or float32.
    settings: other parameters of the forward, such as ``{"eps": 1e-3}``. functools.partial binds
    them, too. What else names them is given the values in use: the reference, and functions in
    the place of small, derivation and flat.
    reference: a right layer, taking the same arguments as tensors.
    zero: the arguments whose gradient is claimed to be identically zero.
    seed: of the arguments that are drawn, and of the upstream gradient, which is always random;
    or a generator `rng`.
    small: smaller shapes for the exact witness, one set or several. They are found, if none are
    given; with () the exact witness does not run.
    derivation: the layer derived for every size; flat: the directions in which it is constant.
    varied: the settings, such as eps, that the exact witnesses take as symbols, and that are 0
    in the flat directions. No other number of the layer is touched.
    reference_twice: False where the double backward of torch's own layer is wrong.
    plants: the errors that `falsify` plants; not used here, so that both take the same options.
    lines: the layer in the notation of its page, with which the message of an error says what
    is wrong: see `diagnose`.
    witnesses: those that are asked. raises: False to get a red verdict, too.

    A witness for which something is missing is named in the verdict as not run: a reference,
    or a forward that takes complex numbers, symbols, or torch tensors.
    Errors: VerificationError if any witness disagrees, with the argument and the worst entry,
    or if none can tell a gradient from zero and zero is not claimed;
    ValueError for arguments of another kind, or that do not match the signature.
    Source: chapters "Check your own layer" and "Gradient checking".
    """
    rng = np.random.default_rng(seed) if rng is None else rng
    pair, drawn = prepare(forward, backward, args, shapes, settings, rng, dtype, positive)
    if small and not callable(small) and all(isinstance(n, int) for n in small[0]):
        small = (small,)
    problem = Problem(
        *pair, drawn, rng, reference, zero=tuple(zero), varied=tuple(varied),
        reference_twice=reference_twice, small=small, derivation=derivation, flat=flat,
    )  # fmt: skip
    try:
        verdict = ask(problem, witnesses)
    except Exception as error:
        if args is None and not isinstance(error, ValueError):
            error.add_note(
                "The arguments were drawn as standard normal numbers. If one of them holds labels "
                "or indices, give args in place of shapes, with an array of integers."
            )
        raise
    if (verdict.red or verdict.undecided) and raises:
        error = VerificationError(verdict)
        if verdict.red:
            error.add_note(explain_failure(*pair, drawn, rng, lines))
        raise error
    return verdict


def backward(forward: Callable, backward: Callable, args, *, rng, shapes=None, small=(), **options):
    """Check a backward pass by the eight witnesses of the chapter "Gradient checking".

    The options are those of `check`; `shapes` is another name of `small`, and without it the
    exact witness does not run.
    """
    small = small if shapes is None else shapes
    options = {"rng": rng, "small": small, "witnesses": WITNESSES} | options
    return check(forward, backward, args, **options)


def layer(forward: Callable, backward: Callable | None = None, *, shapes, rng, **options):
    """Check a layer at random arguments of these shapes: `check`, with a generator."""
    return check(forward, backward, shapes=shapes, rng=rng, **options)
