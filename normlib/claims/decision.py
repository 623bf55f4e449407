"""The one call by which a page decides a claim.

A page cannot publish a verdict that its cells did not reach: `decide` computes the verdict anew
and compares it with the register's.
"""

from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import numpy as np

from normlib.claims.entries import (
    CONDITIONS,
    FALSE,
    FOLDER,
    HOLDS,
    LIMIT,
    UNDECIDED,
    Claim,
    register,
)
from normlib.claims.intervals import Interval

# What a judgement is put to, and what its answers there amount to. The first two answers differ.
# None is the answer to an interval that contains both.
OUTCOMES = {
    ("given", "planted"): {
        (True, False): HOLDS,
        (False, True): FALSE,
        (None, True): UNDECIDED,
        (None, False): UNDECIDED,
    },
    ("given", "planted", "beyond"): {(True, False, False): LIMIT},
    ("inside", "outside"): {(True, False): CONDITIONS},
}


class LedgerError(AssertionError):
    """What a page computed is not what the register says."""


def answer(holds: Callable[[Any], bool], name: str, value: Any) -> bool | None:
    """What the judgement says of one measurement; None if an interval contains both answers."""
    if isinstance(value, Interval):
        low, high = (answer(holds, name, float(end)) for end in (value.low, value.high))
        return low if low == high else None
    if isinstance(value, bool | np.bool_):
        raise ValueError(
            f"{name}: expected what was measured, got {value}; let the function judge it"
        )
    said = holds(value)
    if not isinstance(said, bool | np.bool_):
        raise ValueError(
            f"{name}: expected True or False from the judgement, got a {type(said).__name__}; try "
            f".all() or bool(…)"
        )
    return bool(said)


def verdict(holds: Callable[[Any], bool], **measured: Any) -> str:
    """The verdict that a judgement reaches on what was measured; `decide` says on what.

    Errors: ValueError for other arguments than those of `decide`, or a judgement given as one;
    LedgerError if the judgement says the same of the first two cases.
    """
    kind = next((names for names in OUTCOMES if set(names) == set(measured)), None)
    if kind is None:
        raise ValueError(
            f"decide: expected given= and planted= (and beyond= for a limit), or inside= and "
            f"outside=, got {sorted(measured)}; choose one of these"
        )
    said = tuple(answer(holds, name, measured[name]) for name in kind)
    if said[0] == said[1]:
        raise LedgerError(
            f"{kind[0]} and {kind[1]}: expected different answers of the judgement, got "
            f"{said[0]} twice, so it decides nothing; try another planted case"
        )
    answers = ", ".join(f"{name} {value}" for name, value in zip(kind, said, strict=True))
    return OUTCOMES[kind].get(said, f"no verdict, but {answers}")


class Decision(NamedTuple):
    """A claim and the verdict that was just computed; on the site, the target of the ledger."""

    claim: Claim

    def __repr__(self) -> str:
        c = self.claim
        remark = f"\n{c.remark}" if c.remark else ""
        return f"{c.id}, {places(c)}: {c.verdict}\n{c.claim}{remark}"

    def _repr_html_(self) -> str:
        c = self.claim
        remark = f"<br>{escape(c.remark)}" if c.remark else ""
        ledger = "../" * c.page.count("/") + "ledger.html"  # the page may lie in a folder
        return (
            f'<div class="decision" id="claim-{c.id}"><a href="{ledger}#{c.id}">{c.id}</a> '
            f"<cite>{escape(places(c))}</cite>: <q>{escape(c.claim)}</q> "
            f'<strong data-verdict="{c.verdict}">{c.verdict}</strong>{remark}{second(c)}</div>'
        )


def second(c: Claim) -> str:
    """What a second reader objected, and the answer, folded."""
    if not c.objection:
        return ""
    objection, answer = escape(c.objection), escape(c.answer)
    return (
        f"<details><summary>A second reader</summary><p>Objection: {objection}</p>"
        f"<p>Answer: {answer}</p></details>"
    )


def places(claim: Claim) -> str:
    sources = register().sources
    return "; ".join(f"{sources[source]}, {at}" for source, at in claim.at.items())


def decide(id: str, holds: Callable[[Any], bool], **measured: Any) -> Decision:
    """Decide a claim of the register by what was measured, and fail if the register differs.

    verdict = "holds" if holds(given), "does not hold" if not; planted= has to change the answer
    verdict = "holds, with a limit" if holds(given), and neither holds(planted) nor holds(beyond)
    verdict = "holds under conditions" if holds(inside) and not holds(outside)
    verdict = "not decided here" if given is an interval with holds(low) and holds(high) different

    `holds` is the claim as a judgement: it looks at a measurement and returns True or False.
    `given` is what the claim is about, and `planted` the same with an error in it, or a case made
    to be different, on which the answer must change. `beyond` is a case outside the scope of the
    claim. A claim that needs conditions is judged `inside` and `outside` of them. What an
    experiment found is handed over as the `interval` of its effect: the judgement is then put to
    both ends, and must say the same of them.
    Shapes: anything that `holds` takes, except a judgement itself.
    Errors: LedgerError if the verdict is not the register's, or the judgement does not tell the
    first two cases apart; ValueError for an unknown claim, or other arguments than these.
    Source: chapter "Ledger of claims".
    """
    claims = register().claims
    if id not in claims:
        raise ValueError(
            f"decide: expected the id of a claim, got {id!r}; add the claim to a file of {FOLDER}"
        )
    found = verdict(holds, **measured)
    if found != claims[id].verdict:
        raise LedgerError(
            f"claim {id}: expected {claims[id].verdict!r}, as in the register, got {found!r}; "
            f"correct the entry, or the judgement"
        )
    return Decision(claims[id])
