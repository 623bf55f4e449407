"""Batch normalization: in training and at inference."""

from functools import partial

import sympy as sp
import torch
from torch import Tensor
from torch.nn import functional

from normlib import layers
from normlib.evidence import notation
from normlib.evidence.case import Case
from normlib.evidence.core import PLANTS, affine, averaged, centred, over_channels, transposed_sum
from normlib.verify.derivations import (
    MEAN,
    STANDARDIZED,
    VARIANCE,
    Derivation,
    Shapes,
    Stage,
    beta,
    derive,
    eps,
    gamma,
    i,
    k,
    x,
    xhat,
)
from normlib.verify.numeric import Flat
from normlib.verify.planted import plant


def scaled(j: sp.Symbol) -> sp.Expr:
    """The output, from the standardized value."""
    return gamma[0] * xhat[j] + beta[0]


def derive_batch_norm() -> Derivation:
    """One channel: m values, one gamma, one beta (Ioffe and Szegedy 2015, Algorithm 1)."""
    variables = {"x": x[k], "gamma": gamma[0], "beta": beta[0]}
    stages = MEAN, VARIANCE, STANDARDIZED
    return derive(scaled, stages, variables, lambda n: ((n, 1), (1,), (1,)))


def derive_inference() -> Derivation:
    """One channel with given statistics: an affine map (Ioffe and Szegedy 2015, Algorithm 2)."""
    mean, variance = sp.IndexedBase("mean")[0], sp.IndexedBase("var")[0]
    standardized = Stage(xhat[i], (x[i] - mean) / sp.sqrt(variance + eps))
    variables = {"x": x[k], "mean": mean, "var": variance, "gamma": gamma[0], "beta": beta[0]}
    return derive(scaled, (standardized,), variables, lambda n: ((n, 1), *[(1,)] * 4))


def torch_batch_norm(x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float) -> Tensor:
    """torch's kernel itself: `functional.batch_norm` refuses eps = 0 in training."""
    return torch.batch_norm(x, gamma, beta, None, None, True, 0.1, eps, False)


def torch_inference(x, mean, var, gamma, beta, *, eps: float) -> Tensor:
    """torch has no gradient for given statistics, and refuses those that ask for one."""
    statistics = mean.detach(), var.detach()
    return functional.batch_norm(x, *statistics, gamma, beta, training=False, eps=eps)


def with_channels(x: tuple[int, ...], count: int) -> Shapes:
    """The shapes of x and of this many parameters with one value a channel."""
    return x, *[x[1:2]] * count


training, inference = partial(with_channels, count=2), partial(with_channels, count=4)

BATCH_NORM = Case(
    forward=layers.batch_norm,
    backward=layers.batch_norm_backward,
    reference=torch_batch_norm,
    lines=notation.BATCH,
    derivation=derive_batch_norm,
    shapes=lambda: (training((3, 2)), training((2, 1, 2))),
    flat=lambda: centred(over_channels),
    plants=(*PLANTS, *affine("batch_norm_backward")),
    errors=16,
    arguments=training,
    examples=tuple(
        map(training, [(4, 3), (9, 1), (4, 3, 5), (1, 3, 5), (2, 3, 1, 4), (2, 3, 2, 1, 2)])
    ),
    forms=("matrix", "images"),
)

INFERENCE = Case(
    forward=layers.batch_norm_inference,
    backward=layers.batch_norm_inference_backward,
    reference=torch_inference,
    lines=notation.INFERENCE,
    derivation=derive_inference,
    shapes=lambda: (inference((3, 2)), inference((2, 1, 2))),
    flat=lambda: Flat(over_channels, {}),  # no direction is flat: the map is affine
    plants=(
        plant(
            "dgamma and dbeta swapped",
            "batch_norm_inference_backward",
            "return dx, dmean, dvar, dgamma, dbeta",
            "return dx, dmean, dvar, dbeta, dgamma",
        ),
        transposed_sum("batch_norm_inference_backward"),
        averaged("batch_norm_inference_backward"),
        plant(
            "dmean with the wrong sign",
            "batch_norm_inference_backward",
            "dmean = -summed(dx, axes)",
            "dmean = summed(dx, axes)",
        ),
        plant(
            "dvar without its one half",
            "batch_norm_inference_backward",
            "-0.5 * summed(dx * xhat * rstd, axes)",
            "-summed(dx * xhat * rstd, axes)",
        ),
    ),
    errors=9,
    arguments=inference,
    examples=tuple(map(inference, [(4, 3), (1, 3), (2, 3, 4), (1, 2, 3, 2)])),
    forms=("matrix",),
)
