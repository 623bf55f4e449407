"""Derive what the layers of the family share, and plant errors in their core."""

from collections.abc import Callable

import numpy as np

from normlib.verify.numeric import Flat
from normlib.verify.planted import Edit, Plant, plant

FORWARD, BACKWARD = "standardize", "standardize_backward"
MEAN = "dxhat - average(dxhat, axes)"
VARIANCE = "average(c * c, axes)"
ALONG_XHAT = "xhat * average(dxhat * xhat, axes)"

PLANTS = (
    plant("dx without dxhat itself", BACKWARD, MEAN, "-average(dxhat, axes) + 0 * dxhat"),
    plant("dx without the mean term", BACKWARD, MEAN, "dxhat"),
    plant("dx without the variance term", BACKWARD, f"d - {ALONG_XHAT}", "d"),
    plant("dx without rstd", BACKWARD, f"rstd * (d - {ALONG_XHAT})", f"d - {ALONG_XHAT}"),
    plant("variance term with a plus", BACKWARD, f"d - {ALONG_XHAT}", f"d + {ALONG_XHAT}"),
    plant(
        "mean over the wrong axis", BACKWARD, MEAN, "dxhat - average(dxhat, others(dxhat, axes))"
    ),
    Plant(
        "ddof = 1, forward and backward",
        (
            Edit(FORWARD, VARIANCE, f"bessel(c, axes) * {VARIANCE}"),
            Edit(BACKWARD, ALONG_XHAT, f"bessel(xhat, axes) * {ALONG_XHAT}"),
        ),
    ),
    Plant(
        "eps outside the root, forward and backward",
        (
            Edit(FORWARD, f"({VARIANCE} + eps) ** -0.5", f"({VARIANCE} ** 0.5 + eps) ** -1"),
            Edit(BACKWARD, ALONG_XHAT, f"average(xhat * xhat, axes) ** -0.5 * {ALONG_XHAT}"),
        ),
    ),
)


def transposed_sum(backward: str) -> Plant:
    summand = "(dy * xhat).swapaxes(0, 1).reshape(dy.shape)"
    return plant("dgamma from a transposed sum", backward, "dy * xhat", summand)


def averaged(backward: str) -> Plant:
    return plant(
        "dbeta averaged, not summed", backward, "summed(dy, axes)", "summed(dy / len(dy), axes)"
    )


def gain_forgotten(backward: str) -> Plant:
    return plant("gamma forgotten in dx", backward, "d = gamma * dy", "d = dy")


def affine(backward: str) -> tuple[Plant, ...]:
    """The errors in what a layer does before its core: scale, shift, and their gradients."""
    return (
        gain_forgotten(backward),
        plant(
            "dgamma and dbeta swapped",
            backward,
            "return dx, dgamma, dbeta",
            "return dx, dbeta, dgamma",
        ),
        transposed_sum(backward),
        averaged(backward),
    )


def spread_mean(a: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The mean over these axes, spread out to the shape of `a` again."""
    return a.mean(axis=axes, keepdims=True) + 0 * a


def over_channels(a: np.ndarray, *_) -> np.ndarray:
    return spread_mean(a, (0, *range(2, a.ndim)))


def over_positions(a: np.ndarray, *_) -> np.ndarray:
    return spread_mean(a, tuple(range(2, a.ndim)))


def over_features(a: np.ndarray, x: np.ndarray, gamma: np.ndarray, *_) -> np.ndarray:
    """Over the last axes, as many as gamma has."""
    return spread_mean(a, tuple(range(-gamma.ndim, 0)))


def over_rows(a: np.ndarray, *_) -> np.ndarray:
    return spread_mean(a, tuple(range(1, a.ndim)))


def centred(mean: Callable) -> Flat:
    """y moves neither with the mean of x nor with the size of its deviations."""
    directions = {
        "1": lambda x, *_: np.ones_like(x),
        "x − mean": lambda x, *rest: x - mean(x, x, *rest),
    }
    return Flat(mean, directions)
