"""What the explorer of the momentum has to compute."""

import exploring
import numpy as np

from normlib import update_running

FUNCTION = "both"


def followed(start, means, weight):
    """The running mean after each batch: two values that are alike make a batch."""
    mean, var, found = np.array([start]), np.ones(1), []
    for batch in means:
        mean, var = update_running(mean, var, np.full((2, 1), batch), momentum=weight)
        found.append(mean.item())
    return np.array(found)


def cases(rng):
    for _ in range(12):
        means, weight = 3 + rng.standard_normal(rng.integers(1, 12)), rng.uniform()
        count = len(means)
        # What each batch and the start contribute at the end.
        weights = [followed(0.0, batch, weight)[-1] for batch in np.eye(count)]
        expected = {
            "running": (followed(0.0, means, weight), np.abs(means).max()),
            "left": (followed(1.0, np.zeros(count), weight)[-1], 1),
            "noise": (np.linalg.norm(weights), 1),
        }
        yield (means, weight), expected


def row(momentum, seen):
    means = exploring.numbers("momentum", "MEANS")[:seen]
    return {"running mean": [followed(0.0, means, w)[-1] for w in (momentum, 1 - momentum)]}


SHOWN = {"": row(0.99, 60), "&momentum=0.3&seen=20": row(0.3, 20)}
PLANTED = {
    "the weight of the old average": (
        "(1 - weight) * running + weight * mean",
        "weight * running + (1 - weight) * mean",
    ),
    "one batch too many": ("left: (1 - weight) ** count", "left: (1 - weight) ** (count + 1)"),
    "noise without the roots": ("Math.hypot(...weights)", "weights.reduce((a, b) => a + b)"),
}
