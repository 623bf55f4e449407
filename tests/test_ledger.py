"""No verdict is published that a cell did not reach, and no decision agrees with everything."""

import re
import tomllib
from html import escape

import ledger_checks
import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from project import NOTEBOOKS as PATHS
from project import ROOT

from normbook import claims as ledger
from normbook.claims import (
    CONDITIONS,
    EXPERIMENT,
    FALSE,
    HOLDS,
    LIMIT,
    OPEN,
    UNDECIDED,
    VERDICTS,
    Errata,
    Interval,
    Ledger,
    LedgerError,
    Lines,
    Passage,
    Said,
    Slips,
    decide,
    decision,
    tables,
    verdict,
)

NOTEBOOKS = {name: nbformat.read(path, as_version=4) for name, path in PATHS.items()}
DOCUMENTS = [key for key in ledger.register().sources if key.isdigit()]
FOLDER = ROOT / "normbook" / "claims"


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
SLIP = 'at = { lines = [[8, 10]] }\nwrong = "w"\nright = "r"\nmatters = "m"'


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
    monkeypatch.setattr(decision, "register", lambda: ledger.Register({"000": "Notes"}, found, {}))
    return found


# The verdict is what was computed.


def test_each_verdict_is_reached_from_its_measurements():
    assert verdict(positive, given=1, planted=-1) == HOLDS
    assert verdict(positive, given=-1, planted=1) == FALSE
    assert verdict(positive, given=1, planted=-1, beyond=-2) == LIMIT
    assert verdict(positive, inside=np.float64(1), outside=np.float64(-1)) == CONDITIONS
    assert verdict(above=0, given=WIDE, planted=-1) == UNDECIDED
    assert verdict(above=0, given=Interval(1, 2, 3), planted=-1) == HOLDS
    assert verdict(above=0, given=Interval(-3, -2, -1), planted=Interval(1, 2, 3)) == FALSE
    assert verdict(below=0, inside=Interval(-3, -2, -1), outside=1) == CONDITIONS


@pytest.mark.parametrize("planted", [0, 1])
def test_an_interval_around_all_that_the_claim_allows_decides_nothing(planted):
    within = {"above": -0.5, "below": 0.5}
    assert verdict(**within, given=Interval(-1, 0, 1), planted=planted) == UNDECIDED


WIDE = Interval(-1, 0.5, 2)  # contains both answers
ALIKE = [
    measured
    for value in (1, -1)
    for measured in (
        {"given": value, "planted": value},
        {"given": value, "planted": value, "beyond": -value},
        {"inside": value, "outside": value},
    )
]


@pytest.mark.parametrize("measured", ALIKE, ids=str)
def test_a_judgement_that_answers_alike_where_answers_must_differ_decides_nothing(measured):
    for judgement in ({"holds": positive}, {"above": 0}):
        with pytest.raises(LedgerError, match="decides nothing"):
            verdict(**judgement, **measured)
    with pytest.raises(LedgerError, match="decides nothing"):
        verdict(above=0, given=WIDE, planted=WIDE)


def test_a_judgement_that_ignores_what_was_measured_decides_nothing():
    with pytest.raises(LedgerError, match="decides nothing"):
        verdict(lambda _: True, given=1, planted=-1)


