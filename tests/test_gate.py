"""The gate in front of a notebook, nbval and hygiene together, lets the right ones through."""

import os
import subprocess
import sys
from pathlib import Path

import hygiene
import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
# What each half of the gate lets through. nbval runs a stripped cell, but compares nothing.
PASSES = {
    "gate-pass-healthy": {"nbval": True, "hygiene": True},
    "gate-fail-wrong-output": {"nbval": False, "hygiene": True},
    "gate-fail-exception": {"nbval": False, "hygiene": True},
    "gate-fail-stripped": {"nbval": True, "hygiene": False},
}


def run_pytest(*arguments):
    """Run pytest with the project's own settings, as if nobody else did."""
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), *arguments]
    # A worker of the outer run must not be taken for one of the inner run.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


def gate(path):
    """Return which half of the gate lets a notebook through."""
    run = run_pytest(str(path))
    assert run.returncode in (0, 1), run.stdout + run.stderr
    clean = hygiene.problems(nbformat.read(path, as_version=4)) == []
    return {"nbval": run.returncode == 0, "hygiene": clean}


@pytest.mark.parametrize("name", PASSES)
def test_a_notebook_passes_the_gate_only_when_its_name_says_so(name):
    assert gate(FIXTURES / f"{name}.ipynb") == PASSES[name]
    assert all(PASSES[name].values()) == name.startswith("gate-pass-")


def test_every_fixture_is_tried():
    assert {path.stem for path in FIXTURES.glob("*.ipynb")} == set(PASSES)


def test_the_normal_run_does_not_collect_the_fixtures():
    run = run_pytest("--collect-only", "-q", "tests")
    assert "test_gate.py" in run.stdout and "gate-pass-healthy.ipynb" not in run.stdout
