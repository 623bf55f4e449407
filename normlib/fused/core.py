"""Prepare arrays for the kernels, share them among threads, and add up the last sums."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

try:
    from numba import get_num_threads
except ImportError as missing:
    raise ImportError(
        f"expected numba for normlib.fused, found no {missing.name}; "
        f"install it with: pip install 'normlib[fused]'"
    ) from None

from normlib.fused import kernels
from normlib.layers.guard import check_eps, check_shape

ALONE = 1 << 18  # values; for fewer, another thread costs more than it saves


class Rows(NamedTuple):
    """Sets of n values side by side, and each value has its own gamma."""

    n: int
    center: bool


class Pieces(NamedTuple):
    """Sets of pieces, and each piece has one gamma: `kernels.pieces_forward` says which."""

    pieces: int
    size: int
    stride: int
    step: int
    per_set: int
    per_piece: int


class Columns(NamedTuple):
    """Each column of a matrix is a set."""


class Cache(NamedTuple):
    """What the backward pass has to remember."""

    x: np.ndarray  # as the forward took it; a copy only where its values do not lie in order
    gamma: np.ndarray
    mean: np.ndarray  # (2, sets): rounded, and what the rounding left
    rstd: np.ndarray  # (sets,)
    layout: Rows | Pieces | Columns


def in_order(**arrays: np.ndarray) -> list[np.ndarray]:
    """The arrays in one type, contiguous and read-only: one compiled kernel takes them all."""
    for name, a in arrays.items():
        known = isinstance(a, np.ndarray)
        if not known or a.dtype.kind != "f" or a.itemsize not in (4, 8):
            raise ValueError(
                f"{name} must be a NumPy array of float32 or float64 for normlib.fused, but got "
                f"{a.dtype if known else type(a).__name__}; convert it, or take normlib's layer "
                f"of the same name, which takes any numbers"
            )
    dtype = np.result_type(*arrays.values()).newbyteorder("=")
    views = [np.ascontiguousarray(a, dtype).reshape(a.shape) for a in arrays.values()]
    for view in views:
        view.setflags(write=False)
    return views


def wide(x: np.ndarray) -> np.dtype:
    """The type of sums."""
    return np.result_type(x, np.float64)


def share(kernel: Callable, work: int, count: int, *args: Any) -> None:
    """kernel(*args, start, stop) for all of 0 to count, by threads where the work is worth it."""
    threads = min(get_num_threads(), count) if work > ALONE else 1
    if threads == 1:
        kernel(*args, 0, count)
        return
    cuts = [count * part // threads for part in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda a, b: kernel(*args, a, b), cuts[:-1], cuts[1:]))


def blocks_of(rows: int) -> int:
    """In how many blocks the sums of columns are taken: of 64 rows, or of 16 where there are few,
    so that each thread has a share."""
    return -(-rows // (64 if rows > 512 else 16))


def column_sums(kernel: Callable, x: np.ndarray, *args: np.ndarray) -> np.ndarray:
    """Two sums of each column, (2, columns), from those of blocks of rows."""
    sums = np.empty((blocks_of(len(x)), 2, x.shape[1]), wide(x))
    share(kernel, x.size, len(sums), *args, sums)
    return sums.sum(axis=0)


def column_statistics(x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """mean (2, columns) and rstd (columns,), found as `kernels.statistics` finds them."""
    shift = x[0].astype(wide(x))
    s, q = column_sums(kernels.column_powers, x, x, shift) / len(x)
    if x.itemsize > 4:
        shift = shift + s
        s, q = column_sums(kernels.column_powers, x, x, shift) / len(x)
    hi = (shift + s).astype(x.dtype)
    lo = ((shift - hi) + s).astype(x.dtype)
    return np.stack([hi, lo]), ((q - s * s + eps) ** -0.5).astype(x.dtype)


def columns_forward(layout, x, gamma, beta, eps, y):
    mean, rstd = column_statistics(x, eps)
    args = x, *mean, rstd * gamma, beta, y
    share(kernels.columns_forward, x.size, len(x), *args)
    return mean, rstd


def columns_backward(layout, dy, x, gamma, mean, rstd, dx):
    s, p = column_sums(kernels.column_products, x, dy, x, *mean)
    mean_dy, along = s / len(x), rstd * (rstd * p) / len(x)
    args = dy, x, *mean, rstd * gamma, mean_dy.astype(x.dtype), along.astype(x.dtype), dx
    share(kernels.columns_backward, x.size, len(x), *args)
    return p * rstd, s


def sets_forward(layout, x, gamma, beta, eps, y):
    rows = isinstance(layout, Rows)
    sets = x.size // (layout.n if rows else layout.pieces * layout.size)
    mean, rstd = np.empty((2, sets), x.dtype), np.empty(sets, x.dtype)
    kernel = kernels.rows_forward if rows else kernels.pieces_forward
    flat = (a.reshape(-1) for a in (x, gamma, beta))
    share(kernel, x.size, sets, *flat, tuple(layout), eps, y.reshape(-1), mean, rstd)
    return mean, rstd


def rows_backward(layout, dy, x, gamma, mean, rstd, dx):
    samples = x.size // gamma.size
    sums = np.empty((blocks_of(samples), 2, gamma.size), wide(x))
    flat = (a.reshape(-1) for a in (dy, x, gamma))
    args = *flat, tuple(layout), mean, rstd, dx.reshape(-1), sums
    share(kernels.rows_backward, x.size, len(sums), *args)
    dbeta, dgamma = sums.sum(axis=0)
    return dgamma, dbeta


def pieces_backward(layout, dy, x, gamma, mean, rstd, dx):
    sums = np.empty((2, rstd.size, layout.pieces), wide(x))
    flat = (a.reshape(-1) for a in (dy, x, gamma))
    args = *flat, tuple(layout), mean, rstd, dx.reshape(-1), sums
    share(kernels.pieces_backward, x.size, rstd.size, *args)
    if layout.per_piece:  # (sets, pieces) are (samples, channels)
        dbeta, dgamma = sums.reshape(2, -1, gamma.size).sum(axis=1)
    else:  # (channels, samples)
        dbeta, dgamma = sums.sum(axis=2)
    return dgamma, dbeta


PASSES = {
    Rows: (sets_forward, rows_backward),
    Pieces: (sets_forward, pieces_backward),
    Columns: (columns_forward, columns_backward),
}


def forward(
    kind: type[Cache], layout, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, eps: Any
) -> tuple[np.ndarray, Cache]:
    eps = check_eps(eps)
    y = np.empty(x.shape, x.dtype)  # by NumPy, which asks for huge pages, as Numba does not
    mean, rstd = PASSES[type(layout)][0](layout, x, gamma, beta, eps, y)
    return y, kind(x, gamma, mean, rstd, layout)


def backward(dy: np.ndarray, cache: Cache) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """dx, dgamma and dbeta."""
    check_shape("dy", dy, cache.x.shape, "that of the forward pass")
    dy, x, gamma = in_order(dy=dy, x=cache.x, gamma=cache.gamma)
    mean, rstd = (a.astype(x.dtype, copy=False) for a in (cache.mean, cache.rstd))
    dx = np.empty(x.shape, x.dtype)
    found = PASSES[type(cache.layout)][1](cache.layout, dy, x, gamma, mean, rstd, dx)
    return dx, *(a.astype(x.dtype).reshape(gamma.shape) for a in found)
