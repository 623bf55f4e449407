"""Measurements for the chapter on group norm and for its claims page."""

from collections.abc import Callable

import numpy as np

from normlib.layers import group_norm


def feature_maps(images: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """Every image through every 3×3 filter: (N, 8, 8) and (C, 3, 3) give (N, C, 6, 6)."""
    windows = np.lib.stride_tricks.sliding_window_view(images, (3, 3), axis=(1, 2))
    return np.einsum("nhwij,cij->nchw", windows, filters)


def gradient_of_entry(
    x: np.ndarray, here: tuple, forward: Callable, backward: Callable, parameters: tuple
) -> np.ndarray:
    """The gradient of one output entry: zero for every input that the entry does not depend on."""
    only = np.zeros(x.shape)
    only[here] = 1.0
    return backward(only, forward(x, *parameters)[1])[0]


def interleaved_group_norm(x, gamma, beta, *, groups: int, eps: float = 1e-5) -> tuple:
    """Groups of channels 0, G, 2G, … instead of neighbours."""
    order = np.arange(x.shape[1]).reshape(-1, groups).T.ravel()
    y, cache = group_norm(x[:, order], gamma[order], beta[order], groups=groups, eps=eps)
    return y[:, np.argsort(order)], (order, cache)


def deviations(y: np.ndarray) -> np.ndarray:
    """Of each channel, over the positions of an image, averaged over the images."""
    return y.std(axis=(2, 3)).mean(axis=0)


def quiet_deviation(channels: int, factor: float) -> float:
    """What one channel that is `factor` times louder than the others, equal among themselves and
    of mean zero, leaves of their deviation under layer norm."""
    return float(np.sqrt(channels / (factor**2 + channels - 1)))
