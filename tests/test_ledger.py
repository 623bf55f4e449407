"""No verdict is published that a cell did not reach, and every decision can turn over."""

import re

import ledger_checks
import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from project import CHAPTERS

from normlib import claims as ledger
from normlib.claims import (
    CONDITIONS,
    FALSE,
    HOLDS,
    OPEN,
    Errata,
    Ledger,
    LedgerError,
    decide,
    decision,
    verdict,
)

NOTEBOOKS = {path.stem: nbformat.read(path, as_version=4) for path in CHAPTERS}


def positive(x):
    return x > 0


ENTRY = {
    HOLDS: 'claim = "a"\nverdict = "holds"\npage = "p"',
    CONDITIONS: 'claim = "a"\nverdict = "holds under conditions"\nconditions = "c"\npage = "p"',
    FALSE: 'claim = "a"\nverdict = "does not hold"\ninstead = "b"\nmatters = "m"\npage = "p"',
    OPEN: 'claim = "a"\nverdict = "not checkable here"\nwhy = "w"',
}


def register(*entries, number="000-01"):
    claims = "".join(
        f'\n[[claim]]\nid = "{number}"\nat = {{ 000 = "line 1" }}\n{e}' for e in entries
    )
    return f'[sources]\n000 = "Notes"\n{claims}'


@pytest.fixture
def claims(monkeypatch):
    """A register with one claim of each verdict: a-0, a-1, …"""
    found = {}
    for index, entry in enumerate(ENTRY.values()):
        found |= ledger.read(register(entry, number=f"a-{index}")).claims
    monkeypatch.setattr(decision, "register", lambda: ledger.Register({"000": "Notes"}, found, []))
    return found


# The verdict is what was computed.


def test_each_verdict_is_reached_from_its_measurements():
    assert verdict(positive, given=1, planted=-1) == HOLDS
    assert verdict(positive, given=-1, planted=1) == FALSE
    assert verdict(positive, inside=np.float64(1), outside=np.float64(-1)) == CONDITIONS


@pytest.mark.parametrize("value", [1, -1])
@pytest.mark.parametrize("pair", [("given", "planted"), ("inside", "outside")])
def test_a_judgement_that_nothing_turns_over_decides_nothing(pair, value):
    with pytest.raises(LedgerError, match="decides nothing"):
        verdict(positive, **dict.fromkeys(pair, value))


def test_a_judgement_that_ignores_what_was_measured_decides_nothing():
    with pytest.raises(LedgerError, match="decides nothing"):
        verdict(lambda _: True, given=1, planted=-1)


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ({"given": True, "planted": False}, "let the function judge"),
        ({"given": np.bool_(True), "planted": 1}, "let the function judge"),
        ({"given": np.ones(2), "planted": -np.ones(2)}, "must return True or False"),
        ({"given": 1}, "decide takes"),
        ({"given": 1, "outside": -1}, "decide takes"),
        ({}, "decide takes"),
    ],
)
def test_a_call_that_measures_nothing_is_refused(measured, message):
    with pytest.raises(ValueError, match=message):
        verdict(positive, **measured)


DECIDING = {
    "a-0": {"given": 1, "planted": -1},
    "a-1": {"inside": 1, "outside": -1},
    "a-2": {"given": -1, "planted": 1},
}


@pytest.mark.parametrize("name", DECIDING)
def test_a_decision_that_agrees_with_the_register_is_shown_with_its_anchor(claims, name):
    decision = decide(name, positive, **DECIDING[name])
    assert f'id="claim-{name}"' in decision._repr_html_()
    assert claims[name].verdict in repr(decision)


@pytest.mark.parametrize("name", DECIDING)
def test_every_decision_turns_over_with_its_measurements_exchanged(claims, name):
    (one, first), (other, second) = DECIDING[name].items()
    with pytest.raises(LedgerError, match="one of them is wrong"):
        decide(name, positive, **{one: second, other: first})


def test_an_open_claim_cannot_be_decided_and_an_unknown_one_neither(claims):
    with pytest.raises(LedgerError, match="the register says 'not checkable here'"):
        decide("a-3", positive, given=1, planted=-1)
    with pytest.raises(ValueError, match=re.escape("register.toml")):
        decide("a-9", positive, given=1, planted=-1)


