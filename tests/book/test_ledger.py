"""No verdict is published that a cell did not reach, and no decision agrees with everything."""

import ast
import re
import tomllib
from collections import Counter, defaultdict
from html import escape
from typing import NamedTuple

import numpy as np
import pytest
from project import ROOT, read_cells, run

from normbook import claims as ledger
from normbook.claims import CONDITIONS, FALSE, HOLDS, LIMIT, OPEN, UNDECIDED, VERDICTS, Interval

DOCUMENTS = [key for key in ledger.register().sources if key.isdigit()]


def positive(x):
    return x > 0


READER = '\nobjection = "o"\nanswer = "w"'
DECIDED = 'claim = "a"\nevidence = "proof"\npage = "p"\nverdict = '
ENTRY = {
    HOLDS: DECIDED + '"holds"',
    CONDITIONS: DECIDED + '"holds under conditions"\nconditions = "c"',
    FALSE: DECIDED + '"does not hold"\ninstead = "b"\nmatters = "m"',
    OPEN: 'claim = "a"\nverdict = "not checkable here"\nwhy = "w"',
    LIMIT: DECIDED + '"holds, with a limit"\nlimit = "l"',
    UNDECIDED: DECIDED + '"not decided here"\ntried = "t"',
}
EXPERIMENTAL = ENTRY[HOLDS].replace("proof", "experiment")
RUN = '\nsetup = "0a1b2c3"\ntrial = "noise.HEAVY"'
SLIP = 'kind = "misprint"\nat = { lines = [[8, 10]] }\nwrong = "w"\nright = "r"\nmatters = "m"'


def document(*entries, number="000-01", at="{ lines = [[1, 1]] }", slips=()):
    """The file of a document with these claims and slips."""
    claims = [f'[[claim]]\nid = "{number}"\nat.000 = {at}\n{entry}{READER}' for entry in entries]
    slips = [f'[[slip]]\nid = "slip-000-1"\n{slip}' for slip in slips]
    return "\n\n".join(['title = "Notes"', *claims, *slips])


def read(*entries, **more):
    return ledger.read({"000": document(*entries, **more)})


@pytest.fixture
def claims(monkeypatch):
    """A register with one claim of each verdict: 000-0, 000-1, …"""
    found = {}
    for index, entry in enumerate(ENTRY.values()):
        found |= read(entry, number=f"000-{index}").claims
    whole = ledger.Register({"000": "Notes"}, found, {})
    monkeypatch.setattr(ledger.decision, "register", lambda: whole)
    return found


# The verdict is what was computed.


def test_each_verdict_is_reached_from_its_measurements():
    assert ledger.verdict(positive, given=1, planted=-1) == HOLDS
    assert ledger.verdict(positive, given=-1, planted=1) == FALSE
    assert ledger.verdict(positive, given=1, planted=-1, beyond=-2) == LIMIT
    assert ledger.verdict(positive, inside=np.float64(1), outside=np.float64(-1)) == CONDITIONS
    assert ledger.verdict(above=0, given=WIDE, planted=-1) == UNDECIDED
    assert ledger.verdict(above=0, given=Interval(1, 2, 3), planted=-1) == HOLDS
    assert ledger.verdict(above=0, given=Interval(-3, -2, -1), planted=Interval(1, 2, 4)) == FALSE
    assert ledger.verdict(below=0, inside=Interval(-3, -2, -1), outside=1) == CONDITIONS


WIDE = Interval(-1, 0.5, 2)  # contains both answers


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"given": True, "planted": False}, "let the function judge"),
        ({"given": 1, "planted": -1, "beyond": np.False_}, "let the function judge"),
        ({"given": np.ones(2), "planted": -np.ones(2)}, "expected True or False"),
        ({"given": WIDE, "planted": -1}, "given: expected bounds for an interval, got a function"),
        ({"given": 1, "planted": -1, "above": 0}, "expected one judgement"),
        ({"given": 1, "outside": -1}, "choose one of these"),
        ({"inside": 1, "outside": -1, "beyond": -1}, "choose one of these"),
        ({}, "choose one of these"),
        ({"holds": None, "given": 1, "planted": -1}, "expected one judgement"),
        ({"holds": None, "given": 1, "planted": -1, "above": 1, "below": 1}, "one judgement"),
        ({"holds": None, "given": np.nan, "planted": -1, "above": 0}, "a number or an interval"),
        ({"holds": None, "given": Interval(2, 1, 0), "planted": -1, "above": 0}, "an interval"),
    ],
)
def test_a_call_that_measures_nothing_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        ledger.verdict(**{"holds": positive} | given)


