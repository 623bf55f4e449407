"""Spectral normalization: weights over an estimate of their spectral norm."""

from typing import NamedTuple

from normlib.layers.core import Array
from normlib.layers.guard import (
    check_array,
    check_cache,
    check_count,
    check_like,
    check_shape,
    is_no_divisor,
)

__all__ = ["power_iteration", "spectral_norm", "spectral_norm_backward"]


class SpectralNormCache(NamedTuple):
    wbar: Array  # w / sigma, (out, *rest)
    sigma: Array  # uᵀ W v, a number
    u: Array  # (out,)
    v: Array  # (rest,)


def as_matrix(w: Array) -> Array:
    return w.reshape(w.shape[0], -1)


def check_pair(w: Array, u: Array, v: Array) -> None:
    check_array("w", w, min_ndim=2, form="(out, *rest)")
    if 0 in w.shape:
        raise ValueError(
            f"w must not be empty, but its shape is {tuple(w.shape)}; check the "
            f"layer's sizes"
        )
    rows, columns = as_matrix(w).shape
    check_shape("u", u, (rows,), f"one value for each row of w {tuple(w.shape)}")
    check_shape(
        "v", v, (columns,), f"one for each column of w read as {rows}×{columns}"
    )


def unit(vector: Array) -> Array:
    squares = (vector * vector).sum()
    if is_no_divisor(squares, vector):
        raise ValueError(
            f"w must give W v and Wᵀ u a direction, but one is zero, or its "
            f"squares under- or overflow in {vector.dtype}; initialize w and v at "
            f"random, or scale w"
        )
    return vector * squares**-0.5


def power_iteration(
    w: Array, u: Array, v: Array, *, iterations: int = 1
) -> tuple[Array, Array]:
    """Better estimates of the leading singular vectors; u and v are not changed.

    u ← W v / |W v|,   v ← Wᵀ u / |Wᵀ u|,   in PyTorch's order: u first

    |W v| and |Wᵀ u| may lie between 1e-17 and 1e18 in float32, 1e-150 and 1e153 in
    float64.

    Shapes: `w` (out, *rest), read as the matrix W (out, rest); `u` (out,);
    `v` (rest,).
    Errors: ValueError for shapes that do not fit, integers, `iterations` < 1, or a
    W v or Wᵀ u that is zero, or whose squares sum to 0 or infinity in floats.
    Source: Miyato et al. (2018), algorithm 1 (which starts with v from u);
    chapter "Spectral normalization".
    """
    check_pair(w, u, v)
    iterations = check_count("iterations", iterations, "try iterations=1")
    matrix = as_matrix(w)
    for _ in range(iterations):
        u = unit(matrix @ v)
        v = unit(matrix.T @ u)
    return u, v


def check_sigma(w: Array, sigma: Array) -> None:
    if is_no_divisor(sigma, w):
        raise ValueError(
            f"w must have a sigma = uᵀ W v to divide by, but it is 0 or infinite: "
            f"{float(sigma)}; initialize w at random, and u, v by power_iteration"
        )


def spectral_norm(w: Array, u: Array, v: Array) -> tuple[Array, SpectralNormCache]:
    """Spectral normalization with given singular vectors: they get no gradient.

    wbar = w / sigma,   sigma = uᵀ W v

    Shapes: `w` and wbar (out, *rest), read as the matrix W (out, rest); `u` (out,);
    `v` (rest,).
    Errors: ValueError for shapes that do not fit, integers, or a sigma of 0 or
    infinity in floats.
    Source: Miyato et al. (2018), equations 8 and 19;
    chapter "Spectral normalization".
    """
    check_pair(w, u, v)
    sigma = (u * (as_matrix(w) @ v)).sum()
    check_sigma(w, sigma)
    wbar = w / sigma
    return wbar, SpectralNormCache(wbar, sigma, u, v)


def spectral_norm_backward(dwbar: Array, cache: SpectralNormCache) -> Array:
    """The gradient dw from `dwbar`, that with respect to the normalized weights.

    dw = (dwbar - sum(dwbar · wbar) · u vᵀ) / sigma

    Shapes: `dwbar` and dw (out, *rest).
    Errors: ValueError if `dwbar` is not shaped like wbar.
    Source: Miyato et al. (2018), equation 12, for one sample;
    chapter "Spectral normalization".
    """
    check_cache(cache, SpectralNormCache)
    wbar, sigma, u, v = cache
    check_like("dwbar", dwbar, wbar)
    outer = (u.reshape(-1, 1) * v.reshape(1, -1)).reshape(wbar.shape)
    return (dwbar - (dwbar * wbar).sum() * outer) / sigma
