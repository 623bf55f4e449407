"""Planted errors: one list, from which a wrong twin of any shipped layer is made.

An edit changes the text of the shipped code, wherever in the layer or its core it stands;
an edit whose text does not occur does not apply to that layer. A wrapper spoils what a
correct layer returns. Witnesses that let one pass are not worth having.
"""

import inspect
import math
from collections.abc import Callable
from functools import partial, wraps
from typing import NamedTuple

import numpy as np

from normlib.verify.problem import as_tuple
from normlib.verify.run import WITNESSES
from normlib.verify.run import backward as verify_backward
from normlib.verify.verdict import VerificationError

MEAN = "dxhat - average(dxhat, axes)"
ALONG_XHAT = "xhat * average(dxhat * xhat, axes)"
VARIANCE = "average(c * c, axes)"

EDITS: dict[str, tuple[tuple[str, str], ...]] = {
    "dx without dxhat itself": ((MEAN, "-average(dxhat, axes) + 0 * dxhat"),),
    "dx without the mean term": ((MEAN, "dxhat"),),
    "dx without the variance term": ((f"d - {ALONG_XHAT}", "d"),),
    "dx without rstd": (("rstd * (d - ", "(d - "),),
    "variance term with a plus": ((f"d - {ALONG_XHAT}", f"d + {ALONG_XHAT}"),),
    "mean over the wrong axis": ((MEAN, "dxhat - average(dxhat, others(dxhat, axes))"),),
    "ddof = 1, forward and backward": (
        (VARIANCE, f"bessel(c, axes) * {VARIANCE}"),
        (ALONG_XHAT, f"bessel(xhat, axes) * {ALONG_XHAT}"),
    ),
    "eps outside the root, forward and backward": (
        (f"({VARIANCE} + eps) ** -0.5", f"({VARIANCE} ** 0.5 + eps) ** -1"),
        (ALONG_XHAT, f"average(xhat * xhat, axes) ** -0.5 * {ALONG_XHAT}"),
    ),
    "gamma forgotten in dx": (("d = gamma * dy", "d = dy"),),
    "dgamma and dbeta swapped": (("dgamma, dbeta\n", "dbeta, dgamma\n"),),
    "dgamma from a transposed sum": (
        (
            "dgamma = summed(dy * xhat,",
            "dgamma = summed((dy * xhat).swapaxes(0, 1).reshape(dy.shape),",
        ),
    ),
    "dbeta averaged, not summed": (("dbeta = summed(dy,", "dbeta = summed(dy / len(dy),"),),
    "dmean with the wrong sign": (("dmean = -summed", "dmean = summed"),),
    "dvar without its one half": (("dvar = -0.5 * ", "dvar = -"),),
    "root mean square taken for a constant": (("d - ahead(xhat, k) * xhat * along", "d"),),
    "gradient of the root on all features": (("ahead(xhat, k) * xhat", "xhat"),),
    "oblique projection transposed": (
        ("along = (d * xhat).sum(", "along = (ahead(xhat, k) * d * xhat).sum("),
        ("ahead(xhat, k) * xhat * along", "xhat * along"),
    ),
    "mean over k divided by n": (("keepdims=True) / k", "keepdims=True) / dy.shape[-1]"),),
    "k rounded down, forward and backward": (("k = math.ceil(", "k = math.floor("),),
    "last features for first, forward and backward": (
        ("first = x[..., :k]", "first = x[..., -k:]"),
        ("ahead(xhat, k)", "(1 - ahead(xhat, xhat.shape[-1] - k))"),
    ),
    "dv without the projection": (("(dw - direction * along)", "dw"),),
    "dv without g": (("dv = g * rnorm", "dv = rnorm"),),
    "dv without the norm of v": (("dv = g * rnorm", "dv = g"),),
    "dg summed over everything": (
        ("return dv, along.reshape(-1)", "return dv, along.reshape(-1) * 0 + along.sum()"),
    ),
    "norm of v with an eps": (("rnorm = squares**-0.5", "rnorm = (squares + 1e-3) ** -0.5"),),
    "dx without subtracting its mean": (("dx = dy - average(dy, axes)", "dx = dy"),),
    "mean of dy over the wrong axis": (
        ("dx = dy - average(dy, axes)", "dx = dy - average(dy, others(dy, axes))"),
    ),
    "sigma taken for a constant": (("(dwbar - (dwbar * wbar).sum() * outer)", "dwbar"),),
    "projection onto the weights": (
        ("(dwbar * wbar).sum() * outer", "(dwbar * wbar).sum() * wbar"),
    ),
    "dw without sigma": (("* outer) / sigma", "* outer)"),),
    "sigma from squared weights, forward and backward": (
        ("sigma = (u * (as_matrix(w) @ v)).sum()", "sigma = (w * w).sum() ** 0.5"),
        ("(dwbar * wbar).sum() * outer", "(dwbar * wbar).sum() * wbar"),
    ),
}


