"""The register of claims: what the sources say, and what this book found.

register/ holds one file for each document and each paper, named by its key: that of a paper is
its key in references.bib. A file gives the title of its source, its claims and its slips. A claim
that several sources make stands in the file of the first, and names the others.

    [[claim]]
    id = "003-07"  # also its address: chapters/ledger.html#003-07
    at.003 = { lines = [[56, 56]], scope = ["often"] }  # a document: first and last line; and
    # quoted = true where it quotes
    at.salimans2016 = { passage = "section 4", text = "transcribed" }  # a paper
    claim = "…"  # in our own words
    verdict = "holds under conditions"
    conditions = "…"  # the remark that the verdict asks for, see REMARKS
    evidence = "computation"  # not for what is not checkable here, which has no page either
    page = "claims/weight-normalization"  # the notebook that decides it, seen from chapters/
    objection = "…"  # what a second reader brought forward against the entry or its cell
    answer = "…"  # and what was made of it
    changed = "…"  # if it once had another verdict: which, and why it has this one now

    [[slip]]  # a place to mend, which needs no verdict
    id = "slip-003-1"
    kind = "misprint"
    at = { lines = [[8, 10]] }
    wrong = "…"
    right = "…"
    matters = "…"

kind: "error" for words that say something wrong, be it a definition, a name or a number, and for a
formula that is wrong as its author means it; "misprint" for a letter, a mark or a passage that was
lost, doubled or exchanged in print, where the text itself shows, there or elsewhere, what is meant.
What our copy of a text lacks, such as its pictures, is neither.

scope: the words by which the source itself limits what it says, quoted one by one.
text: "read" if the paper was read there; "transcribed" if what others wrote down from it was, be
it a copy or notes; "unconfirmed" if neither was found. The cards say all but the first.
evidence: "proof", algebra on symbols, for all their values; "computation", numbers that come to
the same verdict with any seed, such as an identity, a count or a counterexample; "experiment",
all that rests on what was drawn: trained networks, random networks, samples. An experiment also
names the commit of its set-up, made before the deciding runs, and the trial in
normbook/studies, which has their seeds and the effect that would matter:

    setup = "0a1b2c3"
    trial = "covariate_shift.SHAPE"
    also = "…"  # if another trial was set up for the claim: its name, its bound, what it gave
"""

import re
import tomllib
from collections import Counter
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import NamedTuple, NoReturn

HOLDS, LIMIT, CONDITIONS = "holds", "holds, with a limit", "holds under conditions"
FALSE, UNDECIDED, OPEN = "does not hold", "not decided here", "not checkable here"
# What an entry says beside each verdict; the first is the remark that its card shows.
REMARKS = {
    HOLDS: (),
    LIMIT: ("limit",),  # the case outside its scope in which it fails
    CONDITIONS: ("conditions",),
    FALSE: ("instead", "matters"),  # what holds, and what goes wrong for a reader who believes it
    UNDECIDED: ("tried",),  # what was measured, and the interval that contains both answers
    OPEN: ("why",),
}
VERDICTS = tuple(REMARKS)
EVIDENCE = PROOF, COMPUTATION, EXPERIMENT = "proof", "computation", "experiment"
KINDS = ERROR, MISPRINT = "error", "misprint"
READ, TRANSCRIBED, UNCONFIRMED = "read", "transcribed", "unconfirmed"
# What is said beside a passage.
SAID_OF_TEXT = {READ: "", TRANSCRIBED: "as transcribed", UNCONFIRMED: "not confirmed"}
TEXTS = tuple(SAID_OF_TEXT)
FOLDER = "normbook/claims/register"
READER = ("objection", "answer")
TEXTS_OF_CLAIM = ("matters", "evidence", "setup", "trial", "page", *READER, "changed", "also")


class Lines(NamedTuple):
    """A place in a document: its lines, in the order in which they are read."""

    lines: tuple[tuple[int, int], ...]  # the first and the last of each part
    scope: tuple[str, ...] = ()
    quoted: bool = False  # it quotes another source, to which the statement is charged

    def __str__(self) -> str:
        parts = [f"{first}-{last}" if first < last else f"{first}" for first, last in self.lines]
        one = len(self.lines) == 1 and self.lines[0][0] == self.lines[0][1]
        return f"{'line' if one else 'lines'} {', '.join(parts)}{', as a quotation' * self.quoted}"


