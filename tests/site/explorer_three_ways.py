"""What the explorer of the three ways has to compute: norms of four numbers, and their arrows."""

import numpy as np

import normlib
from normbook.show.pictures import edges
from normlib import evidence

FUNCTION = "ways"
# Each norm, its module in normlib, and the shape in which four numbers share their statistics.
NORMS = {
    "batch": ("batch_norm", (4, 1)),
    "layer": ("layer_norm", (1, 4)),
    "group": ("group_norm", (1, 2, 2)),
    "instance": ("instance_norm", (1, 1, 4)),
    "RMS": ("rms_norm", (1, 4)),
    "mean-only": ("mean_only_batch_norm", (4, 1)),
}


def through(name, shape, x, d):
    """Outputs and dx, by the shipped layer."""
    size = shape[-1] if name in ("layer_norm", "rms_norm") else shape[1]
    given = [np.ones(size), np.zeros(size)]
    if name in ("rms_norm", "mean_only_batch_norm"):
        given = given[:1] if name == "rms_norm" else given[1:]
    options = {} if name == "mean_only_batch_norm" else {"eps": 0.0}
    options |= {"groups": 1} if name == "group_norm" else {}
    y, cache = getattr(normlib, name)(x.reshape(shape), *given, **options)
    dx, *_ = getattr(normlib, f"{name}_backward")(d.reshape(shape), cache)
    return y.ravel(), dx.ravel()


def cases(rng):
    for norm, (name, shape) in NORMS.items():
        out = {
            target
            for source, target in edges(getattr(evidence, name).derivation())
            if source == "x"
        }
        arrows = [1, bool(out & {"var", "ms"}), "mu" in out]
        for _ in range(4):
            x, d = rng.standard_normal((2, 4))
            y, dx = through(name, shape, x, d)
            mean = -d.mean() * (1 if norm == "mean-only" else y[0] / (x - x.mean())[0])
            found = {"xhat": (y, 10), "dx": (dx, 10), "arrows": (arrows, 1)}
            yield (x, d, norm), found | ({"mean": (np.full(4, mean), 10)} if arrows[2] else {})


FOUR, FIRST = np.array([0.0, 6, 6, 8]), np.eye(4)[0]
SHOWN = {f"&norm={norm}": {"dx": through(*NORMS[norm], FOUR, FIRST)[1]} for norm in NORMS}
PLANTED = {
    "the way through the mean is forgotten": (" + along.mean[k]", ""),
    "the way through the variance is forgotten": (" + along.square[k]", ""),
    "RMSNorm has a mean": ("RMS: { mean: false,", "RMS: { mean: true,"),
    "a square without its 2": ("(2 * value) / m", "value / m"),
}
