"""What the explorer of the balance has to compute: descent in the plane, as weight norm has it."""

import numpy as np

from normlib import weight_norm, weight_norm_backward

FUNCTION = "both"


def descent(rate, decay, start, count):
    """Lengths, effective rates and angles, where d has the length 1 and is orthogonal to w."""
    w, lengths, rates, angles = start * np.array([0.6, 0.8]), [start], [], []
    for _ in range(count):
        direction, cache = weight_norm(w[None], np.ones(1))
        d = direction[:, ::-1] * [1, -1]
        slope = weight_norm_backward(d, cache)[0][0]
        after = w - rate * (slope + decay * w)
        along, aside = after @ direction[0], after @ -d[0]
        rates.append(aside / along)  # the direction moves by this, at the length 1
        angles.append(np.arctan2(aside, along))
        lengths.append(np.linalg.norm(after))
        w = after
    return {"lengths": lengths, "rates": rates, "angles": angles}


def cases(rng):
    for rate, decay in ((0.5, 0.1), (1, 0.3), (2, 0.2)):
        start = rng.uniform(0.5, 3)
        found = descent(rate, decay, start, 40)
        yield (rate, decay, start, 40), {key: (values, 40) for key, values in found.items()}


def row(rate, decay, start):
    found = descent(rate, decay, start, 600)
    ends = descent(rate, decay, start, 5000)
    pairs = {"length": "lengths", "effective rate": "rates", "angle, degrees": "angles"}
    unit = {"angles": 180 / np.pi}
    return {
        head: unit.get(key, 1) * np.array([found[key][0], found[key][599], ends[key][-1]])
        for head, key in pairs.items()
    }


SHOWN = {"": row(1, 0.01, 10**1.5), "&rate=-0.5&decay=-1.5&start=0": row(10**-0.5, 10**-1.5, 1)}
PLANTED = {
    "the direction is multiplied as well": ("rate / keep / n ** 2", "rate / n ** 2"),
    "the gradient is not shorter": ("Math.hypot(keep * n, rate / n)", "Math.hypot(keep * n, rate)"),
    "no decay": ("const keep = 1 - rate * decay", "const keep = 1"),
}
