"""The witnesses that come from torch: its own layer, and its automatic differentiation."""

from collections.abc import Callable

import numpy as np
import torch

from normlib.verify.numeric import gradient_checks
from normlib.verify.pair import split
from normlib.verify.problem import (
    TINY,
    Problem,
    central_step,
    complex_kept,
    reason,
    slopes,
    spread,
)
from normlib.verify.signature import data
from normlib.verify.verdict import Check, compare, skip


def tensors(problem: Problem) -> list[torch.Tensor]:
    return [torch.tensor(a, requires_grad=True) for a in problem.double]


def forward(problem: Problem) -> list[Check]:
    """The shipped forward against torch's own layer."""
    if not problem.in_torch:
        return [skip("forward", "no reference given")]
    theirs = problem.in_torch(*map(torch.tensor, problem.double)).detach().numpy()
    scale = float(np.max(np.abs(theirs))) or 1.0
    return [
        compare(
            "y", "forward", "torch's own layer", problem.y, theirs,
            scale=scale, bound=problem.bounds.rounding, zero=False,
        )
    ]  # fmt: skip


def lacks_tensors(problem: Problem) -> str:
    """Why torch cannot differentiate our forward; empty where it can.

    Code may run on tensors and compute another function there: `x.var(axis=0)` divides by n in
    NumPy, by n - 1 in torch.
    """
    scale = float(np.max(np.abs(problem.y))) or 1.0
    try:
        y = own_forward(problem)(*tensors(problem))
        far = float(np.max(np.abs(y.detach().numpy() - problem.y))) / scale
    except Exception as error:
        return f"the forward takes no torch tensors ({reason(error)})"
    return "" if far <= problem.bounds.rounding else "on torch tensors the forward gives another y"


def own_forward(problem: Problem) -> Callable:
    """Our forward, without its cache; what is bound to it becomes tensors too."""
    bound = {n: torch.tensor(a) for n, a in data(problem.forward).items()}
    bound |= {n: t.double() for n, t in bound.items() if t.is_floating_point()}
    return lambda *args: problem.forward(*args, **bound)[0]


def attach(y: torch.Tensor, args: list[torch.Tensor]) -> torch.Tensor:
    """y, tied to the arguments by a zero: a forward that left torch is then seen as constant,
    and does not end in an error of torch's own."""
    return y + 0 * args[0].sum()


def first_order(problem: Problem, function: Callable) -> list[np.ndarray | None]:
    """A gradient for each argument; None where the function does not depend on it for autograd."""
    args = tensors(problem)
    upstream = torch.tensor(problem.dy.astype(float))
    y = attach(function(*args), args)
    gradients = torch.autograd.grad(y, args, upstream, allow_unused=True)
    return [None if g is None else g.numpy() for g in gradients]


def through_our_forward(problem: Problem) -> list[Check]:
    found = first_order(problem, own_forward(problem))
    theirs = [
        np.zeros(a.shape) if g is None else g for a, g in zip(problem.args, found, strict=True)
    ]
    return gradient_checks(problem, "autograd", "torch through our forward", theirs)


def through_reference(problem: Problem) -> list[Check]:
    """torch has no gradient for some arguments, such as the statistics at inference: the
    verdict then says so in place of a comparison."""
    how, found = "torch's own layer", first_order(problem, problem.in_torch)
    theirs = [a if g is None else g for a, g in zip(problem.gradients, found, strict=True)]
    rows = gradient_checks(problem, "autograd", how, theirs)
    silent = [Check(row.argument, "autograd", how, "no gradient there") for row in rows]
    return [s if g is None else r for s, g, r in zip(silent, found, rows, strict=True)]


def backpropagation(problem: Problem) -> list[Check]:
    """torch differentiates our forward, if it takes tensors; where there is a reference, also
    torch's own layer."""
    if problem.by_torch:
        ours = [skip("autograd", "the gradients under test are its own")]
    else:
        lacking = lacks_tensors(problem)
        ours = [skip("autograd", lacking)] if lacking else through_our_forward(problem)
    return ours + (through_reference(problem) if problem.reference else [])