# The register is whole.


@pytest.mark.parametrize("entry", ENTRY.values(), ids=ENTRY)
def test_an_entry_with_all_its_parts_is_read(entry):
    assert list(ledger.read(register(entry)).claims) == ["000-01"]


@pytest.mark.parametrize("entry", ENTRY.values(), ids=ENTRY)
def test_an_entry_that_lacks_a_part_is_refused(entry):
    for left_out in entry.splitlines():
        with pytest.raises(ValueError, match="000-01"):
            ledger.read(register(entry.replace(left_out, "")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (register(ENTRY[HOLDS], ENTRY[HOLDS]), "twice"),
        (register(ENTRY[HOLDS] + '\nwhy = "x"'), "exactly"),
        (register(ENTRY[HOLDS].replace('"a"', '""')), "none empty"),
        (register(ENTRY[HOLDS].replace("holds", "is true")), "verdict must be"),
        (register(ENTRY[HOLDS]).replace("{ 000", "{ 009"), "sources"),
    ],
)
def test_an_entry_that_is_wrong_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        ledger.read(text)


# The tables show all of it.


def test_the_ledger_holds_every_claim_with_its_anchor_and_its_verdict():
    claims = ledger.register().claims
    titles = {claim.page: f"title of {claim.page}" for claim in claims.values()}
    html = Ledger(titles)._repr_html_()
    assert html.count("<tr") == 1 + len(claims)
    for claim in claims.values():
        row = html.split(f'<tr id="{claim.id}"')[1].split("</tr>")[0]
        assert f'data-verdict="{claim.verdict}"' in row
        assert not claim.page or f"{claim.page}.html#claim-{claim.id}" in row


def test_the_errata_hold_everything_that_a_document_got_wrong():
    claims = ledger.register().claims.values()
    documents = [key for key in ledger.register().sources if key.isdigit()]
    for document in documents:
        html = Errata(document)._repr_html_()
        own = {c.id for c in claims if document in c.at and c.verdict in (FALSE, CONDITIONS)}
        assert own and own == set(re.findall(r"ledger\.html#([\w-]+)", html))


def test_the_errata_are_sorted_by_line_and_say_why_each_matters():
    for document in ("000", "001", "002", "003", "004"):
        rows = Errata(document).wrong
        lines = [int(re.search(r"\d+", row[0])[0]) for row in rows]
        assert len(rows) > 2 and lines == sorted(lines) and all(map(all, (r[:4] for r in rows)))


# Register and chapters agree.


def test_every_claim_is_decided_by_one_cell_and_every_decision_is_registered():
    assert ledger_checks.problems(ledger.register().claims, NOTEBOOKS) == []


def page(source, shown='id="claim-a-0"'):
    output = new_output("execute_result", data={"text/html": shown}, execution_count=1)
    return new_notebook(cells=[new_code_cell(source, execution_count=1, outputs=[output])])


GOOD = 'found = f(x)\ndecide("a-0", positive, given=found, planted=f(-x))'


def reported(claims, source, shown='id="claim-a-0"', name="p"):
    known = {key: claims[key] for key in ("a-0", "a-3")}
    return "\n".join(ledger_checks.problems(known, {name: page(source, shown)}))


def test_a_page_that_decides_its_claim_has_no_problems(claims):
    assert reported(claims, GOOD) == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "x = 1"}, "decided by 0 cells"),
        ({"source": f"{GOOD}\n{GOOD}"}, "decided by 2 cells"),
        ({"source": GOOD.replace("a-0", "a-3")}, "decided by 1 cells"),
        ({"source": GOOD.replace("a-0", "b-0")}, "does not hold"),
        ({"source": GOOD.replace('"a-0"', "name")}, "does not hold"),
        ({"source": GOOD, "name": "q"}, "the register says p"),
        ({"source": GOOD, "shown": ""}, "does not show"),
        ({"source": GOOD.replace("f(-x)", "-1.5")}, "planted is written down"),
        ({"source": GOOD.replace("f(-x)", "(0, 'a')")}, "planted is written down"),
        ({"source": GOOD.replace("f(x)", "0.25")}, "given is written down"),
    ],
)
def test_a_page_and_a_register_that_differ_are_reported(claims, change, message):
    assert message in reported(claims, **change)
