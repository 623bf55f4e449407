"""What parts on another processor is named, and what a run of them all says."""

import processors
import pytest

TESTS = """
import os, pytest

def test_it_holds_everywhere():
    assert os.environ["OMP_NUM_THREADS"] == "2"

def test_it_holds_with_new_kernels():
    assert os.environ.get("ATEN_CPU_CAPABILITY") != "default"

@pytest.mark.programs
def test_it_starts_a_program():
    assert False
"""


@pytest.fixture
def project(monkeypatch, tmp_path):
    (tmp_path / "test_small.py").write_text(TESTS, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = programs: starts programs\n", "utf-8")
    monkeypatch.setattr(processors, "ROOT", tmp_path)


def test_what_parts_under_an_older_instruction_set_is_named(project, capsys):
    assert processors.main(["--sets", "SSE", "--threads", "2"]) == 1
    said = capsys.readouterr().out
    assert said == "SSE, threads: 2: 1 red\n  test_small test_it_holds_with_new_kernels\n"