@pytest.mark.parametrize(
    ("measured", "answers"),
    [
        ({"given": 1, "planted": -1, "beyond": 2}, "given True, planted False, beyond True"),
        ({"given": -1, "planted": 1, "beyond": -2}, "given False, planted True, beyond False"),
        ({"inside": -1, "outside": 1}, "inside False, outside True"),
    ],
)
def test_answers_that_amount_to_no_verdict_are_told_one_by_one(measured, answers):
    found = verdict(positive, **measured)
    assert answers in found and found not in VERDICTS


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ({"given": True, "planted": False}, "let the function judge"),
        ({"given": np.bool_(True), "planted": 1}, "let the function judge"),
        ({"given": 1, "planted": -1, "beyond": False}, "let the function judge"),
        ({"given": np.ones(2), "planted": -np.ones(2)}, "expected True or False"),
        ({"given": WIDE, "planted": -1}, "given: expected bounds for an interval, got a function"),
        ({"given": 1, "planted": WIDE}, "planted: expected bounds for an interval"),
        ({"given": 1, "planted": -1, "above": 0}, "expected one judgement"),
        ({"given": 1}, "choose one of these"),
        ({"given": 1, "outside": -1}, "choose one of these"),
        ({"given": 1, "beyond": -1}, "choose one of these"),
        ({"inside": 1, "outside": -1, "beyond": -1}, "choose one of these"),
        ({}, "choose one of these"),
    ],
)
def test_a_call_that_measures_nothing_is_refused(measured, message):
    with pytest.raises(ValueError, match=message):
        verdict(positive, **measured)


@pytest.mark.parametrize(
    ("bounds", "given", "message"),
    [
        ({}, 1, "expected one judgement"),
        ({"above": 1, "below": 1}, 1, "expected one judgement"),
        ({"above": float("nan")}, 1, "expected one judgement"),
        ({"above": 0}, float("nan"), "given: expected a number or an interval"),
        ({"above": 0}, Interval(2, 1, 0), "given: expected a number or an interval"),
        ({"above": 0}, np.ones(2), "given: expected a number or an interval"),
        ({"above": 0}, True, "let the function judge"),
    ],
)
def test_bounds_that_leave_nothing_and_measurements_that_have_no_place_are_refused(
    bounds, given, message
):
    with pytest.raises(ValueError, match=message):
        verdict(**bounds, given=given, planted=-1)


DECIDING = {
    "000-0": {"given": 1, "planted": -1, "holds": positive},
    "000-1": {"inside": 1, "outside": -1, "holds": positive},
    "000-2": {"given": -1, "planted": 1, "holds": positive},
    "000-4": {"given": 1, "planted": -1, "beyond": -2, "holds": positive},
    "000-5": {"given": WIDE, "planted": -1, "above": 0},
}


@pytest.mark.parametrize("name", DECIDING)
def test_a_decision_that_agrees_with_the_register_is_shown_with_its_anchor(claims, name):
    decision = decide(name, **DECIDING[name])
    assert f'id="claim-{name}"' in decision._repr_html_()
    assert claims[name].verdict in repr(decision) and claims[name].remark in repr(decision)


@pytest.mark.parametrize(("page", "href"), [("p", ""), ("claims/p", "../"), ("a/b/p", "../../")])
def test_a_card_leads_back_to_the_ledger_from_whatever_folder_its_page_lies_in(page, href):
    claim = read(ENTRY[HOLDS].replace('"p"', f'"{page}"')).claims["000-01"]
    assert f'<a href="{href}ledger.html#000-01">' in decision.Decision(claim)._repr_html_()


def test_bounds_answer_for_an_interval_only_if_all_of_it_lies_on_one_side_of_each():
    for above, below, said in (
        (0, np.inf, None),
        (-np.inf, 1, None),
        (0, 1, None),
        (-3, 0, None),
        (-np.inf, 3, True),
        (-3, 3, True),
        (2, np.inf, False),
        (-np.inf, -1, False),
        (2, 3, False),
    ):
        assert decision.by_bounds(above, below, "given", WIDE) is said


def test_a_decision_shows_its_remark_and_what_a_second_reader_objected_where_there_is_one():
    claim = next(iter(ledger.register().claims.values()))
    claim = claim._replace(objection="Not so < here.", answer="Yes.", remark="Only < here.")
    shown = decision.Decision(claim)._repr_html_()
    assert "Objection: Not so &lt; here." in shown and "Answer: Yes." in shown
    assert "<br>Only &lt; here." in shown
    cut = decision.Decision(claim._replace(id="a<b", verdict="x<y"))._repr_html_()
    assert 'id="claim-a&lt;b"' in cut and ">x&lt;y</strong>" in cut
    bare = decision.Decision(claim._replace(objection="", remark=""))._repr_html_()
    assert "second reader" not in bare and "<br>" not in bare


