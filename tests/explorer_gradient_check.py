"""What the explorer of the gradient check has to compute."""

import numpy as np

from normlib import batch_norm, batch_norm_backward
from normlib.evidence import batch_norm as evidence
from normlib.verify.planted import Planted, first_changed

FUNCTION = "check"
TWINS = {"none": Planted("none", batch_norm, batch_norm_backward)} | {
    name: twin
    for name, twin in evidence.twins().items()
    if not name.startswith(("dgamma", "dbeta", "stale"))
}
SMALL = first_changed(batch_norm_backward, lambda dx: dx * 1.000000001)
TWINS["dx times 1.000000001"] = Planted("dx times 1.000000001", batch_norm, SMALL)


def estimates(x, of, h):
    """For every entry of x what is said of the loss when that entry moves by ± h and by ih."""
    found = np.empty((3, *x.shape))
    for entry in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[entry] = h
        up, down, aside = (of(x + by * step) for by in (1, -1, 1j))
        found[(slice(None), *entry)] = up.real / h, (up - down).real / (2 * h), aside.imag / h
    return dict(zip(("forward difference", "central difference", "complex step"), found))


def cases(rng):
    for trial in range(5):
        for error, twin in TWINS.items():
            n, c = rng.integers(3, 7), rng.integers(2, 4)
            x, dy = rng.standard_normal((2, n, c))
            gamma, beta = rng.uniform(0.5, 2, c), rng.standard_normal(c)
            eps, h = 10.0 ** rng.uniform(-5, 0), 10.0 ** -rng.integers(0, 12)
            y, cache = twin.forward(x, gamma, beta, eps=eps)
            truth, right = batch_norm(x, gamma, beta, eps=eps)
            dx = twin.backward(dy, cache)[0]

            def loss(moved):
                there = twin.forward(moved, gamma, beta, eps=eps)[0]
                return ((there - y) * dy).sum()

            rstd = right.standardized.rstd
            terms = np.abs(dy * gamma * rstd).max()
            lost = 1 + rstd.max() * np.abs(x).max()  # centring cancels
            noise = lost * np.abs(dy * y).sum() / h
            for witness, theirs in estimates(x, loss, h).items():
                size = lost * terms * len(x) + (0 if witness == "complex step" else noise)
                yield case(x, gamma, beta, dy, eps, error, witness, h), {
                    "ours": (dx, lost * terms * len(x)),
                    "theirs": (theirs, size),
                    "apart": (np.abs(dx - theirs).max() / terms, size / terms),
                }
            apart = np.abs(y - truth).max() / np.abs(truth).max()
            yield case(x, gamma, beta, dy, eps, error, "the forward alone", h), {
                "ours": (y, lost * np.abs(y).max()),
                "theirs": (truth, lost * np.abs(y).max()),
                "apart": (apart, lost),
            }


def case(x, gamma, beta, dy, eps, error, witness, h):
    arrays = {"x": x, "gamma": gamma, "beta": beta, "dy": dy}
    problem = {name: a.tolist() for name, a in arrays.items()} | {"eps": eps}
    return problem, {"error": error, "witness": witness, "h": float(h)}


PLANTED = {
    "the mean term has another sign": ("(s.d - s.mean - s.xhat * s.along);\n  const", "(s.d + s.mean - s.xhat * s.along);\n  const"),
    "the planted error is not there": ("(s) => s.rstd * (s.d - s.mean),", "shipped,"),
    "epsilon is forgotten": ("bessel * a + eps", "bessel * a"),
    "the step is half as long": ("/ (2 * h)", "/ h"),
    "the complex step is real": ("2 * v * b[i]", "v * b[i]"),
    "the scale is another": ("v * problem.gamma[j] * rstd[j]", "v * rstd[j]"),
    "the upstream gradient is ones": ("v * (there.y[i][j] - here[i][j])", "there.y[i][j] - here[i][j]"),
    "the definition takes n - 1": ("Math.sqrt(variance + eps)", "Math.sqrt(variance * 1.1 + eps)"),
}
