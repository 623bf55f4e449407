"""The gate in front of a notebook, nbval and hygiene together, lets the right ones through."""

import sys

import hygiene
import nbformat
import pytest
from project import ROOT, run

FIXTURES = ROOT / "tests" / "fixtures"
# What each half of the gate lets through. nbval runs a stripped cell, but compares nothing.
PASSES = {
    "gate-pass-healthy": {"nbval": True, "hygiene": True},
    "gate-fail-wrong-output": {"nbval": False, "hygiene": True},
    "gate-fail-exception": {"nbval": False, "hygiene": True},
    "gate-fail-stripped": {"nbval": True, "hygiene": False},
}


def run_pytest(*arguments):
    """Run pytest with the project's own settings."""
    return run(sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", *arguments)


def gate(path):
    """Return which half of the gate lets a notebook through."""
    result = run_pytest(path)
    assert result.returncode in (0, 1), result.stdout + result.stderr
    clean = hygiene.problems(nbformat.read(path, as_version=4)) == []
    return {"nbval": result.returncode == 0, "hygiene": clean}


@pytest.mark.parametrize("name", PASSES)
def test_a_notebook_passes_the_gate_only_when_its_name_says_so(name):
    assert gate(FIXTURES / f"{name}.ipynb") == PASSES[name]
    assert all(PASSES[name].values()) == name.startswith("gate-pass-")


def test_every_fixture_is_tried():
    assert {path.stem for path in FIXTURES.glob("*.ipynb")} == set(PASSES)


def test_the_normal_run_does_not_collect_the_fixtures():
    listed = run_pytest("--collect-only", "-q", "tests").stdout
    assert "test_gate.py" in listed and "gate-pass-healthy.ipynb" not in listed
