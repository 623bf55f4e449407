"""Gather what the witnesses say in a verdict: one check for each argument and witness."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from normlib import html


class VerificationError(AssertionError):
    """At least one witness disagrees, or no witness can tell a gradient from zero. `verdict`
    holds what every witness said."""

    def __init__(self, verdict: "Verdict"):
        self.verdict = verdict
        failed = verdict.red + verdict.undecided
        super().__init__("\n".join(f"{c.argument}: {c.witness}: {c.failure}" for c in failed))


class Difference(NamedTuple):
    """One wrong entry of a gradient."""

    entry: tuple[int, ...]
    expected: float
    got: float

    def __str__(self) -> str:
        entry = ", ".join(map(str, self.entry))
        texts = [(f"{self.expected:.{n}g}", f"{self.got:.{n}g}") for n in (6, 9, 12, 17)]
        expected, got = next(((a, b) for a, b in texts if a != b), texts[0])
        return f"entry [{entry}]: expected {expected}, got {got}"


class Check(NamedTuple):
    """One comparison. Only what is the same on every machine is printed, so no raw error."""

    argument: str
    witness: str
    how: str  # what our side was compared with
    passed: str  # what a pass establishes
    failure: str = ""  # what went wrong; empty for a pass
    error: float = 0.0  # the worst error, relative to the size of the terms that cancel
    bound: float = 0.0  # what was asked of it; 0 is exact
    wrong: tuple[Difference, ...] = ()  # the first wrong entry and the worst, where there are any
    share: str = ""  # how many entries are wrong, of how many

    @property
    def undecided(self) -> bool:
        """Whether nothing was compared, because both sides are zero to rounding."""
        return self.failure.startswith(BOTH_ZERO)

    @property
    def result(self) -> str:
        return "NOT DECIDED" if self.undecided else "DISAGREES" if self.failure else self.passed


NOT_RUN, BOTH_ZERO = "NOT RUN", "both sides are zero to rounding"
ZERO = 1e-4  # what is larger is not called zero, however loose the bound


def skip(witness: str, why: str) -> Check:
    """What a witness says that cannot serve here."""
    return Check("-", witness, why, NOT_RUN)


@dataclass(frozen=True, repr=False)
class Verdict:
    """Every check that was made, and every witness that could not run, with the reason."""

    checks: tuple[Check, ...]
    not_run: tuple[tuple[str, str], ...] = ()

    @property
    def ran(self) -> tuple[str, ...]:
        """The witnesses that ran, each once, in their order."""
        return tuple(dict.fromkeys(check.witness for check in self.checks))

    @property
    def red(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.failure and not check.undecided)

    @property
    def undecided(self) -> tuple[Check, ...]:
        """Where no witness can tell a gradient from zero, and zero is not claimed."""
        return tuple(check for check in self.checks if check.undecided)

    @property
    def caught_by(self) -> tuple[str, ...]:
        """The witnesses that disagree, each once, in the order in which they ran."""
        return tuple(dict.fromkeys(check.witness for check in self.red))

    def _rows(self) -> list[tuple[str, str, str, str]]:
        """Arguments of which a witness says the same share a line."""
        arguments: dict[tuple[str, str, str], list[str]] = {}
        for c in self.checks:
            arguments.setdefault((c.witness, c.how, c.result), []).append(c.argument)
        rows = [(", ".join(names), *said) for said, names in arguments.items()]
        return rows + [("-", witness, why, NOT_RUN) for witness, why in self.not_run]

    def differences(self) -> str:
        """For every argument that is wrong, who says so, and what the first of them has found;
        then what is not decided; empty if there is neither."""
        lines = []
        for name in dict.fromkeys(check.argument for check in self.red):
            found = [check for check in self.red if check.argument == name]
            witnesses = dict.fromkeys(check.witness for check in found)
            lines.append(f"{name} is wrong according to: {', '.join(witnesses)}")
            first = found[0]
            share = f", {first.share} differ" if first.share else ""
            lines.append(f"  {first.witness} ({first.how}){share}")
            labels = zip(("first", "worst"), first.wrong, strict=False)
            lines += [f"  {label} {d}" for label, d in labels] or [f"  {first.failure}"]
        why = {check.argument: check.failure for check in self.undecided}
        return "\n".join(lines + [f"{name} is not decided: {text}" for name, text in why.items()])

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        head = html.row(("argument", "witness", "compared with", "result"), "th")
        return html.table("verdict", head, map(html.row, self._rows()))


def compare(
    argument: str, witness: str, how: str, ours, theirs, *, scale, bound: float, zero: bool,
    noise: float = np.inf,
) -> Check:  # fmt: skip
    """Compare entry by entry, relative to `scale`, the size of the terms that cancel: one number,
    or one for each entry.

    Where both sides are within the bound of zero, it could not tell one from the other, so they
    have to be as close as rounding leaves them: `noise`, in the same unit. Two sides that are
    both zero to rounding prove nothing, so this is not decided unless `zero` says that zero is
    the claim; then anything else fails.
    """
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    if ours.shape != theirs.shape:
        failure = f"the shape is {ours.shape}, and must be {theirs.shape}"
        return Check(argument, witness, how, "", failure, np.inf, bound)
    with np.errstate(invalid="ignore"):  # inf - inf is nan, which is red below
        distance = np.abs(ours - theirs)
    if not np.all(np.isfinite(distance)):
        worst = np.unravel_index(np.argmin(np.isfinite(distance)), distance.shape)
        error = np.inf
    else:
        apart = distance / scale
        worst = np.unravel_index(np.argmax(apart), apart.shape)
        error = float(apart[worst])
    size = float(max(np.max(np.abs(side) / scale) for side in (ours, theirs)))
    failure, wrong, share = "", (), ""
    passed = f"both 0 (< {bound:.0e})" if zero else f"ok (< {bound:.0e})"
    small = not zero and error <= bound and size <= min(bound, ZERO)
    told = small and np.max(np.abs(theirs) / scale) > noise
    bound = noise if told else bound
    if not error <= bound:
        far = ~(distance <= bound * scale)  # nan is far, too
        first = np.unravel_index(np.argmax(far), far.shape)
        wrong = tuple(
            Difference(tuple(map(int, at)), theirs[at], ours[at]) for at in (first, worst)
        )
        share = f"{np.sum(far)} of {far.size} entries"
        failure = f"worst at {wrong[1]} ({how}; relative error {error:.1e}, bound {bound:.0e})"
    elif zero and size > bound:
        failure = f"claimed to be zero, but reaches {size:.1e} of the terms that cancel"
    elif small and not told:
        failure = (
            f"{BOTH_ZERO}, so nothing was compared; take shapes with 3 values or more in each "
            "statistic, for of 2 only eps leaves a gradient; or, if zero is the claim, "
            f"say so with zero=({argument.removeprefix('d')!r},)"
        )
    return Check(argument, witness, how, passed, failure, error, bound, wrong, share)