@pytest.mark.parametrize("name", DECIDING)
def test_a_decision_fails_once_its_measurements_are_exchanged(claims, name):
    (one, first), (other, second), *rest = DECIDING[name].items()
    with pytest.raises(LedgerError, match="correct the entry, or the judgement"):
        decide(name, **{one: second, other: first}, **dict(rest))


@pytest.mark.parametrize("name", DECIDING)
@pytest.mark.parametrize("other", DECIDING)
def test_a_verdict_is_not_reached_by_the_measurements_of_another(claims, name, other):
    if name != other:
        with pytest.raises(LedgerError, match=re.escape(repr(claims[name].verdict))):
            decide(name, **DECIDING[other])


def test_an_open_claim_cannot_be_decided_and_an_unknown_one_neither(claims):
    with pytest.raises(LedgerError, match="expected 'not checkable here', as in the register"):
        decide("000-3", positive, given=1, planted=-1)
    with pytest.raises(ValueError, match="got '000-9'; add the claim to a file of"):
        decide("000-9", positive, given=1, planted=-1)


# The register is whole.


@pytest.mark.parametrize("entry", ENTRY.values(), ids=ENTRY)
def test_an_entry_with_all_its_parts_is_read(entry):
    (claim,) = read(entry).claims.values()
    assert claim.id == "000-01" and claim.at == {"000": Lines(((1, 1),))}
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
        (document(ENTRY[FALSE].replace("matters", "limit")), "add matters; remove limit"),
        (document(ENTRY[HOLDS].replace('"a"', '""')), "fill in claim"),
        (document(ENTRY[HOLDS].replace("holds", "is true")), "verdict: expected one of"),
        (document(ENTRY[HOLDS].replace("proof", "faith")), "evidence: expected one of"),
        (document(ENTRY[OPEN] + '\nevidence = "proof"'), "remove evidence"),
        (document(ENTRY[HOLDS] + RUN), "remove setup, trial"),
        (document(ENTRY[HOLDS], number="001-01"), "expected id = .000-…., got '001-01'"),
        (document(ENTRY[HOLDS]).replace("at.000", "at.009"), "expected at.000 first"),
        (document(ENTRY[HOLDS] + '\nat.b2 = { text = "read" }'), "claim 000-01: .*mend at.b2"),
        (document(ENTRY[HOLDS], at='"line 1"'), "at.000: expected the keys .'lines'."),
        (document(ENTRY[HOLDS], at='{ text = "read" }'), "add lines; remove text"),
        (document(ENTRY[HOLDS], at="{ lines = [] }"), "fill in lines"),
        (document(ENTRY[HOLDS], at="{ lines = [1, 2] }"), "the first and the last line"),
        (document(ENTRY[HOLDS], at="{ lines = [[2, 1]] }"), "the first and the last line"),
        (document(ENTRY[HOLDS], at="{ lines = [[3]] }"), "the first and the last line"),
        (document(ENTRY[HOLDS], at="{ lines = [[0, 1]] }"), "the first and the last line"),
        (document(ENTRY[HOLDS], at="{ lines = [[9, 9], [1, 2]] }"), "from the top"),
        (document(ENTRY[HOLDS], at='{ lines = [[1, 1]], scope = "may" }'), "one by one"),
        (document(ENTRY[HOLDS], at="{ lines = [[1, 1]], scope = [3] }"), "one by one"),
        (document(ENTRY[HOLDS], at='{ lines = [[1, 1]], scope = [""] }'), "one by one"),
        (document(slips=[SLIP, SLIP]), "expected one entry slip-000-1, got 2"),
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


def test_an_entry_begins_with_the_place_in_its_own_source():
    with pytest.raises(ValueError, match=r"expected at\.001 first"):
        ledger.read({"001": document(ENTRY[HOLDS], number="001-01")})


