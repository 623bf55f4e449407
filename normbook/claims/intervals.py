"""Intervals for what an experiment found: the mean effect over its seeds."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special


class Ends(NamedTuple):
    low: float
    mean: float
    high: float


class Interval(Ends):
    """An effect and the ends of its interval, and the effects of the seeds that it comes from."""

    effects: tuple[float, ...] = ()

    def __str__(self) -> str:
        return f"{self.mean:.3g} ({self.low:.3g} to {self.high:.3g})"


def interval(effects: Sequence[float]) -> Interval:
    """The 95 % interval of a mean, by Student's t.

    ends = mean ± t · s / √n, with n − 1 degrees of freedom and the unbiased deviation s
    Shapes: effects (n,), one for each seed, n at least 2.
    Errors: ValueError for fewer, or for one that is not finite: a run that diverged is no number.
    Source: Student 1908; chapter "Ledger of claims".
    """
    found = np.asarray(effects, dtype=float)
    if found.ndim != 1 or len(found) < 2 or not np.isfinite(found).all():
        raise ValueError(
            f"interval: expected a finite effect for each of two seeds or more, got {effects!r}; "
            f"try one number a seed, and count the runs that diverged instead"
        )
    half = special.stdtrit(len(found) - 1, 0.975) * found.std(ddof=1) / np.sqrt(len(found))
    mean = found.mean()
    whole = Interval(float(mean - half), float(mean), float(mean + half))
    whole.effects = tuple(found.tolist())
    return whole


def without_one(whole: Interval) -> Iterator[Interval]:
    """The intervals of all seeds but one, if there are three or more."""
    if len(whole.effects) > 2:
        for k in range(len(whole.effects)):
            yield interval(np.delete(whole.effects, k))