@pytest.mark.parametrize(
    "judgement", [{"holds": positive}, {"above": 0}], ids=["function", "bounds"]
)
@pytest.mark.parametrize("value", [1, -1])
def test_a_judgement_that_answers_alike_where_answers_must_differ_decides_nothing(judgement, value):
    same = {"given": value, "planted": value}
    for measured in (same, same | {"beyond": -value}, {"inside": value, "outside": value}):
        with pytest.raises(ledger.LedgerError, match="decides nothing"):
            ledger.verdict(**judgement, **measured)


DECIDING = {
    "000-0": {"given": 1, "planted": -1, "holds": positive},
    "000-1": {"inside": 1, "outside": -1, "holds": positive},
    "000-2": {"given": -1, "planted": 1, "holds": positive},
    "000-4": {"given": 1, "planted": -1, "beyond": -2, "holds": positive},
    "000-5": {"given": WIDE, "planted": -1, "above": 0},
}


@pytest.mark.parametrize("name", DECIDING)
def test_a_decision_that_agrees_with_the_register_is_shown_with_its_anchor(claims, name):
    decision = ledger.decide(name, **DECIDING[name])
    assert f'id="claim-{name}"' in decision._repr_html_()
    assert claims[name].verdict in repr(decision) and claims[name].remark in repr(decision)


# Ten seeds whose interval lies above 0, and would not without the best of them.
BARELY = ledger.interval(np.linspace(-0.16, 0.5, 10))


def test_what_the_loss_of_one_seed_would_turn_is_not_decided():
    assert BARELY.low > 0 > ledger.interval(BARELY.effects[:-1]).low
    assert ledger.verdict(above=0, given=BARELY, planted=-1) == UNDECIDED
    assert ledger.verdict(above=-0.2, given=BARELY, planted=-1) == HOLDS
    above = lambda pair: pair[0].low > 0  # noqa: E731
    assert ledger.verdict(above, given=(BARELY, BARELY), planted=(WIDE, BARELY)) == UNDECIDED


def test_a_planted_case_that_is_the_given_one_with_its_sign_turned_is_refused():
    found = ledger.interval([1.0, 2.0, 3.5])
    turned = ledger.interval([-effect for effect in found.effects])
    for given, planted in ((found, turned), (1.5, np.float64(-1.5))):
        with pytest.raises(ledger.LedgerError, match="with its sign turned"):
            ledger.verdict(above=-1, given=given, planted=planted)


@pytest.mark.parametrize("name", DECIDING)
def test_a_decision_fails_once_its_measurements_are_exchanged(claims, name):
    (one, first), (other, second), *rest = DECIDING[name].items()
    with pytest.raises(ledger.LedgerError, match="correct the entry, or the judgement"):
        ledger.decide(name, **{one: second, other: first}, **dict(rest))


def test_an_open_claim_cannot_be_decided_and_an_unknown_one_neither(claims):
    with pytest.raises(ledger.LedgerError, match="expected 'not checkable here', as in the"):
        ledger.decide("000-3", positive, given=1, planted=-1)
    with pytest.raises(ValueError, match="got '000-9'; add the claim to a file of"):
        ledger.decide("000-9", positive, given=1, planted=-1)


# The register is whole.


@pytest.mark.parametrize("entry", ENTRY.values(), ids=ENTRY)
def test_an_entry_with_all_its_parts_is_read(entry):
    (claim,) = read(entry).claims.values()
    assert claim.id == "000-01" and claim.at == {"000": ledger.Lines(((1, 1),))}
    assert bool(claim.remark) == (claim.verdict != HOLDS)
    assert bool(claim.evidence) == bool(claim.page) == (claim.verdict != OPEN)