def test_one_line_and_more_are_told_apart():
    said = [str(Lines(parts)) for parts in (((3, 3),), ((3, 5),), ((3, 3), (7, 9)))]
    assert said == ["line 3", "lines 3-5", "lines 3, 7-9"]


def test_a_row_says_what_kind_of_test_decided_and_of_an_open_claim_nothing():
    whole = whole_ledger()
    for claim in whole.claims.values():
        assert whole.cited(claim).endswith(f"decided by {claim.evidence}") is bool(claim.evidence)


@pytest.mark.parametrize(
    ("passage", "message"),
    [
        ('{ text = "heard" }', "expected one of .'read', 'transcribed', 'unconfirmed'."),
        ('{ passage = "section 3" }', "add text"),
        ("{ lines = [[1, 1]] }", "add text; remove lines"),
    ],
)
def test_a_passage_of_a_paper_says_how_it_was_found(passage, message):
    entry = f'[[claim]]\nid = "b2-1"\nat.b2 = {passage}\n{ENTRY[HOLDS]}{READER}'
    with pytest.raises(ValueError, match=rf"b2\.toml, claim b2-1, at\.b2.*{message}"):
        ledger.read({"b2": f'title = "B"\n\n{entry}'})


# Experiments name their set-up and their seeds.


def test_an_experiment_names_its_setup_and_its_trial():
    (claim,) = read(EXPERIMENTAL + RUN).claims.values()
    assert (claim.evidence, claim.setup, claim.trial) == (EXPERIMENT, "0a1b2c3", "noise.HEAVY")


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("", "add setup, trial"),
        ('\nsetup = "0a1b2c3"', "add trial"),
        (RUN.replace("0a1b2c3", "later"), "setup = a commit"),
        (RUN.replace("noise.HEAVY", "heavy noise"), "name a Trial of normbook/studies"),
    ],
)
def test_an_experiment_without_setup_or_trial_is_refused(run, message):
    with pytest.raises(ValueError, match=f"claim 000-01.*: expected .*{message}"):
        read(EXPERIMENTAL + run)


def test_an_entry_that_no_second_reader_has_read_is_refused():
    with pytest.raises(ValueError, match="add answer, objection"):
        ledger.read({"000": document(ENTRY[HOLDS]).replace(READER, "")})


# A verdict that changed says why.


def unexplained(earlier, claims):
    """The claims that once had another verdict, and do not say which and why they have this one."""
    old = {}
    for claim in (c for text in earlier for c in tomllib.loads(text).get("claim", ())):
        old.setdefault(claim["id"], set()).add(claim["verdict"])
    return [c.id for c in claims.values() if not tells(c, old.get(c.id, set()) - {c.verdict})]


def tells(claim, others):
    """Whether it names one of its other verdicts, if it had any, and says more than that."""
    was, said = claim.changed.startswith("Was "), claim.changed
    return not others or (was and any(v in said and len(said) > len(v) + 20 for v in others))


PROVISIONAL = "To be read."


def unanswered(claims):
    """The entries whose objection or answer only keeps the place."""
    return [c.id for c in claims.values() if PROVISIONAL in (c.objection, c.answer)]


def test_no_objection_and_no_answer_only_keeps_the_place_of_one():
    assert unanswered(ledger.register().claims) == []
    (entry,) = read(ENTRY[HOLDS]).claims.values()
    assert unanswered({"a": entry._replace(answer=PROVISIONAL), "b": entry}) == [entry.id]


def test_every_verdict_that_was_once_another_says_why_it_changed():
    claims = ledger.register().claims
    texts = [t for path in (FOLDER / "register").iterdir() for t in ledger_checks.committed(path)]
    if not texts:
        pytest.skip("no earlier version to compare with: there is no git history here")
    assert unexplained(texts, claims) == []


def test_a_verdict_that_changed_without_a_reason_is_seen():
    (old,), (new,) = ([document(ENTRY[verdict])] for verdict in (HOLDS, CONDITIONS))
    assert unexplained([old], ledger.read({"000": new}).claims) == ["000-01"]
    for changed, silent in (("Was holds: a case outside of it was found.", []), ("c", ["000-01"])):
        told = ledger.read({"000": new + f'\nchanged = "{changed}"'}).claims
        assert unexplained([old, new], told) == silent


