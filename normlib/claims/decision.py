"""The one call by which a page decides a claim.

A page cannot publish a verdict that its cells did not reach: `decide` computes the verdict anew
and compares it with the register's.
"""

from collections.abc import Callable
from html import escape
from typing import Any, NamedTuple

import numpy as np

from normlib.claims.entries import CONDITIONS, FALSE, HOLDS, Claim, register


class LedgerError(AssertionError):
    """What a page computed is not what the register says."""


def verdict(holds: Callable[[Any], bool], **measured: Any) -> str:
    """The verdict that a judgement reaches on what was measured; `decide` says on what.

    Errors: ValueError for something else than the two pairs, or a judgement given as such;
    LedgerError if the judgement cannot tell the planted case from the given one.
    """
    if set(measured) not in ({"given", "planted"}, {"inside", "outside"}):
        raise ValueError(
            f"decide takes given= and planted=, or for a claim that needs conditions inside= and "
            f"outside=, but {sorted(measured)} came"
        )
    said = {}
    for name, value in measured.items():
        if isinstance(value, bool | np.bool_):
            raise ValueError(
                f"{name} must be what was measured, but {value} came; let the function judge it"
            )
        said[name] = holds(value)
        if not isinstance(said[name], bool | np.bool_):
            raise ValueError(
                f"the judgement must return True or False, but on {name} it returned a "
                f"{type(said[name]).__name__}; try .all() or bool(…)"
            )
    first, second = map(bool, said.values())
    if first == second:
        raise LedgerError(
            f"the judgement is {first} on {' and '.join(said)} alike, so it decides nothing"
        )
    if "inside" in said:
        return CONDITIONS if said["inside"] else "holds outside its conditions alone"
    return HOLDS if said["given"] else FALSE


class Decision(NamedTuple):
    """A claim and the verdict that was just computed; on the site, the target of the ledger."""

    claim: Claim

    def __repr__(self) -> str:
        c = self.claim
        remark = f"\n{c.remark}" if c.remark else ""
        return f"{c.id}, {place(c)}: {c.verdict}\n{c.claim}{remark}"

    def _repr_html_(self) -> str:
        c = self.claim
        remark = f"<br>{escape(c.remark)}" if c.remark else ""
        return (
            f'<div class="decision" id="claim-{c.id}"><a href="ledger.html#{c.id}">{c.id}</a> '
            f"<cite>{escape(place(c))}</cite>: <q>{escape(c.claim)}</q> "
            f'<strong data-verdict="{c.verdict}">{c.verdict}</strong>{remark}</div>'
        )


def place(claim: Claim) -> str:
    sources = register().sources
    return "; ".join(f"{sources[source]}, {at}" for source, at in claim.at.items())


def decide(id: str, holds: Callable[[Any], bool], **measured: Any) -> Decision:
    """Decide a claim of the register by what was measured, and fail if the register differs.

    verdict = "holds" if holds(given), "does not hold" if not; planted= has to flip it
    verdict = "holds under conditions" if holds(inside) and not holds(outside)

    `holds` is the claim as a judgement: it looks at a measurement and returns True or False.
    `given` is what the claim is about, and `planted` the same with an error in it, or a case made
    to be different, on which the judgement must turn over. A claim that needs conditions is judged
    `inside` and `outside` of them; each is then what turns the other over.
    Shapes: anything that `holds` takes, except a judgement itself.
    Errors: LedgerError if the verdict is not the register's, or nothing turned over; ValueError
    for an unknown claim, or arguments that are not one of the two pairs.
    Source: chapter "Look a claim up".
    """
    claims = register().claims
    if id not in claims:
        raise ValueError(
            f"claim {id!r} must stand in normlib/claims/register.toml, and does not; add it"
        )
    found = verdict(holds, **measured)
    if found != claims[id].verdict:
        raise LedgerError(
            f"claim {id}: the register says {claims[id].verdict!r}, and here it {found!r}; one of "
            f"them is wrong, and if it is the register, correct the entry"
        )
    return Decision(claims[id])
