"""What the explorer of the gradient check has to compute."""

import numpy as np

from normlib import batch_norm, batch_norm_backward
from normlib.evidence import batch_norm as evidence
from normlib.verify import numeric
from normlib.verify.planted import Planted, first_changed

FUNCTION = "check"
SMALL = first_changed(batch_norm_backward, lambda dx: dx * 1.000000001)
# What the explorer leaves out: the errors of dgamma and dbeta, a stale cache, the second error that
# is wrong in forward and backward alike.
LEFT_OUT = "dgamma", "dbeta", "stale", "eps"
TWINS = {
    "none": Planted("none", batch_norm, batch_norm_backward),
    "dx times 1.000000001": Planted("dx times 1.000000001", batch_norm, SMALL),
    **{n: t for n, t in evidence.twins().items() if not n.startswith(LEFT_OUT)},
}


def estimates(loss, x, h):
    """What is said of the gradient when one entry of x after the other moves by ± h and by ih."""
    found = np.empty((3, *x.shape))
    for entry in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[entry] = h
        up, down, aside = (loss(x + by * step) for by in (1, -1, 1j))
        found[(slice(None), *entry)] = up.real / h, (up - down).real / (2 * h), aside.imag / h
    return found


def cases(rng):
    for error, twin in [*TWINS.items()] * 5:
        yield from cases_of(rng, error, twin)


def cases_of(rng, error, twin):
    """One problem, before every witness."""
    x, dy = rng.standard_normal((2, rng.integers(3, 7), rng.integers(2, 4)))
    gamma, beta = rng.uniform(0.5, 2, x.shape[1]), rng.standard_normal(x.shape[1])
    eps, h = 10.0 ** rng.uniform(-5, 0), 10.0 ** -rng.integers(0, 12)
    y, cache = twin.forward(x, gamma, beta, eps=eps)
    right, shipped = batch_norm(x, gamma, beta, eps=eps)
    dx, rstd = twin.backward(dy, cache)[0], shipped.standardized.rstd

    def loss(moved):
        return ((twin.forward(moved, gamma, beta, eps=eps)[0] - y) * dy).sum()

    terms, lost = np.abs(dy * gamma * rstd).max(), 1 + rstd.max() * np.abs(x).max()
    exact = len(x) * lost * terms  # centring cancels
    rounded = exact + lost * np.abs(dy * y).sum() / h  # and so does a difference
    names = "forward difference", "central difference", "complex step"
    rows = [*zip(names, estimates(loss, x, h), (rounded, rounded, exact), strict=True)]
    sides = [(name, (dx, exact), (theirs, size), terms) for name, theirs, size in rows]
    high = np.abs(right).max()
    sides.append(("the forward alone", (y, lost * high), (right, lost * high), high))

    arrays = {"x": x, "gamma": gamma, "beta": beta, "dy": dy}
    problem = {name: a.tolist() for name, a in arrays.items()} | {"eps": eps}
    for witness, ours, theirs, unit in sides:
        apart = np.abs(ours[0] - theirs[0]).max() / unit, (ours[1] + theirs[1]) / unit
        central = witness in ("forward difference", "central difference")
        bound = numeric.CENTRAL if central else numeric.ROUNDING
        choice = {"error": error, "witness": witness, "h": float(h)}
        said = {"ours": ours, "theirs": theirs, "apart": apart, "bound": (bound, bound)}
        yield (problem, choice), said


PLANTED = {
    "the shipped formula has a plus": (
        "const shipped = (s) => s.rstd * (s.d - s.mean - s",
        "const shipped = (s) => s.rstd * (s.d - s.mean + s",
    ),
    "the step is half as long": ("/ (2 * h)", "/ h"),
    "the complex variance is half": ("2 * v * b[i]", "v * b[i]"),
    "a witness is not strict": ('"complex step": { bound: 1e-10', '"complex step": { bound: 1e-9'),
}
