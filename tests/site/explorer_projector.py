"""What the explorer of the projector has to compute."""

import numpy as np

from normlib import standardize, standardize_backward

FUNCTION = "projected"


def cases(rng):
    for _ in range(100):
        x, d = rng.standard_normal((2, rng.integers(2, 9), 1)) * rng.uniform(0.1, 10)
        eps = rng.choice([0.0, rng.uniform(0, 3)])
        xhat, cache = standardize(x, axes=(0,), eps=eps)
        dx, rstd, size = standardize_backward(d, cache), cache.rstd.item(), np.abs(d).max()
        # Centring cancels; what is left of two numbers is nothing.
        lost = 1 + rstd * np.abs(x).max()
        yield (
            (x[:, 0], d[:, 0], eps),
            {
                "xhat": (xhat, lost),
                "rstd": (rstd, rstd * lost),
                "height": (d.mean(), size),
                "slope": ((d * xhat).mean(), size * lost),
                "left": (dx / rstd, size * lost),
                "dx": (dx, rstd * size * lost),
            },
        )


def rows(x, d, share):
    xhat, cache = standardize(x, axes=(0,), eps=share * x.var())
    dx = standardize_backward(d, cache)
    return {"x̂": xhat, "d": d, "left": dx / cache.rstd, "dx": dx}


BATCH, START, OTHER = np.array([[0.0, 6, 6, 8], [1, 0, 0, 0], [1, 0.5, -2, 0]])[..., None]
SHOWN = {"": rows(BATCH, START, 0), "&count=3&share=2&d=1,0.5,-2,0": rows(BATCH[:3], OTHER[:3], 2)}
PLANTED = {
    "the mean stays": ("value - height - slope", "value - slope"),
    "no epsilon": ("variance + eps", "variance"),
    "the unbiased variance": (
        "mean(c.map((value) => value * value))",
        "(mean(c.map((value) => value * value)) * c.length) / (c.length - 1)",
    ),
}
