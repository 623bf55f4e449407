"""The layers as lines in the notation of their pages, for `verify.diagnose`."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from normlib.evidence.core import (
    over_channels,
    over_features,
    over_positions,
    over_rows,
    spread_mean,
)
from normlib.layers.rms import check_fraction
from normlib.verify.lines import Layout, Lines

Axes = tuple[int, ...]


def all_but(axes: Axes, x: np.ndarray) -> Axes:
    return tuple(n for n in range(x.ndim) if n not in axes)


def write(
    formulas: dict[str, str],
    names: tuple[str, ...],
    mean: Callable[..., np.ndarray],
    shared: Callable[..., Axes],
    others: Callable[..., np.ndarray] | None = None,
    more: Callable[..., dict[str, Any]] | None = None,
    **rest: str,
) -> Lines:
    """The lines of a layer whose arguments have these names.

    `mean(a, args, settings)` is that over a statistic, `shared(*args)` the axes of x that a
    parameter does not have, `more(args, settings)` what else has a name. `others` is a mean over
    the wrong axes: where none is given, over those that a parameter has.
    """

    def layout(args: tuple[np.ndarray, ...], settings: dict) -> Layout:
        x, axes = args[0], shared(*args)
        view = [1 if n in axes else size for n, size in enumerate(x.shape)]
        others_in_view = (a.reshape(view) for a in args[1:])
        values = dict(zip(names, [x, *others_in_view], strict=True))
        values |= more(args, settings) if more else {}
        values |= {name: value for name, value in settings.items() if name == "eps"}
        one = np.zeros(x.shape)
        one.flat[0] = 1
        wrong = others or (lambda a, *_: spread_mean(a, all_but(axes, a)))
        return Layout(
            values,
            mean=lambda a: mean(0 * x + a, args, settings),
            total=lambda a: (0 * x + a).sum(axis=axes, keepdims=True),
            others=lambda a: wrong(0 * x + a, args, settings),
            m=float(round(1 / mean(one, args, settings).max())),
        )

    return Lines(formulas, layout, names, **rest)


def not_channels(x: np.ndarray, *_) -> Axes:
    return (0, *range(2, x.ndim))


def leading(x: np.ndarray, gamma: np.ndarray, *_) -> Axes:
    return tuple(range(x.ndim - gamma.ndim))


def over_groups(a: np.ndarray, args: tuple, settings: dict) -> np.ndarray:
    rows = a.reshape(len(a), settings["groups"], -1)
    return spread_mean(rows, (2,)).reshape(a.shape)


def across_groups(a: np.ndarray, args: tuple, settings: dict) -> np.ndarray:
    groups = settings.get("groups", a.shape[1])
    return spread_mean(a.reshape(len(a), groups, -1), (0, 1)).reshape(a.shape)


def share_of(args: tuple, settings: dict) -> dict[str, Any]:
    """The first k features, which RMSNorm's part measures."""
    size = args[0].shape[-1]
    k = math.ceil(size * check_fraction(settings["fraction"]))
    return {"k": k, "first": (np.arange(size) < k).astype(float)}


def outer(args: tuple, settings: dict) -> dict[str, Any]:
    return {"uv": np.outer(settings["u"], settings["v"]).reshape(args[0].shape)}


def over_last(formulas: dict, names: tuple[str, ...], more: Callable | None = None) -> Lines:
    """Statistics over the axes that gamma has."""
    mean = lambda a, args, _: over_features(a, *args)  # noqa: E731
    across = lambda a, args, _: spread_mean(a, leading(*args))  # noqa: E731
    return write(formulas, names, mean, leading, across, more)


def of_channels(formulas: dict, names: tuple[str, ...]) -> Lines:
    return write(formulas, names, lambda a, *_: over_channels(a), not_channels)


AFFINE = ("x", "gamma", "beta")
STANDARDIZED = {
    "mu": "mean(x)",
    "var": "mean((x - mu) ** 2)",
    "r": "1 / sqrt(var + eps)",
    "xhat": "(x - mu) * r",
    "y": "gamma * xhat + beta",
    "d": "gamma * dy",
    "dx": "r * (d - mean(d) - xhat * mean(d * xhat))",
    "dgamma": "total(dy * xhat)",
    "dbeta": "total(dy)",
}
BATCH = of_channels(STANDARDIZED, AFFINE)
GROUP = write(STANDARDIZED, AFFINE, over_groups, not_channels, across_groups)
INSTANCE = write(STANDARDIZED, AFFINE, lambda a, *_: over_positions(a), not_channels, across_groups)
LAYER = over_last(STANDARDIZED, AFFINE)
RMS_LINES = {
    "q": "mean(x ** 2)",
    "r": "1 / sqrt(q + eps)",
    "xhat": "x * r",
    "y": "gamma * xhat",
    "d": "gamma * dy",
    "dx": "r * (d - xhat * mean(d * xhat))",
    "dgamma": "total(dy * xhat)",
}
PART = {"q": "sum(first * x ** 2) / k", "dx": "r * (d - first * xhat * sum(d * xhat) / k)"}
RMS = over_last(RMS_LINES, AFFINE[:2])
PARTIAL_RMS = over_last(RMS_LINES | PART, AFFINE[:2], share_of)
INFERENCE = of_channels(
    {
        "r": "1 / sqrt(var + eps)",
        "xhat": "(x - mu) * r",
        "y": "gamma * xhat + beta",
        "d": "gamma * dy",
        "dx": "r * d",
        "dmu": "-total(dx)",
        "dvar": "-total(dx * xhat * r) / 2",
        "dgamma": "total(dy * xhat)",
        "dbeta": "total(dy)",
    },
    ("x", "mu", "var", "gamma", "beta"),
)
MEAN_ONLY = of_channels(
    {"mu": "mean(x)", "y": "x - mu + beta", "dx": "dy - mean(dy)", "dbeta": "total(dy)"},
    ("x", "beta"),
)
WEIGHT = write(
    {
        "r": "1 / sqrt(sum(v ** 2))",
        "n": "v * r",
        "w": "g * n",
        "dg": "total(dw * n)",
        "dv": "g * r * (dw - n * dg)",
    },
    ("v", "g"),
    lambda a, *_: over_rows(a),
    lambda v, *_: tuple(range(1, v.ndim)),
    upstream="dw",
    output="w",
)
SPECTRAL = write(
    {
        "sigma": "sum(w * uv)",
        "wbar": "w / sigma",
        "dw": "(dwbar - uv * sum(dwbar * wbar)) / sigma",
    },
    ("w",),
    lambda a, *_: a.mean() + 0 * a,
    lambda w: tuple(range(w.ndim)),
    more=outer,
    upstream="dwbar",
    output="wbar",
)
