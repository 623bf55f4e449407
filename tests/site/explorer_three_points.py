"""What the explorer of the three points has to compute."""

import numpy as np

from normbook.studies.smoothing_optima import row_dot
from normlib import batch_norm, batch_norm_backward

FUNCTION = "found"
STEPS, RATE = 300, 0.2
THREE, WANTED = np.array([[1.0, 0], [0, 1], [1, 1]]), np.array([[1.0], [0], [0]])


def plain(inputs, w):
    """The losses and gradients of several units at once: a unit is a column of w."""
    off = inputs @ w - WANTED
    return (off**2).sum(axis=0) / 2, inputs.T @ off


def normed(inputs, w):
    gamma, beta = np.ones(w.shape[1]), np.zeros(w.shape[1])
    z, cache = batch_norm(inputs @ w, gamma, beta, eps=0.0)
    off = z - WANTED
    return (off**2).sum(axis=0) / 2, inputs.T @ batch_norm_backward(off, cache)[0]


def descent(unit, inputs, w):
    path = [w]
    for _ in range(STEPS):
        path.append(path[-1] - RATE * unit(inputs, path[-1])[1])
    return np.array(path), unit(inputs, path[-1])[0]


def without(starts, bias):
    """The inputs of the plain unit, with a bias as a feature, and its ways down."""
    if bias == "no":
        return THREE, descent(plain, THREE, starts.T)
    inputs, first = (np.column_stack([a, [[z]] * len(a)]) for a, z in ((THREE, 1), (starts, 0)))
    return inputs, descent(plain, inputs, first.T)


def cases(rng):
    starts = rng.standard_normal((8, 2))
    with_norm = descent(normed, THREE, starts.T)
    for bias in ("no", "yes"):
        inputs, way = without(starts, bias)
        star = np.linalg.lstsq(inputs, WANTED[:, 0])[0][:2]
        ways = [way, with_norm]
        left, right = lemma(starts, np.tile(star, (8, 1)))
        for k, start in enumerate(starts):
            # Many steps; and where the loss is highest batch norm drives rounding errors apart.
            size = 100 * np.linalg.norm(start) * max(1, abs(start[1] / start[0]))
            said = {
                "left": (left[k], start @ start),
                "right": (right[k], 1 + start @ start),
                "losses": ([loss[k] for _, loss in ways], size),
            }
            if bias == "no":
                said["ends"] = [path[-1, :, k] for path, _ in ways], size
            if bias == "no" and k < 4:
                said["paths"] = [path[:, :, k] for path, _ in ways], size
            yield ({"start": start.tolist(), "bias": bias},), said


def lemma(start, at):
    """Both sides of Lemma 4.5, in other words than `smoothing_optima.violated` has them: the
    distances to a half line and to a line."""
    ray = np.array([0.0, -1.0])
    k = np.maximum(start @ ray, 0)
    left = ((start - k[:, None] * ray) ** 2).sum(axis=1)
    foot = (row_dot(start, at) / row_dot(at, at))[:, None] * at
    return left, ((start - foot) ** 2).sum(axis=1)


def rows(start, bias):
    start = np.array([start])
    ways = [without(start, bias)[1], descent(normed, THREE, start.T)]
    ends = np.array([path[-1, :2, 0] for path, _ in ways])
    return {
        "Ends at w₁": ends[:, 0],
        "Ends at w₂": ends[:, 1],
        "From start": np.linalg.norm(ends - start, axis=1),
        "Loss there": [loss[0] for _, loss in ways],
    }


SHOWN = {"": rows([1, 1], "no"), "&start=-0.5,0.7&bias=yes": rows([-0.5, 0.7], "yes")}
PLANTED = {
    "no variance term": ("value - mean(d) - xhat[i] * along", "value - mean(d)"),
    "the bias does not learn": ("[dot(dy, [1, 1, 1])]", "[0]"),
    "another rate": ("0.2 * (slope", "0.1 * (slope"),
    "the lemma without its last term": ("dot(away, away) - (", "dot(away, away) - 0 * ("),
}
