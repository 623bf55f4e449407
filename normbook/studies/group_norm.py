"""Measurements for the chapter on group norm and for its claims page."""

from collections.abc import Callable
from functools import partial

import numpy as np

from normbook.lab import networks, training
from normbook.lab.data import Split
from normlib.layers import group_norm, group_norm_backward


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


def trained(
    digits: Split, seed: int, size: int, groups: int = 8, rate: float = 0.02, eps: float = 1e-5
) -> tuple[float, float]:
    """Test accuracy after 600 steps on batches of this size, with batch and with group norm, from
    one start; `eps` is that of group norm."""
    start = np.random.default_rng(seed)
    net = networks.dense((64, 64, 64, 10), start)
    order = list(training.batches(len(digits.x_train), size, 600, start))
    task, asked = (digits.x_train, digits.labels_train), digits.x_test
    _, *by_batch = networks.train_batch_norm(net, *task, order, rate=rate)
    norm = partial(group_norm, groups=groups, eps=eps)
    gradient = networks.gradient(*task, (norm, group_norm_backward))
    net = training.train(net, gradient, order, rate)[1]
    right = networks.predict(*by_batch, asked) == digits.labels_test
    return float(right.mean()), networks.accuracy(net, asked, digits.labels_test, norm)
