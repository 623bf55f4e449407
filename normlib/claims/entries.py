"""The register of claims: what the sources say, and what this book found."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

HOLDS, CONDITIONS, FALSE = "holds", "holds under conditions", "does not hold"
OPEN = "not checkable here"
# What the register must say beside a verdict, and must not say beside another one.
REMARK = {HOLDS: "", CONDITIONS: "conditions", FALSE: "instead", OPEN: "why"}


class Claim(NamedTuple):
    """One statement of the field, as the register holds it."""

    id: str
    at: dict[str, str]  # each source that makes it, and the lines or the section that do
    claim: str  # in our own words
    verdict: str
    remark: str  # the conditions; or what holds instead; or why nobody here can check it
    page: str  # the chapter that decides it
    matters: str  # for what does not hold: what goes wrong for who believes it


class Slip(NamedTuple):
    """A slip of the pen in one source: nobody would claim it."""

    at: dict[str, str]
    wrong: str
    right: str
    matters: str


class Register(NamedTuple):
    """What the sources are called, and what they say."""

    sources: dict[str, str]
    claims: dict[str, Claim]
    slips: list[Slip]


def read(text: str) -> Register:
    """Return a register, its sources and claims by their keys.

    Errors: ValueError for an entry that is not whole, naming it and what it lacks.
    """
    register = tomllib.loads(text)
    claims: dict[str, Claim] = {}
    for entry in register["claim"]:
        claim = whole(entry)
        if claim.id in claims:
            raise ValueError(f"claim {claim.id} must stand in the register once, but it came twice")
        if unknown := set(claim.at) - set(register["sources"]):
            raise ValueError(f"claim {claim.id} must name sources of the register, not {unknown}")
        claims[claim.id] = claim
    slips = [Slip(**entry) for entry in register.get("slip", ())]
    return Register(register["sources"], claims, slips)


def whole(entry: dict) -> Claim:
    name, verdict = entry.get("id", entry), entry.get("verdict")
    if verdict not in REMARK:
        raise ValueError(f"claim {name}: its verdict must be one of {[*REMARK]}, not {verdict!r}")
    remark = REMARK[verdict]
    page = {"page"} if verdict != OPEN else set()
    remarks = ({remark} if remark else set()) | ({"matters"} if verdict == FALSE else set())
    expected = {"id", "at", "claim", "verdict"} | page | remarks
    if set(entry) != expected or not all(entry.values()):
        raise ValueError(
            f"claim {name}: beside the verdict {verdict!r} an entry must hold exactly "
            f"{sorted(expected)}, none empty, but {sorted(entry)} came"
        )
    texts = (entry[key] for key in ("id", "at", "claim", "verdict"))
    return Claim(*texts, *(entry.get(key, "") for key in (remark, "page", "matters")))


@cache
def register() -> Register:
    return read(files("normlib.claims").joinpath("register.toml").read_text(encoding="utf-8"))