@pytest.mark.parametrize("entry", ENTRY.values(), ids=ENTRY)
def test_an_entry_that_lacks_a_part_is_refused(entry):
    for left_out in entry.splitlines():
        with pytest.raises(ValueError, match=r"000\.toml, claim 000-01.*: expected .*, got .*; "):
            read(entry.replace(left_out, ""))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (document(ENTRY[HOLDS], ENTRY[HOLDS]), "expected one entry 000-01, got 2"),
        (document(ENTRY[HOLDS] + '\nwhy = "x"'), "remove why"),
        (document(ENTRY[HOLDS].replace('"a"', '""')), "fill in claim"),
        (document(ENTRY[HOLDS].replace("holds", "is true")), "verdict: expected one of"),
        (document(ENTRY[OPEN] + '\nevidence = "proof"'), "remove evidence"),
        (document(ENTRY[HOLDS] + RUN), "remove setup, trial"),
        (document(EXPERIMENTAL), "add setup, trial"),
        (document(EXPERIMENTAL + RUN.replace("0a1b2c3", "later")), "setup = a commit"),
        (document(EXPERIMENTAL + RUN.replace("noise.HEAVY", "noise")), "name a Trial of normbook"),
        (document(ENTRY[HOLDS], at='{ text = "read" }'), "add lines; remove text"),
        (document(ENTRY[HOLDS], at="{ lines = [] }"), "fill in lines"),
        (document(ENTRY[HOLDS], at="{ lines = [[2, 1]] }"), "the first and the last line"),
        (document(ENTRY[HOLDS], at="{ lines = [[9, 9], [1, 2]] }"), "from the top"),
        (document(ENTRY[HOLDS], at='{ lines = [[1, 1]], scope = "may" }'), "one by one"),
        (document(slips=[SLIP, SLIP]), "expected one entry slip-000-1, got 2"),
        (document(slips=[SLIP.replace("misprint", "slip")]), "kind: expected one of"),
        (document(slips=[SLIP.replace("right", "write")]), "slip slip-000-1: .*add right"),
        (document(slips=[SLIP]).replace("slip-000-1", "000-1"), "expected id = .slip-000-"),
        (document().replace("title", "name"), "add title; remove name"),
        (document(ENTRY[HOLDS]).replace("[[claim]]", "[claim]"), "write ..claim.. above each"),
        ("title = Notes", "expected TOML"),
    ],
)
def test_an_entry_that_is_wrong_is_refused_by_a_message_that_names_its_file(text, message):
    with pytest.raises(ValueError, match=r"normbook/claims/register/\w+\.toml.*" + message):
        ledger.read({"000": text})


NUMBER = re.compile(r"\b(?:slip-)?(?:00[0-4]|[a-z]+\d{4})-\d+\b")


def named(entry):
    return {id for text in entry if isinstance(text, str) for id in NUMBER.findall(text)}


def test_every_claim_that_a_text_of_the_register_names_is_there():
    _, claims, slips = ledger.register()
    entries = [*claims.values(), *slips.values()]
    assert set().union(*map(named, entries)) <= claims.keys() | slips.keys()
    assert named(entries[0]._replace(answer="See 000-99.")) - claims.keys() == {"000-99"}


# A verdict that changed says why.


def committed(path):
    """The text of a file at every commit that changed it, none where there is no history."""
    commits = run("git", "log", "--format=%H", "--", path).stdout.split()
    name = path.relative_to(ROOT).as_posix()
    found = (run("git", "show", f"{commit}:{name}") for commit in commits)
    return [shown.stdout for shown in found if shown.returncode == 0]


def test_every_verdict_that_was_once_another_says_why_it_changed():
    claims, old = ledger.register().claims, {}
    texts = [t for p in (ROOT / "normbook/claims/register").iterdir() for t in committed(p)]
    if not texts:
        pytest.skip("no earlier version to compare with: there is no git history here")
    for claim in (c for text in texts for c in tomllib.loads(text).get("claim", ())):
        old.setdefault(claim["id"], set()).add(claim["verdict"])
    for claim in claims.values():
        others, said = old.get(claim.id, set()) - {claim.verdict}, claim.changed
        reasons = [v for v in others if v in said and len(said) > len(v) + 20]
        assert not others or (reasons and said.startswith("Was ")), claim.id


# The tables show all of it.

CARD = re.compile(r"\[([\w-]+)\]\(([\w/-]+)\.ipynb#cell-id=claim-([\w-]+)\)")


@pytest.mark.parametrize("page", sorted({c.page for c in ledger.register().claims.values()} - {""}))
def test_what_is_said_lists_every_claim_of_a_page_under_its_verdict_with_a_link_to_its_card(page):
    own = {c.id: c for c in ledger.register().claims.values() if c.page == page}
    head, _, *rows = ledger.Said(page)._repr_markdown_().splitlines()
    seen = []
    for _, said, count, links, _ in (map(str.strip, row.split("|")) for row in rows):
        found = CARD.findall(links)
        assert len(found) == int(count) and {own[id].verdict for id, _, _ in found} == {said}
        assert all((at, anchor) == (page, id) for id, at, anchor in found)
        seen += [id for id, _, _ in found]
    assert sorted(seen) == sorted(own) and f"of {len(own)} " in head


def test_the_ledger_holds_every_claim_with_its_anchor_and_its_verdict():
    claims = ledger.register().claims
    titles = {claim.page: f"title of {claim.page}" for claim in claims.values()}
    html = ledger.Ledger(titles)._repr_html_()
    assert html.count("<tr") == 1 + len(claims)
    for claim in claims.values():
        row = html.split(f'<tr id="{claim.id}"')[1].split("</tr>")[0]
        assert f'data-verdict="{claim.verdict}"' in row and claim.evidence in row
        assert all(word in row for place in claim.at.values() for word in map(escape, place.scope))
        assert not claim.page or f'href="{claim.page}.html#claim-{claim.id}"' in row


