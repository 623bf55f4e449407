"""What the labs ask: an answer is put before the witnesses, and a wrong one is told its mistake."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from normbook.show.blackboard import BOARDS
from normlib import batch_norm, batch_norm_backward, evidence, update_running, verify
from normlib.verify import lines
from normlib.verify.planted import has_effect

SHAPES = {"batch_norm": ((7, 4), (4,), (4,)), "layer_norm": ((3, 6), (6,), (6,))}
SHAPES["rms_norm"] = SHAPES["layer_norm"][:2]
NEAR = 1e-10


class LabError(AssertionError):
    """An answer that is blank, or wrong; the message says which, and what is wrong."""


def call(function: Callable, *args, **keywords) -> Any:
    """What the answer gives. Errors: LabError where it is still blank."""
    name = function.__name__
    blank = LabError(f"{name} is still blank: put your code in the place of the dots")
    try:
        found = function(*args, **keywords)
    except TypeError as error:
        if "ellipsis" not in str(error):
            raise
        raise blank from None
    parts = (
        found.values() if isinstance(found, dict) else found if type(found) is tuple else [found]
    )
    if found is None or any(part is ... for part in parts):
        raise blank
    return found


def draw(layer: str, seed: int = 0) -> list[np.ndarray]:
    """Random arguments; no two numbers of a parameter are alike."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.5, 2, shape) + n for n, shape in enumerate(SHAPES[layer])]


def check_forward(layer: str, forward: Callable) -> None:
    """Check a forward that returns y alone, against the library's. Errors: LabError."""
    case, args = getattr(evidence, layer), draw(layer)
    call(forward, *args)

    @wraps(forward)
    def whole(*args, **keywords):
        return forward(*args, **keywords), args

    def backward(dy, args):
        return case.backward(dy, case.forward(*args)[1])

    found = verify.diagnose(whole, backward, args, **case())
    wrong = [finding for finding in found.findings if finding.results == (case.lines.output,)]
    if wrong:
        raise LabError(str(wrong[0]))
    print("y is right")


def check_backward(layer: str, forward: Callable, backward: Callable) -> None:
    """Check a pair by the witnesses, and say what is wrong with it. Errors: LabError."""
    case, args = getattr(evidence, layer), draw(layer)
    y, cache = call(forward, *args)
    call(backward, np.ones_like(y), cache)
    found = verify.diagnose(forward, backward, args, **case())
    if found.findings:
        raise LabError(repr(found))
    verify.check(forward, backward, args, **case() | {"small": ()})
    print(f"{found}: {len(verify.check(forward, backward, args).ran)} witnesses agree")


def check_steps(steps: Callable) -> None:
    """Check dxhat, dbeta, dgamma, dvar, dmu and dx of batch norm, one after the other.

    Errors: LabError for the first that is wrong.
    """
    x, gamma, beta = draw("batch_norm")
    known, eps = evidence.batch_norm.lines, 1e-2
    formulas = dict(known.formulas) | {"dxhat": "gamma * dy"} | BOARDS["batch_norm"].steps
    known = known._replace(formulas=formulas)
    layout = known.layout((x, gamma, beta), {"eps": eps})
    dy = np.random.default_rng(1).standard_normal(x.shape)
    answers, right = call(steps, dy, x, gamma, eps), lines.evaluate(known, layout, dy)
    for name in ("dxhat", "dbeta", "dgamma", "dvar", "dmu", "dx"):
        found, expected = np.asarray(answers[name]), right[name]
        if is_near(found, expected):
            print(f"{name} is right")
            continue
        slips = [slip for slip in lines.list_slips(known) if slip.line == name]
        said = (
            s.says for s in slips if is_near(found, lines.evaluate(known, layout, dy, (s,))[name])
        )
        why = next(said, f"at the first entry expected {np.ravel(expected)[0]:.6g}, "
                         f"got {np.ravel(found)[0]:.6g}")  # fmt: skip
        raise LabError(f"{name}: {why}")


