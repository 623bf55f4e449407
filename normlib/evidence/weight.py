"""Weight normalization, and the mean-only batch normalization that goes with it."""

from functools import partial

import numpy as np
import sympy as sp
import torch
from torch import Tensor

from normlib import layers
from normlib.evidence import notation
from normlib.evidence.batch import with_channels
from normlib.evidence.case import Case
from normlib.evidence.core import averaged, over_channels, over_rows
from normlib.verify.derivations import (
    MEAN,
    Derivation,
    Shapes,
    Stage,
    beta,
    derive,
    i,
    k,
    mu,
    total,
    x,
)
from normlib.verify.numeric import Flat
from normlib.verify.planted import plant


def derive_weight_norm() -> Derivation:
    """One row of m weights (Salimans and Kingma 2016, equation 2)."""
    v, g = sp.IndexedBase("v"), sp.IndexedBase("g")[0]
    squares = Stage(sp.Symbol("s", positive=True), total(v[i] ** 2))

    def y(j: sp.Symbol) -> sp.Expr:
        return g * v[j] / sp.sqrt(squares.symbol)

    return derive(y, (squares,), {"v": v[k], "g": g}, lambda n: ((1, n), (1,)))


def derive_mean_only() -> Derivation:
    """One channel of m values (Salimans and Kingma 2016, section 4)."""

    def y(j: sp.Symbol) -> sp.Expr:
        return x[j] - mu + beta[0]

    return derive(y, (MEAN,), {"x": x[k], "beta": beta[0]}, lambda n: ((n, 1), (1,)))


def torch_weight_norm(v: Tensor, g: Tensor) -> Tensor:
    return torch._weight_norm(v, g.reshape(-1, *[1] * (v.ndim - 1)), 0)


def torch_mean_only(x: Tensor, beta: Tensor) -> Tensor:
    """torch has no such layer: batch norm's mean alone is the reference."""
    mean = x.mean((0, *range(2, x.ndim)), keepdim=True)
    return x - mean + beta.reshape(1, -1, *[1] * (x.ndim - 2))


def rows(v: tuple[int, ...]) -> Shapes:
    return v, v[:1]


channels, CENTRED = partial(with_channels, count=1), "mean_only_batch_norm_backward"

WEIGHT_NORM = Case(
    forward=layers.weight_norm,
    backward=layers.weight_norm_backward,
    reference=torch_weight_norm,
    lines=notation.WEIGHT,
    reference_twice=False,  # PyTorch 2.13's double backward of weight norm is wrong
    derivation=derive_weight_norm,
    shapes=lambda: (rows((2, 3)), rows((1, 2, 2))),
    flat=lambda: Flat(over_rows, {"v": lambda v, *_: v}),
    plants=(
        plant("dv without the projection", "weight_norm_backward", "dw - direction * along", "dw"),
        plant(
            "dv without g",
            "weight_norm_backward",
            "g * rnorm * (dw - direction * along)",
            "rnorm * (dw - direction * along)",
        ),
        plant(
            "dv without the norm of v",
            "weight_norm_backward",
            "g * rnorm * (dw - direction * along)",
            "g * (dw - direction * along)",
        ),
        plant(
            "dg summed over everything",
            "weight_norm_backward",
            "along.reshape(-1)",
            "along.reshape(-1) * 0 + along.sum()",
        ),
        plant("norm of v with an eps", "weight_norm", "squares**-0.5", "(squares + 1e-3) ** -0.5"),
    ),
    errors=9,
    arguments=rows,
    examples=tuple(map(rows, [(4, 5), (1, 5), (4, 1), (4, 3, 2), (4, 3, 2, 2, 1)])),
    forms=("matrix",),
)

MEAN_ONLY_BATCH_NORM = Case(
    forward=layers.mean_only_batch_norm,
    backward=layers.mean_only_batch_norm_backward,
    reference=torch_mean_only,
    lines=notation.MEAN_ONLY,
    derivation=derive_mean_only,
    shapes=lambda: (channels((3, 2)), channels((2, 1, 2))),
    flat=lambda: Flat(over_channels, {"1": lambda x, *_: np.ones_like(x)}),
    plants=(
        averaged(CENTRED),
        plant("dx without subtracting its mean", CENTRED, "dy - average(dy, axes)", "dy"),
        plant(
            "mean of dy over the wrong axis",
            CENTRED,
            "dy - average(dy, axes)",
            "dy - average(dy, others(dy, axes))",
        ),
    ),
    errors=6,
    arguments=channels,
    examples=tuple(map(channels, [(4, 3), (1, 3), (4, 3, 2), (2, 3, 2, 1, 2)])),
    forms=("matrix",),
)
