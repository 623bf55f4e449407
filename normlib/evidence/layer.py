"""Layer normalization."""

from functools import partial

import sympy as sp
from torch import Tensor
from torch.nn import functional

from normlib import layers
from normlib.evidence import notation
from normlib.evidence.case import Case
from normlib.evidence.core import PLANTS, affine, centred, over_features
from normlib.verify.derivations import (
    MEAN,
    STANDARDIZED,
    VARIANCE,
    Derivation,
    Shapes,
    beta,
    derive,
    gamma,
    k,
    x,
    xhat,
)


def derive_layer_norm() -> Derivation:
    """One sample of m features, each with its own gamma and beta (Ba et al. 2016, equation 3)."""

    def y(j: sp.Symbol) -> sp.Expr:
        return gamma[j] * xhat[j] + beta[j]

    variables = {"x": x[k], "gamma": gamma[k], "beta": beta[k]}
    stages = MEAN, VARIANCE, STANDARDIZED
    return derive(y, stages, variables, lambda n: ((1, n), (n,), (n,)))


def torch_layer_norm(x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float) -> Tensor:
    return functional.layer_norm(x, gamma.shape, gamma, beta, eps=eps)


def with_features(x: tuple[int, ...], features: int = 1, *, count: int) -> Shapes:
    """The shapes of x and of this many parameters that span its last `features` axes."""
    return x, *[x[len(x) - features :]] * count


arguments = partial(with_features, count=2)

LAYER_NORM = Case(
    forward=layers.layer_norm,
    backward=layers.layer_norm_backward,
    reference=torch_layer_norm,
    lines=notation.LAYER,
    derivation=derive_layer_norm,
    shapes=lambda: (arguments((2, 3)), arguments((1, 2, 2), 2)),
    flat=lambda: centred(over_features),
    plants=(*PLANTS, *affine("layer_norm_backward")),
    errors=16,
    arguments=arguments,
    examples=(
        arguments((4, 5)),
        arguments((5,)),
        arguments((1, 5)),
        arguments((2, 3, 4)),
        arguments((2, 3, 4), 2),
        arguments((2, 3, 4), 3),
        arguments((2, 3, 2, 4), 2),
        arguments((2, 1, 3, 1, 4), 3),
        arguments((3, 1, 4), 2),
        arguments((1, 2, 2, 2, 2), 4),
    ),
    forms=("matrix",),
)
