"""What parts on another processor is named, and what a run of them all says."""

import processors
import pytest

TESTS = """
import os, pytest

def test_it_holds_everywhere():
    assert True

def test_it_holds_with_new_kernels():
    assert os.environ.get("ATEN_CPU_CAPABILITY") != "default"

def test_it_holds_with_one_thread():
    assert os.environ["OMP_NUM_THREADS"] == "1"

@pytest.mark.programs
def test_it_starts_a_program():
    assert False
"""


@pytest.fixture
def project(monkeypatch, tmp_path):
    (tmp_path / "test_small.py").write_text(TESTS, "utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = programs: starts programs\n", "utf-8")
    monkeypatch.setattr(processors, "ROOT", tmp_path)


def test_each_instruction_set_names_what_parts_there(project, capsys):
    assert processors.main(["--sets", "native", "SSE"]) == 1
    said = capsys.readouterr().out
    assert "native, threads: 1: 0 red" in said and "native, threads: 2: 1 red" in said
    assert "SSE, threads: 2: 2 red\n  test_small test_it_holds_with_new_kernels" in said


def test_where_nothing_parts_the_run_is_green(project):
    assert processors.main(["--sets", "native", "--threads", "1"]) == 0


def test_a_run_that_does_not_get_to_its_end_says_what_pytest_said(project):
    with pytest.raises(SystemExit, match="no-such-folder"):
        processors.main(["no-such-folder", "--sets", "native", "--threads", "1"])