# Every claim has an address.


def anchors(*pages):
    return re.findall(r'<tr id="([\w-]+)"', "\n".join(page._repr_html_() for page in pages))


def whole_ledger():
    return Ledger({claim.page: "title" for claim in ledger.register().claims.values()})


def test_every_claim_and_every_slip_is_an_anchor_of_the_ledger():
    _, claims, slips = ledger.register()
    assert anchors(whole_ledger(), Slips()) == [*claims, *slips]


# The tables show all of it.


def test_a_place_is_told_in_words_and_sorted_by_numbers():
    far, near = Lines(((12, 12), (49, 49))), Lines(((103, 103),))
    assert [str(far), str(near)] == ["lines 12, 49", "line 103"]
    assert str(Lines(((48, 53), (71, 71)))) == "lines 48-53, 71" and far.lines < near.lines
    assert str(Passage("Theorem 4.1", "transcribed")) == "Theorem 4.1, as transcribed"
    assert str(Passage("", "transcribed")) == "as transcribed"
    assert str(Passage("section 3", "read")) == "section 3"
    assert str(Passage("section 2.2", "unconfirmed")) == "section 2.2, not confirmed"


CARD = re.compile(r"\[([\w-]+)\]\(([\w/-]+)\.ipynb#cell-id=claim-([\w-]+)\)")


@pytest.mark.parametrize("page", sorted({c.page for c in ledger.register().claims.values()} - {""}))
def test_what_is_said_lists_every_claim_of_a_page_under_its_verdict_with_a_link_to_its_card(page):
    own = {c.id: c for c in ledger.register().claims.values() if c.page == page}
    head, _, *rows = Said(page)._repr_markdown_().splitlines()
    seen = []
    for _, said, count, links, _ in (map(str.strip, row.split("|")) for row in rows):
        found = CARD.findall(links)
        assert len(found) == int(count) and {own[id].verdict for id, _, _ in found} == {said}
        assert all((at, anchor) == (page, id) for id, at, anchor in found)
        seen += [id for id, _, _ in found]
    assert sorted(seen) == sorted(own) and f"of {len(own)} " in head


def test_what_is_said_is_compared_as_text_with_every_number_and_every_claim(monkeypatch):
    found = ledger.register()
    claim = next(c for c in found.claims.values() if c.verdict == CONDITIONS)
    before = repr(Said(claim.page))
    changed = found._replace(claims=found.claims | {claim.id: claim._replace(verdict=HOLDS)})
    monkeypatch.setattr(tables, "register", lambda: changed)
    assert repr(Said(claim.page)) != before


def test_what_is_said_on_a_page_that_decides_nothing_is_refused_and_the_pages_named():
    with pytest.raises(ValueError, match=r"got 'batch-norm'; there are: .*claims/batch-norm"):
        Said("batch-norm")


def test_the_ledger_holds_every_claim_with_its_anchor_and_its_verdict():
    claims = ledger.register().claims
    titles = {claim.page: f"title of {claim.page}" for claim in claims.values()}
    html = Ledger(titles)._repr_html_()
    assert html.count("<tr") == 1 + len(claims)
    for claim in claims.values():
        row = html.split(f'<tr id="{claim.id}"')[1].split("</tr>")[0]
        assert f'data-verdict="{claim.verdict}"' in row and claim.evidence in row
        assert all(word in row for place in claim.at.values() for word in map(escape, place.scope))
        assert not claim.page or f'href="{claim.page}.html#claim-{claim.id}"' in row


def test_the_errata_hold_everything_that_a_document_got_wrong():
    _, claims, slips = ledger.register()
    for document in DOCUMENTS:
        html = Errata(document)._repr_html_()
        own = {
            c.id
            for c in claims.values()
            if document in c.at and c.verdict in (FALSE, CONDITIONS, LIMIT)
        }
        own |= {slip.id for slip in slips.values() if slip.source == document}
        assert own and own == set(re.findall(r"ledger\.html#([\w-]+)", html))


