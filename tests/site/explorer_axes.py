"""What the explorer of the axes has to compute."""

from functools import partial

import exploring
import numpy as np

from normlib import batch_norm, group_norm, instance_norm, layer_norm, rms_norm

FUNCTION = "normalized"


def standardized(cache, shape):
    """xhat and, for every entry, its rstd."""
    xhat, rstd, *_ = cache.standardized
    return xhat.reshape(shape), np.broadcast_to(rstd, xhat.shape).reshape(shape)


def by_channel(layer, x, eps):
    """A layer that has its parameters for every channel."""
    count = x.shape[1]
    return standardized(layer(x, np.ones(count), np.zeros(count), eps=eps)[1], x.shape)


def of_last(layer, axes, x, eps):
    """Layer norm or RMSNorm, when these axes stand last."""
    last = range(-len(axes), 0)
    x = np.moveaxis(x, axes, last)
    parameters = np.ones((2, *x.shape[-len(axes) :]))[: 1 if layer is rms_norm else 2]
    found = standardized(layer(x, *parameters, eps=eps)[1], x.shape)
    return [np.moveaxis(array, last, axes) for array in found]


LAYERS = [
    ({"over": "NHW"}, partial(by_channel, batch_norm)),
    ({"over": "CHW"}, partial(of_last, layer_norm, (1, 2, 3))),
    ({"over": "C"}, partial(of_last, layer_norm, (1,))),
    ({"over": "W"}, partial(of_last, layer_norm, (3,))),
    ({"over": "CHW", "groups": 2}, partial(by_channel, partial(group_norm, groups=2))),
    ({"over": "HW"}, partial(by_channel, instance_norm)),
    ({"over": "C", "center": False}, partial(of_last, rms_norm, (1,))),
    ({"over": "W", "center": False}, partial(of_last, rms_norm, (3,))),
]


def cases(rng):
    for _ in range(10):
        shape = rng.integers(1, 4, 4) * [1, 2, 1, 1]
        x = rng.standard_normal(shape) + rng.standard_normal((1, shape[1], 1, 1))
        for kind, layer in LAYERS:
            eps = rng.uniform(1e-3, 1)
            xhat, rstd = layer(x, eps)
            size, most = np.abs(x).max(), rstd.max()
            said = {
                "y": (xhat.ravel(), most * size),
                # A mean that is nearly the value itself loses the digits that the square takes.
                "rstd": (rstd.ravel(), most * (1 + most * size)),
                "mean": ((x - xhat / rstd).ravel(), size),
            }
            yield (x.ravel(), shape, kind, eps), said


X = np.array(exploring.numbers("axes", "X")).reshape(3, 4, 2, 2)


def row(layer, eps, *here):
    """The mean and r of one entry."""
    xhat, rstd = layer(X, eps)
    return {"μ, r": [(X - xhat / rstd)[here], rstd[here]]}


SHOWN = {
    "": row(LAYERS[4][1], 1e-5, 1, 2, 0, 1),
    "&layer=batch&framework=Keras&entry=7": row(LAYERS[0][1], 1e-3, 0, 1, 1, 1),
    "&layer=last&entry=40": row(LAYERS[3][1], 1e-5, 2, 2, 0, 0),
    "&layer=last&framework=Flax&entry=40": row(LAYERS[2][1], 1e-6, 2, 2, 0, 0),
}
PLANTED = {
    "groups of every second channel": (
        "Math.floor((at.C * groups) / shape[1])",
        "(groups > 1 ? at.C % groups : 0)",
    ),
    "RMSNorm takes a mean": ("center ? mean(", "true ? mean("),
    "epsilon outside the root": ("1 / Math.sqrt(square + eps)", "1 / (Math.sqrt(square) + eps)"),
}
