"""The witnesses that come from torch: its own layer, and its automatic differentiation."""

from collections.abc import Callable

import numpy as np
import torch

from normlib.verify.numeric import ROUNDING, gradient_checks
from normlib.verify.problem import TINY, Problem, data, spread
from normlib.verify.verdict import Check, compare


def tensors(problem: Problem) -> list[torch.Tensor]:
    return [torch.tensor(a, requires_grad=True) for a in problem.args]


def forward(problem: Problem) -> list[Check]:
    """The shipped forward against torch's own layer."""
    theirs = problem.in_torch(*map(torch.tensor, problem.args)).numpy()
    scale = float(np.max(np.abs(theirs))) or 1.0
    return [
        compare(
            "y", "forward", "torch's own layer", problem.y, theirs,
            scale=scale, bound=ROUNDING, zero=False,
        )
    ]  # fmt: skip


def own_forward(problem: Problem) -> Callable:
    """Our forward, without its cache; what is bound to it becomes tensors too."""
    bound = {name: torch.tensor(a) for name, a in data(problem.forward).items()}
    return lambda *args: problem.forward(*args, **bound)[0]


def attached(y: torch.Tensor, args: list[torch.Tensor]) -> torch.Tensor:
    """y, tied to the arguments by a zero: a forward that left torch is then seen as constant,
    and does not end in an error of torch's own."""
    return y + 0 * args[0].sum()


def first_order(problem: Problem, function: Callable) -> list[np.ndarray | None]:
    """A gradient for each argument; None where the function does not depend on it for autograd."""
    args = tensors(problem)
    upstream = torch.tensor(problem.dy)
    y = attached(function(*args), args)
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
    """torch differentiates our forward; where there is a reference, also torch's own layer."""
    reference = through_reference(problem) if problem.reference else []
    return through_our_forward(problem) + reference


def moving(problem: Problem, function: Callable, along, dy_along) -> list[np.ndarray]:
    """How fast the gradients change while the arguments move along `along`, dy along `dy_along`.

    The first part is a Hessian times a vector, which autograd's double backward gives.
    """
    args = tensors(problem)
    y = attached(function(*args), args)
    options = {"materialize_grads": True, "retain_graph": True}
    upstream = torch.tensor(problem.dy)
    gradients = torch.autograd.grad(y, args, upstream, create_graph=True, **options)
    inner = sum((g * torch.tensor(v)).sum() for g, v in zip(gradients, along, strict=True))
    if not inner.requires_grad:  # a linear layer: its gradients do not depend on the arguments
        inner = inner + sum(0 * a.sum() for a in args)
    hessian = torch.autograd.grad(inner, args, **options)
    linear = torch.autograd.grad(y, args, torch.tensor(dy_along), **options)
    return [(h + g).numpy() for h, g in zip(hessian, linear, strict=True)]


def without_gradient(problem: Problem) -> list[str]:
    """The arguments for which torch's own layer has none; then it cannot be asked a second time."""
    found = first_order(problem, problem.in_torch)
    return [n for n, g in zip(problem.names, found, strict=True) if g is None]


def second_order(problem: Problem) -> list[Check]:
    """The shipped backward differentiated by complex step, against autograd's double backward.

    All arguments and dy move at once along one random direction, dense in every entry.
    """
    rng = problem.rng
    along = [spread(a) * rng.standard_normal(a.shape) for a in problem.args]
    dy_along = rng.standard_normal(problem.dy.shape)
    moved = [a + TINY * 1j * v for a, v in zip(problem.args, along, strict=True)]
    cache = problem.forward(*moved)[1]
    ours = [g.imag / TINY for g in problem.gradients_for(problem.dy + TINY * 1j * dy_along, cache)]
    functions = {"double backward of our forward": own_forward(problem)}
    how, lacking = "double backward of torch's layer", []
    if problem.reference and problem.reference_twice:
        lacking = without_gradient(problem)
        functions |= {} if lacking else {how: problem.in_torch}
    checks = [Check(f"d{n}", "second order", how, "no gradient there") for n in lacking]
    for how, function in functions.items():
        theirs = moving(problem, function, along, dy_along)
        for n, a, b, s in zip(problem.names, ours, theirs, problem.scales, strict=True):
            scale, zero = max(s, float(np.max(np.abs(b)))), n in problem.zero
            checks.append(
                compare(f"d{n}", "second order", how, a, b, scale=scale, bound=ROUNDING, zero=zero)
            )
    return checks