class Passage(NamedTuple):
    """A place in a paper, and how it was found."""

    passage: str  # "section 3.1", "Theorem 4.1"; empty if it is not known
    text: str
    scope: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ", ".join(filter(None, [self.passage, SAID_OF_TEXT[self.text]]))


class Claim(NamedTuple):
    """One statement of the field, as the register holds it."""

    id: str
    at: dict[str, Lines | Passage]  # each source that makes it, and where
    claim: str  # in our own words
    verdict: str
    remark: str  # the conditions, or what holds instead, or why nobody here can check it, …
    matters: str  # for what does not hold
    evidence: str  # empty for what is not checkable here
    setup: str  # of an experiment: the commit that holds its set-up
    trial: str  # and its name in normbook/studies
    page: str  # the notebook that decides it, seen from chapters/
    objection: str  # of a second reader
    answer: str  # to the objection
    changed: str  # from which other verdict, and why
    also: str  # another trial of the claim, with its bound and what it gave

    @property
    def card(self) -> str:
        """The address of its card, seen from chapters/."""
        return f"{self.page}.html#claim-{self.id}"


class Slip(NamedTuple):
    """A place in one source that is to be mended, and needs no verdict."""

    id: str
    kind: str  # one of KINDS
    source: str
    at: Lines | Passage
    wrong: str
    right: str
    matters: str


class Register(NamedTuple):
    """What the sources are called, and what they say."""

    sources: dict[str, str]
    claims: dict[str, Claim]
    slips: dict[str, Slip]


def refuse(where: str, expected: object, got: object, fix: str) -> NoReturn:
    raise ValueError(f"{FOLDER}/{where}: expected {expected}, got {got}; {fix}")