def rates_along(problem: Problem, function: Callable, along, dy_along) -> list[np.ndarray]:
    """How fast the gradients change while the arguments move along `along`, dy along `dy_along`.

    The first part is a Hessian times a vector, which autograd's double backward gives.
    """
    args = tensors(problem)
    y = attach(function(*args), args)
    options = {"materialize_grads": True, "retain_graph": True}
    # it asks for a gradient too: a backward that torch may differentiate only once then says so
    upstream = torch.tensor(problem.dy.astype(float), requires_grad=True)
    gradients = torch.autograd.grad(y, args, upstream, create_graph=True, **options)
    inner = sum((g * torch.tensor(v)).sum() for g, v in zip(gradients, along, strict=True))
    if problem.by_torch and inner.requires_grad:
        inner.backward(retain_graph=True)  # raises for a function that is once differentiable
    if not inner.requires_grad:  # a linear layer: its gradients do not depend on the arguments
        inner = inner + sum(0 * a.sum() for a in args)
    hessian = torch.autograd.grad(inner, args, **options)
    linear = torch.autograd.grad(y, args, torch.tensor(dy_along), **options)
    return [(h + g).numpy() for h, g in zip(hessian, linear, strict=True)]


def without_gradient(problem: Problem) -> list[str]:
    """The arguments for which torch's own layer has none; then it cannot be asked a second time."""
    found = first_order(problem, problem.in_torch)
    return [n for n, g in zip(problem.names, found, strict=True) if g is None]


def gradients_moving(problem: Problem, along, dy_along) -> tuple[list[np.ndarray], float]:
    """How fast the shipped gradients change along a direction, and what may be asked of it: by
    complex step, where forward and backward are analytic there, else by differences."""

    def at(step) -> tuple[np.ndarray, ...]:
        kind = complex if isinstance(step, complex) else problem.args[0].dtype
        pairs = zip(problem.args, along, strict=True)
        cache = problem.forward(*(np.asarray(a + step * v, dtype=kind) for a, v in pairs))[1]
        return problem.gradients_for((problem.dy + step * dy_along).astype(kind), cache)

    def in_a_row(gradients) -> np.ndarray:
        return np.concatenate([np.ravel(g) for g in gradients])

    def quotient(step: float) -> np.ndarray:
        return (in_a_row(at(step)).astype(float) - in_a_row(here)) / step

    here, eps = at(0.0), np.finfo(problem.y.dtype).eps
    h = central_step(np.ones(1, problem.y.dtype))
    rounding = in_a_row([np.full(g.shape, eps * np.max(np.abs(g))) for g in here])
    with np.errstate(invalid="ignore"):  # inf - inf is nan, which is red
        ends = slopes(quotient, h, rounding)
    found = split(np.mean(ends, axis=0), [g.shape for g in here])
    try:
        with complex_kept():
            exact = [] if problem.lacks_complex else [g.imag / TINY for g in at(TINY * 1j)]
    except Exception:  # backward takes real numbers only
        exact = []
    scales = [max(s, np.max(np.abs(a))) for s, a in zip(problem.scales, found, strict=True)]
    rows = zip(exact, found, scales, strict=False)
    near = all(np.max(np.abs(e - s)) <= 100 * problem.bounds.central * size for e, s, size in rows)
    if exact and near:
        return exact, problem.bounds.rounding
    return found, problem.bounds.central


def second_order(problem: Problem) -> list[Check]:
    """The shipped backward differentiated once more, against autograd's double backward.

    All arguments and dy move at once along one random direction, dense in every entry.
    """
    rng = problem.rng
    along = [spread(a) * rng.standard_normal(a.shape) for a in problem.double]
    dy_along = rng.standard_normal(problem.dy.shape)
    lacking = lacks_tensors(problem)
    checks = [skip("second order", lacking)] if lacking else []
    functions = {} if lacking else {"double backward of our forward": own_forward(problem)}
    how = "double backward of torch's layer"
    if problem.reference and not problem.reference_twice:
        checks.append(skip("second order", "torch's own double backward is wrong here"))
    elif problem.reference:
        silent = without_gradient(problem)
        functions |= {} if silent else {how: problem.in_torch}
        checks += [Check(f"d{n}", "second order", how, "no gradient there") for n in silent]
    ours, bound = gradients_moving(problem, along, dy_along) if functions else ([], 0.0)
    for how, function in functions.items():
        try:
            theirs = rates_along(problem, function, along, dy_along)
        except RuntimeError as error:  # torch: it has no double backward
            checks.append(skip("second order", f"no {how} ({reason(error)})"))
            continue
        for n, a, b, s in zip(problem.names, ours, theirs, problem.scales, strict=True):
            scale, zero = max(s, float(np.max(np.abs(b)))), n in problem.zero
            got, expected = (b, a) if problem.by_torch and "our forward" in how else (a, b)
            checks.append(
                compare(
                    f"d{n}", "second order", how, got, expected,
                    scale=scale, bound=bound, zero=zero,
                )
            )  # fmt: skip
    return checks
