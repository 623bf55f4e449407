"""The gate in front of a notebook, nbval and hygiene together, lets the right ones through."""

import re
import sys
from collections import defaultdict

import hygiene
import nbformat
import pytest
from cases import FIXTURES
from project import ROOT, run

pytestmark = pytest.mark.programs

# What each half of the gate lets through. nbval runs a stripped cell, but compares nothing.
# The normal run does not collect these notebooks; if it did, they would make it red.
PASSES = {
    "gate-pass-healthy": {"nbval": True, "hygiene": True},
    "gate-fail-wrong-output": {"nbval": False, "hygiene": True},
    "gate-fail-exception": {"nbval": False, "hygiene": True},
    "gate-fail-stripped": {"nbval": True, "hygiene": False},
}


CELL = re.compile(r"^(PASSED|FAILED|ERROR) \S*?([\w-]+)\.ipynb::", re.M)


def run_pytest(*arguments):
    """Run pytest with the project's own settings, but without loading the library."""
    command = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "--noconftest"]
    return run(*command, *arguments)


@pytest.fixture(scope="module")
def cells():
    """What nbval says of the cells of each fixture."""
    result = run_pytest("-r", "A", FIXTURES)
    assert result.returncode == 1, result.stdout + result.stderr
    said = defaultdict(set)
    for outcome, name in CELL.findall(result.stdout):
        said[name].add(outcome)
    return said


@pytest.mark.parametrize("name", PASSES)
def test_a_notebook_passes_the_gate_only_when_its_name_says_so(cells, name):
    assert "PASSED" in cells[name]
    clean = hygiene.problems(nbformat.read(FIXTURES / f"{name}.ipynb", as_version=4)) == []
    assert {"nbval": cells[name] == {"PASSED"}, "hygiene": clean} == PASSES[name]
    assert all(PASSES[name].values()) == name.startswith("gate-pass-")


def test_every_fixture_is_tried():
    assert {path.stem for path in FIXTURES.glob("*.ipynb")} == set(PASSES)
