"""RMSNorm: over all features or the first of them."""

from fractions import Fraction
from functools import partial

import sympy as sp
from torch import Tensor
from torch.nn import functional

from normlib import layers
from normlib.evidence import notation
from normlib.evidence.case import Case
from normlib.evidence.core import PLANTS, gain_forgotten, over_features, transposed_sum
from normlib.evidence.layer import with_features
from normlib.layers.rms import check_fraction
from normlib.verify.derivations import (
    MEAN_SQUARE,
    Derivation,
    K,
    Stage,
    derive,
    eps,
    gamma,
    i,
    k,
    m,
    ms,
    total,
    x,
    xhat,
)
from normlib.verify.numeric import Flat
from normlib.verify.planted import Edit, Plant, plant


def derive_with(mean_square: Stage) -> Derivation:
    """One sample of m features, divided by the root of this mean square."""
    normalized = Stage(xhat[i], x[i] / sp.sqrt(ms + eps))

    def y(j: sp.Symbol) -> sp.Expr:
        return gamma[j] * xhat[j]

    variables = {"x": x[k], "gamma": gamma[k]}
    return derive(y, (mean_square, normalized), variables, lambda n: ((1, n), (n,)))


def derive_rms_norm() -> Derivation:
    """One sample of m features (Zhang and Sennrich 2019, equation 4)."""
    return derive_with(MEAN_SQUARE)


def derive_partial(fraction: float | Fraction) -> Derivation:
    """One sample of m features of which the first K are measured (Zhang and Sennrich 2019).

    m and K are symbols throughout; K = ceil(m · fraction) only in what is written out.
    """
    general = derive_with(Stage(ms, total(x[i] ** 2, K) / K))
    share = check_fraction(fraction)
    count = sp.ceiling(m * sp.Rational(share.numerator, share.denominator))
    gradients = {name: gradient.subs(K, count) for name, gradient in general.gradients.items()}
    return general._replace(y=general.y.subs(K, count), gradients=gradients)


def torch_rms_norm(x: Tensor, gamma: Tensor, *, eps: float) -> Tensor:
    return functional.rms_norm(x, gamma.shape, gamma, eps=eps)


def torch_partial(x: Tensor, gamma: Tensor, *, fraction, eps: float) -> Tensor:
    """torch has no such layer: its RMSNorm's definition, cut short, is the reference."""
    share = check_fraction(fraction)
    first = -(-x.shape[-1] * share.numerator // share.denominator)
    return gamma * x * (x[..., :first].square().mean(-1, keepdim=True) + eps).rsqrt()


def along_x() -> Flat:
    return Flat(over_features, {"x": lambda x, *_: x})


arguments, FIRST = partial(with_features, count=1), "partial_rms_norm_backward"

RMS_NORM = Case(
    forward=layers.rms_norm,
    backward=layers.rms_norm_backward,
    reference=torch_rms_norm,
    lines=notation.RMS,
    derivation=derive_rms_norm,
    shapes=lambda: (arguments((2, 3)), arguments((1, 2, 2), 2)),
    flat=along_x,
    # those of a mean change nothing here, and `falsify` says so
    plants=(*PLANTS, gain_forgotten("rms_norm_backward"), transposed_sum("rms_norm_backward")),
    errors=11,
    arguments=arguments,
    examples=(
        arguments((4, 5)),
        arguments((5,)),
        arguments((4, 1)),
        arguments((2, 3, 4), 2),
        arguments((2, 3, 2, 4), 3),
        arguments((2, 1, 3, 1, 4), 2),
        arguments((1, 1, 1, 1, 3)),
    ),
    forms=("matrix",),
)

PARTIAL_RMS_NORM = Case(
    forward=layers.partial_rms_norm,
    backward=layers.partial_rms_norm_backward,
    reference=torch_partial,
    lines=notation.PARTIAL_RMS,
    derivation=derive_partial,
    shapes=lambda: (arguments((2, 4)), arguments((1, 2, 3))),
    flat=along_x,
    plants=(
        gain_forgotten(FIRST),
        transposed_sum(FIRST),
        plant(
            "root mean square taken for a constant",
            FIRST,
            "d - ahead(xhat, k) * xhat * along",
            "d",
        ),
        plant(
            "gradient of the root on all features",
            FIRST,
            "ahead(xhat, k) * xhat * along",
            "xhat * along",
        ),
        Plant(
            "oblique projection transposed",
            (
                Edit(FIRST, "(d * xhat).sum", "(ahead(xhat, k) * d * xhat).sum"),
                Edit(FIRST, "d - ahead(xhat, k) * xhat * along", "d - xhat * along"),
            ),
        ),
        plant(
            "mean over k divided by m",
            FIRST,
            "(d * xhat).sum(axis=-1, keepdims=True) / k",
            "(d * xhat).sum(axis=-1, keepdims=True) / dy.shape[-1]",
        ),
        plant(
            "k rounded down, forward and backward",
            "partial_rms_norm",
            "math.ceil(x.shape[-1] * check_fraction(fraction))",
            "math.floor(x.shape[-1] * check_fraction(fraction))",
        ),
        Plant(
            "last features for first, forward and backward",
            (
                Edit("partial_rms_norm", "first = x[..., :k]", "first = x[..., -k:]"),
                Edit(FIRST, "ahead(xhat, k)", "1 - ahead(xhat, xhat.shape[-1] - k)"),
            ),
        ),
    ),
    errors=12,
    arguments=arguments,
    examples=tuple(map(arguments, [(4, 6), (5,), (4, 1), (2, 3, 5), (2, 1, 2, 7)])),
    forms=("matrix",),
    keywords={"fraction": Fraction(2, 5)},
)
