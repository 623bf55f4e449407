"""The one call by which a page decides a claim.

A page cannot publish a verdict that its cells did not reach: `decide` computes the verdict anew
and compares it with the register's.
"""

import json
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from normbook.claims.entries import (
    CONDITIONS,
    FALSE,
    FOLDER,
    HOLDS,
    LIMIT,
    UNDECIDED,
    Claim,
    register,
)
from normbook.claims.intervals import Interval, without_one
from normlib.html import Markup, element

TRIALS = Path(__file__).parents[1] / "data" / "trials"

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


def by_bounds(above: float, below: float, name: str, value: Any) -> bool | None:
    """Whether a measurement lies between the bounds; None if an interval does so in part, or if
    the loss of one seed would turn the answer. A planted case only has to be another one."""
    if isinstance(value, Interval):
        intervals = [value, *(() if name == "planted" else without_one(value))]
        said = {between(above, below, name, one.low, one.high) for one in intervals}
        return said.pop() if len(said) == 1 else None
    return between(above, below, name, value, value)


def between(above: float, below: float, name: str, low: Any, high: Any) -> bool | None:
    if np.ndim(low) or not low <= high:
        raise ValueError(
            f"{name}: expected a number or an interval, to be compared with bounds, got {low!r} to "
            f"{high!r}; give a function as the judgement of anything else"
        )
    if above < low and high < below:
        return True
    return False if high <= above or below <= low else None


def intervals_in(value: Any) -> tuple[Interval, ...]:
    """The interval that a measurement is, or those of which it is a tuple; else none."""
    parts = (value,) if isinstance(value, Interval) else value if isinstance(value, tuple) else ()
    return parts if all(isinstance(part, Interval) for part in parts) else ()


def by_function(holds: Callable[[Any], bool], name: str, value: Any) -> bool | None:
    """What the function says of one measurement; None if a tuple of intervals would get another
    answer without one of the seeds."""
    if isinstance(value, Interval):
        raise ValueError(
            f"{name}: expected bounds for an interval, got a function, which does not see all of "
            f"it; give above=, below= or both"
        )
    fewer = () if name == "planted" else zip(*map(without_one, intervals_in(value)), strict=True)
    said = {say(holds, name, each) for each in (value, *fewer)}
    return said.pop() if len(said) == 1 else None


def say(holds: Callable[[Any], bool], name: str, value: Any) -> bool:
    said = holds(value)
    if not isinstance(said, bool | np.bool_):
        raise ValueError(
            f"{name}: expected True or False from the judgement, got a {type(said).__name__}; try "
            f".all() or bool(…)"
        )
    return bool(said)


def answer(judge: Callable[[str, Any], bool | None], name: str, value: Any) -> bool | None:
    """What the judgement says of one measurement; None if an interval contains both answers."""
    if isinstance(value, bool | np.bool_):
        raise ValueError(
            f"{name}: expected what was measured, got {value}; let the function judge it"
        )
    return judge(name, value)


def refuse_turned(given: Any, planted: Any) -> None:
    """Refuse a contrary case that is the measurement with its sign turned: it tests nothing."""
    kinds = {type(given), type(planted)}
    if kinds == {Interval}:
        turned = np.allclose(given, [-end for end in reversed(planted)], rtol=1e-9, atol=0)
    else:  # of whole numbers one may well be the other's negative
        turned = kinds <= {float, np.float64} and given == -planted and given % 1 != 0
    if turned:
        raise LedgerError(
            f"planted: expected a case of its own, got the given one, {given}, with its sign "
            f"turned; try one that a believer of the claim would accept as a test"
        )


def verdict(
    holds: Callable[[Any], bool] | None = None,
    *,
    above: float = -inf,
    below: float = inf,
    **measured: Any,
) -> str:
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
    if (holds is None) == ((above, below) == (-inf, inf)) or not above < below:
        raise ValueError(
            f"decide: expected one judgement, got {holds}, above={above} and below={below}; give "
            f"a function, or bounds with above < below"
        )
    refuse_turned(*(measured[name] for name in kind[:2]))
    judge = partial(by_bounds, above, below) if holds is None else partial(by_function, holds)
    said = tuple(answer(judge, name, measured[name]) for name in kind)
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
    seeds: str = ""  # how many stand behind each case

    def __repr__(self) -> str:
        c = self.claim
        return "\n".join([f"{c.id}, {places(c)}: {c.verdict}", c.claim, *self.remarks()])

    def remarks(self) -> list[str]:
        return [*remarks(self.claim), *[self.seeds] * bool(self.seeds)]

    def _repr_html_(self) -> str:
        c = self.claim
        ledger = "../" * c.page.count("/") + "ledger.html"  # the page may lie in a folder
        parts = [element("a", c.id, href=f"{ledger}#{c.id}"), " ", element("cite", places(c))]
        parts += [": ", element("q", c.claim), " "]
        parts += [element("strong", c.verdict, data_verdict=c.verdict)]
        parts += [part for remark in self.remarks() for part in (Markup("<br>"), remark)]
        parts += [second(c)] if c.objection else []
        return element("div", *parts, class_="decision", id=f"claim-{c.id}")