def check_choice(where: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        refuse(where, f"one of {list(choices)}", repr(value), "choose one of them")


def check_keys(where: str, entry: object, needed: set[str], optional: Collection[str] = ()) -> None:
    """Refuse an entry that lacks something, holds something else, or leaves something empty."""
    if not isinstance(entry, dict):
        refuse(where, f"the keys {sorted(needed)}", repr(entry), "write { key = value, … }")
    wrong = {
        "add": needed - entry.keys(),
        "remove": entry.keys() - needed - set(optional),
        "fill in": {key for key, value in entry.items() if value in ("", [], {})},
    }
    fixes = [f"{verb} {', '.join(sorted(keys))}" for verb, keys in wrong.items() if keys]
    if fixes:
        refuse(where, f"the keys {sorted(needed)}", sorted(entry), "; ".join(fixes))


def is_part(part: object) -> bool:
    whole = isinstance(part, list) and len(part) == 2 and {*map(type, part)} == {int}
    return whole and 1 <= part[0] <= part[1]


def scope_of(where: str, entry: dict) -> tuple[str, ...]:
    words = entry.get("scope", [])
    if not isinstance(words, list) or not all(isinstance(word, str) and word for word in words):
        refuse(where, "the words of the scope, one by one", words, 'write scope = ["may", "often"]')
    return tuple(words)


def place(where: str, source: str, entry: object) -> Lines | Passage:
    if source.isdigit():
        check_keys(where, entry, {"lines"}, {"scope", "quoted"})
        parts = entry["lines"]
        if not isinstance(parts, list) or not all(map(is_part, parts)) or parts != sorted(parts):
            expected = "the first and the last line of each part, from the top"
            refuse(where, expected, parts, "write lines = [[35, 39], [103, 103]]")
        quoted = entry.get("quoted", False) is True
        return Lines(tuple(map(tuple, parts)), scope_of(where, entry), quoted)
    check_keys(where, entry, {"text"}, {"passage", "scope"})
    check_choice(f"{where}, text", entry["text"], TEXTS)
    return Passage(entry.get("passage", ""), entry["text"], scope_of(where, entry))


def check_id(where: str, entry: dict, prefix: str) -> None:
    """Refuse an entry that has no address, or stands in another source's file."""
    if not re.fullmatch(rf"{prefix}-\w+", str(entry.get("id"))):
        fix = "number it, and put it into the file of its first source"
        refuse(where, f'id = "{prefix}-…"', repr(entry.get("id")), fix)


def check_run(where: str, entry: dict) -> None:
    """Refuse an experiment whose set-up cannot be found."""
    setup, trial = str(entry.get("setup")), str(entry.get("trial"))
    if not re.fullmatch(r"[0-9a-f]{7,40}", setup):
        refuse(where, "setup = a commit", repr(setup), "name the commit that holds the set-up")
    if not re.fullmatch(r"\w+\.[A-Z_0-9]+", trial):
        refuse(where, 'trial = "module.NAME"', repr(trial), "name a Trial of normbook/studies")


def check_claim(where: str, entry: dict) -> None:
    check_choice(f"{where}, verdict", entry.get("verdict"), VERDICTS)
    needed = {"id", "at", "claim", "verdict", *REMARKS[entry["verdict"]]}
    if entry["verdict"] != OPEN:
        needed |= {"evidence", "page"}
        check_choice(f"{where}, evidence", entry.get("evidence"), EVIDENCE)
    run = {"setup", "trial"} if entry.get("evidence") == EXPERIMENT else set()
    check_keys(where, entry, {*needed, *run, *READER}, {"changed", "also"})
    if run:
        check_run(where, entry)


def claim_of(source: str, entry: dict) -> Claim:
    check_id(f"{source}.toml, a claim", entry, source)
    where = f"{source}.toml, claim {entry['id']}"
    check_claim(where, entry)
    at = {key: place(f"{where}, at.{key}", key, found) for key, found in entry["at"].items()}
    if next(iter(at)) != source:
        refuse(where, f"at.{source} first", [*at], f"begin with at.{source}")
    remark = next((entry[key] for key in REMARKS[entry["verdict"]]), "")
    texts = {key: entry.get(key, "") for key in TEXTS_OF_CLAIM}
    return Claim(entry["id"], at, entry["claim"], entry["verdict"], remark, **texts)


def slip_of(source: str, entry: dict) -> Slip:
    check_id(f"{source}.toml, a slip", entry, f"slip-{source}")
    where = f"{source}.toml, slip {entry['id']}"
    check_keys(where, entry, {"id", "kind", "at", "wrong", "right", "matters"})
    check_choice(f"{where}, kind", entry["kind"], KINDS)
    texts = (entry[key] for key in ("wrong", "right", "matters"))
    return Slip(
        entry["id"], entry["kind"], source, place(f"{where}, at", source, entry["at"]), *texts
    )


def parse_register(source: str, text: str) -> dict:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        refuse(f"{source}.toml", "TOML", error, "mend that line")
    check_keys(f"{source}.toml", table, {"title"}, {"claim", "slip"})
    for kind in ("claim", "slip"):
        if not isinstance(table.get(kind, []), list):
            refuse(f"{source}.toml", f"a list of {kind}s", "one", f"write [[{kind}]] above each")
    return table


def by_id(entries: list) -> dict:
    counts = Counter(entry.id for entry in entries)
    for name, count in counts.items():
        if count > 1:
            file = f"{name.removeprefix('slip-').rsplit('-', 1)[0]}.toml"
            refuse(file, f"one entry {name}", count, "give each an id of its own")
    return {entry.id: entry for entry in entries}


def read(texts: dict[str, str]) -> Register:
    """Return the register that is written in these texts, one for each source.

    Errors: ValueError for an entry that is not whole, naming it and what it lacks.
    """
    tables = {source: parse_register(source, text) for source, text in texts.items()}
    claims, slips = [], []
    for source, table in tables.items():
        claims += [claim_of(source, entry) for entry in table.get("claim", ())]
        slips += [slip_of(source, entry) for entry in table.get("slip", ())]
    for claim in claims:
        for key in claim.at.keys() - tables.keys():
            where = f"{next(iter(claim.at))}.toml, claim {claim.id}"
            refuse(where, f"a source in {[*tables]}", key, f"mend at.{key}, or add {key}.toml")
    titles = {source: table["title"] for source, table in tables.items()}
    return Register(titles, by_id(claims), by_id(slips))


@cache
def register() -> Register:
    folder = files("normbook.claims").joinpath("register")
    texts = {p.name.removesuffix(".toml"): p.read_text(encoding="utf-8") for p in folder.iterdir()}
    return read(dict(sorted(texts.items())))