def test_the_errata_are_sorted_by_line_in_each_part_and_leave_nothing_empty():
    for document in DOCUMENTS:
        parts = Errata(document).parts
        assert any(len(rows) > 1 for rows in parts.values())
        for rows in parts.values():
            first_lines = [where.lines[0][0] for where, *_ in rows]
            assert first_lines == sorted(first_lines) and all(map(all, rows))


def test_the_ledger_page_explains_every_verdict():
    texts = [cell.source for cell in NOTEBOOKS["ledger"].cells if cell.cell_type == "markdown"]
    assert [v for v in VERDICTS if f"- **{v}**: " not in "\n".join(texts)] == []


def test_every_paper_of_the_register_is_in_the_bibliography():
    keys = re.findall(r"^@\w+\{(\w+),", (ROOT / "references.bib").read_text("utf-8"), re.M)
    papers = set(ledger.register().sources) - set(DOCUMENTS)
    assert len(papers) > 20 and papers <= set(keys)


# Register and chapters agree.


def test_every_claim_is_decided_by_one_cell_and_every_decision_is_registered():
    assert ledger_checks.problems(ledger.register().claims, NOTEBOOKS) == []


def page(source, shown='id="claim-000-0"'):
    output = new_output("execute_result", data={"text/html": shown}, execution_count=1)
    return new_notebook(cells=[new_code_cell(source, execution_count=1, outputs=[output])])


GOOD = 'found = f(x)\ndecide("000-0", positive, given=found, planted=f(-x))'
INTERVAL = GOOD.replace("given=found", "given=interval(f(x))")
TYPED = GOOD.replace("given=found", "given=interval([low, 1.5])")


def reported(claims, source, shown='id="claim-000-0"', name="p"):
    known = {key: claims[key] for key in ("000-0", "000-3")}
    return "\n".join(ledger_checks.problems(known, {name: page(source, shown)}))


@pytest.mark.parametrize("source", [GOOD, INTERVAL])
def test_a_page_that_decides_its_claim_has_no_problems(claims, source):
    assert reported(claims, source) == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "x = 1"}, "decided by 0 cells"),
        ({"source": f"{GOOD}\n{GOOD}"}, "decided by 2 cells"),
        ({"source": GOOD.replace("000-0", "000-3")}, "decided by 1 cells"),
        ({"source": GOOD.replace("000-0", "b-0")}, "does not hold"),
        ({"source": GOOD.replace('"000-0"', "name")}, "does not hold"),
        ({"source": GOOD, "name": "q"}, "the register says p"),
        ({"source": GOOD, "shown": ""}, "does not show"),
        ({"source": GOOD.replace("f(-x)", "-1.5")}, "planted is written down"),
        ({"source": GOOD.replace("f(-x)", "(0, 'a')")}, "planted is written down"),
        ({"source": GOOD.replace("f(x)", "0.25")}, "given is written down"),
        ({"source": GOOD.replace("f(-x))", "f(-x), beyond=-2)")}, "beyond is written down"),
        ({"source": TYPED.replace("low", "-1")}, "given is written down"),
        ({"source": f"low = -1\n{TYPED}"}, "given is written down"),
    ],
)
def test_a_page_and_a_register_that_differ_are_reported(claims, change, message):
    assert message in reported(claims, **change)


@pytest.mark.parametrize(
    ("name", "cell", "count"),
    [("claims/p", "a1b2c3", 1), ("claims/p", "claim-000-0", 0), ("p", "a1b2c3", 0)],
)
def test_a_cell_on_a_page_of_claims_that_does_not_have_the_id_of_its_claim_is_reported(
    claims, name, cell, count
):
    notebook = page(GOOD)
    notebook.cells[0].id = cell
    found = ledger_checks.calls(name, notebook)
    assert len([*ledger_checks.misnamed(claims, found)]) == count