# What is said of a trial that was run under two instruction sets; the tests compare its intervals.
ELSEWHERE = (
    "Training is chaotic here: on another processor single seeds end elsewhere. All seeds were "
    "also run with an older instruction set (SSE): no interval changed its side of the bound."
)


PARTS = (
    "Training is chaotic here: on another processor the same seed ends elsewhere, as another seed "
    "does. The interval is over such ends."
)


def remarks(c: Claim) -> list[str]:
    """What stands below the claim: its limit or its conditions, and what another processor does."""
    trial = TRIALS / f"{c.trial}.json"
    stored = json.loads(trial.read_text("utf-8")) if c.trial else {}
    said = [c.remark] * bool(c.remark) + [f"Another trial: {c.also}"] * bool(c.also)
    said += [ELSEWHERE] * ("SSE" in stored)
    return said + [PARTS] * ("SSE" not in stored and stored.get("parts", False))


def seeds_behind(measured: dict[str, Any]) -> str:
    """On how many seeds the interval of each case rests."""
    found = {name: intervals_in(value) for name, value in measured.items()}
    counts = {name: min(len(i.effects) for i in all_of) for name, all_of in found.items() if all_of}
    limits = [counts.pop(name) for name in ("beyond", "outside") if counts.get(name)]
    first = next((count for name, count in counts.items() if count and name != "planted"), 0)
    said = [f"Seeds: {first}"] * bool(first) + [f"of the limit: {count}" for count in limits]
    return ", ".join(said) + "." if said else ""


def second(c: Claim) -> Markup:
    """What a second reader objected, and the answer, folded."""
    said = element("p", f"Objection: {c.objection}"), element("p", f"Answer: {c.answer}")
    return element("details", element("summary", "A second reader"), *said)


def places(claim: Claim) -> str:
    sources = register().sources
    return "; ".join(f"{sources[source]}, {at}" for source, at in claim.at.items())


def decide(
    id: str,
    holds: Callable[[Any], bool] | None = None,
    *,
    above: float = -inf,
    below: float = inf,
    **measured: Any,
) -> Decision:
    """Decide a claim of the register by what was measured, and fail if the register differs.

    verdict = "holds" if holds(given), "does not hold" if not; planted= has to change the answer
    verdict = "holds, with a limit" if holds(given), and neither holds(planted) nor holds(beyond)
    verdict = "holds under conditions" if holds(inside) and not holds(outside)
    verdict = "not decided here" if given is an interval that lies between the bounds in part, or
        would without one of its seeds

    `holds` is the claim as a judgement: it looks at a measurement and returns True or False. Bounds
    say the same of a number, holds(x) = above < x < below; one of the two is enough. `given` is
    what the claim is about, and `planted` the same with an error in it, or a case made to be
    different, on which the answer must change. `beyond` is a case outside the scope of the claim.
    A claim that needs conditions is judged `inside` and `outside` of them. What an experiment found
    is handed over as the `interval` of its effect, which takes bounds: holds(interval) is true if
    all of it lies between them, false if none of it does.
    Shapes: anything that `holds` takes, except a judgement itself; for bounds a number or an
    interval.
    Errors: LedgerError if the verdict is not the register's, or the judgement does not tell the
    first two cases apart; ValueError for an unknown claim, or other arguments than these.
    Source: chapter "Ledger of claims".
    """
    claims = register().claims
    if id not in claims:
        raise ValueError(
            f"decide: expected the id of a claim, got {id!r}; add the claim to a file of {FOLDER}"
        )
    found = verdict(holds, above=above, below=below, **measured)
    if found != claims[id].verdict:
        raise LedgerError(
            f"claim {id}: expected {claims[id].verdict!r}, as in the register, got {found!r}; "
            f"correct the entry, or the judgement"
        )
    return Decision(claims[id], seeds_behind(measured))