def bessel(x, axes: tuple[int, ...]) -> float:
    """n / (n - 1): from the biased variance to the unbiased one."""
    n = math.prod(x.shape[axis] for axis in axes)
    return n / (n - 1)


def others(x, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis in range(x.ndim) if axis not in axes)


def first_changed(backward: Callable, change: Callable) -> Callable:
    """The same backward, with its first gradient changed."""

    def changed(dy, cache):
        dx, *rest = as_tuple(backward(dy, cache))
        return (change(dx), *rest)

    return changed


def one_wrong_entry(dx):
    dx = dx.copy()
    dx.flat[-1] *= 1.01
    return dx


def stale(forward: Callable) -> Callable:
    """A forward that hands on the cache of other data: of the samples in another order."""

    @wraps(forward)
    def with_stale_cache(x, *rest, **keywords):
        order = [*range(1, x.shape[0]), 0]
        return forward(x, *rest, **keywords)[0], forward(x[order], *rest, **keywords)[1]

    return with_stale_cache


class Planted(NamedTuple):
    name: str
    forward: Callable
    backward: Callable
    edits: tuple[tuple[str, str], ...] = ()  # (shipped text, planted text); empty for a wrapper


def reached(*pair: Callable) -> dict[str, Callable]:
    """The functions of the pair and every function that they call, directly or not."""
    found: dict[str, Callable] = {}
    queue = list(pair)
    while queue:
        f = queue.pop()
        if f.__name__ not in found:
            found[f.__name__] = f
            names = (f.__globals__.get(name) for name in f.__code__.co_names)
            queue += [g for g in names if inspect.isfunction(g)]
    return found


def edited(
    forward: Callable, backward: Callable, edits: tuple[tuple[str, str], ...]
) -> tuple[Callable, Callable] | None:
    """The pair rebuilt from its edited source; None if one of the edits finds no place."""
    functions = reached(forward, backward)
    sources = {name: inspect.getsource(f) for name, f in functions.items()}
    for shipped, planted in edits:
        if not any(shipped in source for source in sources.values()):
            return None
        sources = {name: source.replace(shipped, planted) for name, source in sources.items()}
    namespace = {"bessel": bessel, "others": others}
    for f in functions.values():
        namespace |= {k: v for k, v in f.__globals__.items() if k not in sources}
    for source in sources.values():
        exec(source, namespace)
    return namespace[forward.__name__], namespace[backward.__name__]


def planted_errors(forward: Callable, backward: Callable) -> list[Planted]:
    """Every error of the list that applies to this layer, planted in it.

    `forward` may be a functools.partial that binds keywords; the wrong twins bind them too.
    """
    keywords = forward.keywords if isinstance(forward, partial) else {}
    shipped = forward.func if isinstance(forward, partial) else forward
    twins = []
    for name, edits in EDITS.items():
        pair = edited(shipped, backward, edits)
        if pair:
            twins.append(Planted(name, partial(pair[0], **keywords), pair[1], edits))
    return [
        *twins,
        Planted("dx with the wrong sign", forward, first_changed(backward, lambda dx: -dx)),
        Planted("dx times 2.001", forward, first_changed(backward, lambda dx: 2.001 * dx)),
        Planted("one wrong entry of dx", forward, first_changed(backward, one_wrong_entry)),
        Planted("stale cache", partial(stale(shipped), **keywords), backward),
    ]


class Falsification(NamedTuple):
    """Planted errors × witnesses: who caught what."""

    errors: list[str]
    caught: np.ndarray  # (errors, witnesses) of bool
    without_effect: list[str]  # edits that change nothing in this layer, to the last bit
    witnesses: tuple[str, ...] = WITNESSES


def has_effect(twin: Planted, forward: Callable, backward: Callable, args: tuple) -> bool:
    """Whether the twin computes anything else than the shipped pair, at these arguments."""
    results = []
    for f, b in ((forward, backward), (twin.forward, twin.backward)):
        y, cache = f(*args)
        dy = np.random.default_rng(0).standard_normal(y.shape)
        results.append((y, *as_tuple(b(dy, cache))))
    return not all(np.array_equal(one, other) for one, other in zip(*results, strict=True))


def catchers(twin: Planted, args: tuple, options: dict) -> tuple[str, ...]:
    """The witnesses that disagree with this twin."""
    try:
        verify_backward(twin.forward, twin.backward, args, **options)
    except VerificationError as raised:
        return raised.verdict.caught_by
    return ()


def falsify(forward: Callable, backward: Callable, args: tuple, **options) -> Falsification:
    """Put every planted error before every witness. Options are those of `verify.backward`."""
    twins = planted_errors(forward, backward)
    errors = [twin for twin in twins if has_effect(twin, forward, backward, args)]
    found = [catchers(twin, args, options) for twin in errors]
    caught = np.array([[witness in row for witness in WITNESSES] for row in found])
    idle = [twin.name for twin in twins if twin not in errors]
    return Falsification([twin.name for twin in errors], caught, idle)
