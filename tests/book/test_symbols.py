"""The table of symbols, and what the derivations and the pages write."""

import re

import sympy as sp
from project import ROOT

from normlib.evidence import CASES
from normlib.verify.derivations import Derivation


def read_table():
    """The names in code of the table of symbols."""
    text = (ROOT / "how-to-read.md").read_text("utf-8").partition("## Notation")[2]
    rows = (line.split(" | ") for line in text.splitlines() if line.startswith("| $"))
    return {name for row in rows for name in re.findall(r"`(\w+)`", row[1])}


def find_symbols(derivation):
    """The names of all symbols of a derivation; that of a gradient without its d."""
    parts = [derivation.y, derivation.output, *derivation.adjoints, *derivation.adjoints.values()]
    parts += [
        *derivation.gradients.values(),
        *(part for stage in derivation.stages for part in stage),
    ]
    atoms = {str(a) for part in parts for a in part.atoms(sp.Symbol, sp.IndexedBase)}
    return {re.sub(r"^d(?=\w)", "", name) for name in atoms}


def unexplained(names):
    known = read_table() | {"mu"}  # printed as μ, in code `mean`
    return names - known - {name.removeprefix("d") for name in known}


def test_every_symbol_of_a_derivation_stands_in_the_table_of_symbols():
    whole = [case.derivation() for case in CASES if case.forward.__name__ != "partial_rms_norm"]
    assert len(whole) >= 9 and all(isinstance(each, Derivation) for each in whole)
    assert unexplained(set().union(*map(find_symbols, whole))) == set()
    assert unexplained({"x", "n"}) == {"n"}