def is_near(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two are the same. Of what is the same for all samples one row is enough."""
    if found.ndim < expected.ndim:
        expected = expected[0]
    if np.shape(found) != np.shape(expected):
        found = np.broadcast_to(found, np.shape(expected)) if found.shape[:1] == (1,) else found
    same = np.shape(found) == np.shape(expected)
    return same and bool(
        np.max(np.abs(found - expected)) <= NEAR * max(np.max(np.abs(expected)), 1)
    )


def check_running(update: Callable) -> None:
    """Check one update of the running statistics, PyTorch's. Errors: LabError."""
    rng = np.random.default_rng(2)
    mean, var, x = rng.standard_normal(4), rng.uniform(1, 2, 4), rng.standard_normal((5, 4))
    found, right = call(update, mean, var, x, 0.1), update_running(mean, var, x, momentum=0.1)
    wrong = {
        "momentum is the weight of the old average": update_running(mean, var, x, momentum=0.9),
        "the variance is divided by m, where PyTorch stores that of m - 1": (
            right[0], 0.9 * var + 0.1 * x.var(axis=0)),
    }  # fmt: skip
    same = lambda pair: all(map(is_near, found, pair))  # noqa: E731
    if not same(right):
        raise LabError(next((says for says, pair in wrong.items() if same(pair)), "it is wrong"))
    print("running mean and variance are right")


def check_checker(is_right: Callable) -> None:
    """Check a reader's own check on batch norm: it passes the right layer, and no wrong one.

    Errors: LabError that names what it said wrongly.
    """
    args = draw("batch_norm")
    pair = batch_norm, batch_norm_backward
    if not call(is_right, *pair, args):
        raise LabError("it calls the right gradient wrong; how large is the rounding at your step?")
    twins = [t for t in evidence.batch_norm.twins().values() if has_effect(t, *pair, args)]
    seen = [bool(is_right(t.forward, t.backward, args)) for t in twins]
    passed = [t.name for t, right in zip(twins, seen, strict=True) if right]
    alone = [name for name in passed if "forward and backward" not in name]
    if alone:
        raise LabError(f"it passes {len(alone)} wrong gradients, such as: {alone[0]}")
    print(f"{len(twins) - len(passed)} of {len(twins)} errors are seen; a right gradient of a "
          f"wrong forward needs a reference: {', '.join(passed)}")  # fmt: skip


def check_training(gradient, step, start: dict, digits, order: list, rate: float) -> None:
    """Train by this gradient and this step, and beside it by torch's own. Errors: LabError."""
    theirs = {name: torch.tensor(value, requires_grad=True) for name, value in start.items()}
    ours, apart = dict(start), 0.0
    for number, rows in enumerate(order):
        x, labels = digits.x_train[rows], digits.labels_train[rows]
        loss, slopes = call(gradient, ours, x, labels)
        given = [theirs[name] for name in start]
        y = functional.batch_norm(
            torch.tensor(x) @ given[0], None, None, given[1], given[2], training=True
        )
        expected = functional.cross_entropy(y.relu() @ given[3], torch.tensor(labels))
        right = dict(zip(start, torch.autograd.grad(expected, given), strict=True))
        for name, value in right.items():
            if slopes[name] is ...:
                raise LabError(f"gradient is still blank: d{name}")
            if number == 0 and not is_near(np.asarray(slopes[name]), value.numpy()):
                raise LabError(f"the gradient of {name} is wrong in the first step")
        ours = call(step, ours, slopes, rate)
        theirs = {n: (t - rate * right[n]).detach().requires_grad_() for n, t in theirs.items()}
        apart = max(apart, abs(float(loss) / expected.item() - 1))
        if apart > 1e-9:
            raise LabError(f"the losses part at step {number}: is it the step?")
    print(f"after {len(order)} steps the losses agree to {'1e-13' if apart < 1e-13 else '1e-9'}")