def test_the_errata_hold_everything_that_a_document_got_wrong():
    _, claims, slips = ledger.register()
    for document in DOCUMENTS:
        html = ledger.Errata(document)._repr_html_()
        wrong = (c for c in claims.values() if c.verdict in (FALSE, CONDITIONS))
        own = {c.id for c in wrong if document in c.at and not c.at[document].quoted}
        own |= {slip.id for slip in slips.values() if slip.source == document}
        assert own and own == set(re.findall(r"ledger\.html#([\w-]+)", html))


def test_the_ledger_page_explains_every_verdict():
    texts = [cell.source for page, cell in read_cells("markdown") if page == "ledger"]
    assert [v for v in VERDICTS if f"- **{v}**: " not in "\n".join(texts)] == []


# Register and chapters agree.


class Call(NamedTuple):
    """One call of `decide` in a notebook."""

    page: str
    claim: str | None  # None if the name is not written out
    node: ast.Call
    shown: str  # all that the cell has printed or displayed
    cell: str  # its id


def calls(page, cell):
    shown = "\n".join(output.get("data", {}).get("text/html", "") for output in cell.outputs)
    for node in ast.walk(ast.parse(cell.source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "decide":
            named = getattr(node.args[0], "value", None) if node.args else None
            yield Call(page, named, node, shown, cell.id)


CALLS = [call for page, cell in read_cells() for call in calls(page, cell)]


def test_every_claim_is_decided_by_one_cell_and_every_decision_is_registered():
    claims = ledger.register().claims
    decided = Counter((call.claim, call.page) for call in CALLS)
    assert decided == Counter((c.id, c.page) for c in claims.values() if c.verdict != OPEN)


def test_a_cell_shows_its_decision_and_on_a_page_of_claims_has_the_id_of_its_claim():
    for call in CALLS:  # make it the last line; links find the id in JupyterLab
        assert f'id="claim-{call.claim}"' in call.shown, call.claim
        assert "/" not in call.page or call.cell == f"claim-{call.claim}"


def untold(calls, claims):
    """The experiments whose cards do not tell the seeds of every case: no interval was judged."""
    for call in calls:
        claim = claims[call.claim]
        told = ["Seeds: "] + ["of the limit: "] * (claim.verdict in (LIMIT, CONDITIONS))
        if claim.evidence == ledger.EXPERIMENT and not all(word in call.shown for word in told):
            yield call


def test_the_card_of_an_experiment_tells_the_seeds_of_each_case():
    claims = ledger.register().claims
    assert [call.claim for call in untold(CALLS, claims)] == []
    for call in (c for c in CALLS if claims[c.claim].evidence == ledger.EXPERIMENT):
        shown = call.shown.replace("of the limit: ", "").replace("Seeds: ", "")
        assert [*untold([call._replace(shown=shown)], claims)], call.claim


def bindings():
    """For each page, name: every expression that its cells bind to it alone."""
    bound = defaultdict(lambda: defaultdict(list))
    for page, cell in read_cells():
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                bound[page][node.targets[0].id].append(node.value)
    return bound


def is_constant(expression):
    return isinstance(getattr(expression, "operand", expression), ast.Constant)  # 1, or -1


def written_down(expression, bound):
    """Whether a number or a text is meant, rather than something that was measured."""
    if isinstance(expression, ast.Name):
        values = bound.get(expression.id, [])
        return bool(values) and all(map(is_constant, values))
    if isinstance(expression, ast.Tuple | ast.List):
        return all(written_down(part, bound) for part in expression.elts)
    if isinstance(expression, ast.Call) and getattr(expression.func, "id", "") == "interval":
        return all(written_down(part, bound) for part in expression.args)
    return not any(isinstance(node, ast.Name | ast.Call) for node in ast.walk(expression))


def test_what_decides_is_computed_and_not_written_down():
    bound = bindings()
    for call in CALLS:
        for keyword in call.node.keywords:
            if keyword.arg in ("given", "planted", "beyond", "inside", "outside"):
                assert not written_down(keyword.value, bound[call.page]), (call.claim, keyword.arg)


@pytest.mark.parametrize("text", ["-1.5", "(0, 'a')", "interval([low, 1.5])", "f(x)", "found"])
def test_a_measurement_that_is_written_down_is_told_from_one_that_is_computed(text):
    bound = {"low": [ast.parse("-1", mode="eval").body]}
    assert written_down(ast.parse(text, mode="eval").body, bound) != (text in ("f(x)", "found"))
