"""The tool that changes the layers notices what a test notices, and nothing else."""

import ast
import json
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import mutants
import pytest
from project import ROOT

pytestmark = pytest.mark.programs

CORE = "normlib/layers/core.py"


def change(path, function, shipped, mutated):
    """A mutant by its name. Errors: AssertionError if its line does not stand there."""
    text = (ROOT / path).read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    (node,) = (n for n in ast.walk(ast.parse(text)) if getattr(n, "name", "") == function)
    body = "".join(lines[node.lineno - 1 : node.end_lineno])
    assert body.count(shipped) == 1, f"{function} of {path} has no line {shipped!r}"
    return mutants.Mutant(path, function, text, text.replace(body, body.replace(shipped, mutated)))


def test_wrong_layers_are_noticed_and_what_computes_the_same_is_not():
    same = change(*next(mutants.list_equivalent()))
    wrong = [
        (CORE, "standardize", "average(c * c, axes) + eps", "average(c * c, axes) - eps"),
        (CORE, "summed", "if axes else x", "if not axes else x"),
    ]
    every = [same, *(change(*name) for name in wrong)]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as fresh:  # without the library
        noticed = fresh.submit(mutants.try_mutants, every, ("layers", "bad_input")).result()
    assert noticed == [False, True, True]


def test_every_mutant_that_computes_the_same_has_its_place():
    names = [*mutants.list_equivalent()]
    assert names and len({*names}) == len(names)
    assert [change(*name).name() for name in names] == names


def test_no_mutant_is_unexplained():
    table = json.loads(mutants.TABLE.read_text(encoding="utf-8"))
    assert table["unexplained"] == 0 and table["tried"] > 1500
    assert table["tried"] == table["noticed"] + table["equivalent"]
