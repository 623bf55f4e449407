"""Spectral normalization."""

import math
from functools import cache

import numpy as np
import sympy as sp
import torch
from torch import Tensor
from torch.nn.utils.parametrizations import _SpectralNorm

from normlib import layers
from normlib.evidence import notation
from normlib.evidence.case import Case
from normlib.verify.derivations import Derivation, Stage, derive, i, k, m, total
from normlib.verify.numeric import Flat
from normlib.verify.planted import Edit, Plant, plant

BACKWARD = "spectral_norm_backward"
ALONG_W = "(dwbar * wbar).sum() * outer"


def derive_spectral_norm() -> Derivation:
    """A matrix of m rows and 2 columns, entry by entry (Miyato et al. 2018, equation 8)."""
    w, u, v = map(sp.IndexedBase, "wuv")
    term = u[sp.floor(i / 2)] * w[i] * v[sp.Mod(i, 2)]
    sigma = Stage(sp.Symbol("sigma", positive=True), total(term, 2 * m))

    def y(j: sp.Symbol) -> sp.Expr:
        return w[j] / sigma.symbol

    shapes = lambda n: ((n, 2), (n,), (2,))  # noqa: E731
    return derive(y, (sigma,), {"w": w[k]}, shapes, count=2 * m)


@cache
def parametrization(rows: int, columns: int) -> torch.nn.Module:
    return _SpectralNorm(torch.ones(rows, columns), n_power_iterations=1).eval()


def torch_spectral_norm(w: Tensor, *, u: np.ndarray, v: np.ndarray) -> Tensor:
    """torch's parametrization with these singular vectors, not iterated further."""
    norm = parametrization(len(u), len(v))
    norm._u, norm._v = (torch.as_tensor(a, dtype=w.dtype) for a in (u, v))
    return norm(w)


def singular_vectors(args: tuple[np.ndarray, ...], rng: np.random.Generator) -> dict:
    """Estimates of the leading pair, as a layer in training has them."""
    (w,) = args
    sizes = len(w), math.prod(w.shape[1:])
    u, v = layers.power_iteration(w, *map(rng.standard_normal, sizes), iterations=1)
    return {"u": u, "v": v}


SPECTRAL_NORM = Case(
    forward=layers.spectral_norm,
    backward=layers.spectral_norm_backward,
    reference=torch_spectral_norm,
    lines=notation.SPECTRAL,
    derivation=derive_spectral_norm,
    shapes=lambda: (((2, 3), (2,), (3,)), ((3, 1, 2), (3,), (2,))),
    flat=lambda: Flat(lambda a, *_: a.mean() + 0 * a, {"w": lambda w: w}),
    plants=(
        plant("sigma taken for a constant", BACKWARD, f"dwbar - {ALONG_W}", "dwbar"),
        plant("projection onto the weights", BACKWARD, ALONG_W, "(dwbar * wbar).sum() * wbar"),
        plant("dw without sigma", BACKWARD, f"(dwbar - {ALONG_W}) / sigma", f"dwbar - {ALONG_W}"),
        Plant(
            "sigma from squared weights, forward and backward",
            (
                Edit("spectral_norm", "(u * (as_matrix(w) @ v)).sum()", "(w * w).sum() ** 0.5"),
                Edit(BACKWARD, ALONG_W, "(dwbar * wbar).sum() * wbar"),
            ),
        ),
    ),
    errors=8,
    arguments=lambda w: (w,),
    examples=tuple((w,) for w in [(4, 5), (1, 5), (5, 1), (4, 3, 2), (4, 3, 2, 2)]),
    forms=("matrix",),
    data=singular_vectors,
)
