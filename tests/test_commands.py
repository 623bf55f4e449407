"""The commands of the Makefile do what they say, and fail in one clear line."""

import os
import shutil
import signal
import subprocess
import sys
import time

import nbformat
import pytest
import record
import verification
from nbformat.v4 import new_code_cell, new_notebook
from project import ROOT, environment, run

TARGETS = ["help", "book", "test", "serve", "lab", "refresh", "bench", "cifar", "clean", "lock"]
FRAME = [
    "Makefile",
    "_config.yml",
    "_static",
    "pyproject.toml",
    "requirements.txt",
    "requirements.lock",
    "tools",
]
CLOSED = "http://127.0.0.1:9"  # a port where nobody listens


@pytest.fixture
def tree(tmp_path):
    """A copy of the project without its environment and without its chapters."""
    for name in FRAME:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    (tmp_path / "README.md").write_text("")
    (tmp_path / "chapters").mkdir()
    return tmp_path


def make(tree, *arguments, **changes):
    """Run make in `tree`, in the environment of this test."""
    command = ("make", "-o", ".venv/ready", f"PY={sys.executable}", *arguments)
    return run(*command, cwd=tree, **changes)


def only_line(result):
    """Return the one line that a failed command said on stderr, without make's own."""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("make: ***")]
    assert result.returncode != 0 and len(lines) == 1, result.stdout + result.stderr
    return lines[0]


def notebook(tree, *sources, page="page"):
    """Write an unexecuted notebook into `tree` and return its path."""
    cells = [new_code_cell(s, id=f"cell-{i}") for i, s in enumerate(sources)]
    path = tree / "chapters" / f"{page}.ipynb"
    path.parent.mkdir(exist_ok=True)
    nbformat.write(new_notebook(cells=cells), path)
    return path


def test_help_is_the_default_and_lists_every_target():
    said = run("make").stdout
    assert [line.split()[1] for line in said.splitlines()] == TARGETS


def test_code_and_notebooks_pass_the_linter_and_are_formatted():
    for command in (("check",), ("format", "--check")):
        result = run(sys.executable, "-m", "ruff", *command, ".")
        assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("says", ["3.9", "3.10", "2.7", "Python 3.9.18"])
def test_a_python_that_is_too_old_ends_in_one_line(tree, says):
    old = tree / "python3"
    old.write_text(f"#!/bin/sh\necho '{says}'\n")
    old.chmod(0o755)
    line = only_line(run("make", "book", f"PYTHON={old}", cwd=tree))
    assert f"expected Python 3.11 or newer as '{old}', found {says}" in line
    assert not (tree / ".venv").exists()


def test_a_missing_python_ends_in_one_line(tree):
    line = only_line(run("make", "book", "PYTHON=no-such-python", cwd=tree))
    assert "expected Python 3.11 or newer as 'no-such-python', found none" in line


def test_a_python_without_venv_ends_in_one_line(tree):
    poor = tree / "python3"
    poor.write_text('#!/bin/sh\n[ "$1" = -c ] && echo 3.12\n')
    poor.chmod(0o755)
    assert "apt install python3-venv" in only_line(run("make", "test", f"PYTHON={poor}", cwd=tree))


def test_a_missing_network_ends_in_one_line_and_leaves_no_environment_that_counts(tree):
    # Only the closed port is left: no settings of pip, of a proxy, or of this machine.
    clean = {name: None for name in os.environ if name.upper().startswith("PIP_")}
    closed = {"PIP_INDEX_URL": f"{CLOSED}/simple", "PIP_CONFIG_FILE": os.devnull, "no_proxy": "*"}
    env = {k: v for k, v in environment(**closed).items() if k not in clean or k in closed}
    command = ["make", "book", f"PYTHON={sys.executable}"]
    result = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
    assert "check the network" in only_line(result)
    assert not (tree / ".venv" / "ready").exists()


def test_refresh_of_an_unknown_chapter_names_those_that_exist(tree):
    notebook(tree, "1 + 1")
    line = only_line(make(tree, "refresh", "CHAPTER=nonsense"))
    assert "got nonsense; there are: page" in line


@pytest.mark.parametrize("name", ["topic", "claims/topic", "chapters/claims/topic.ipynb"])
def test_refresh_finds_a_page_in_a_folder_and_runs_it_there(tree, name):
    path = notebook(tree, "import os\nprint(os.path.basename(os.getcwd()))", page="claims/topic")
    assert make(tree, "refresh", f"CHAPTER={name}").returncode == 0
    assert nbformat.read(path, 4).cells[0].outputs[0].text == "claims\n"


def test_refresh_does_not_take_a_page_of_another_folder_for_the_one_that_is_named(tree):
    path = notebook(tree, "1 + 1")
    line = only_line(make(tree, "refresh", "CHAPTER=claims/page"))
    assert "got claims/page; there are: page" in line
    assert nbformat.read(path, 4).cells[0].execution_count is None


def test_refresh_stores_the_outputs_and_a_second_one_changes_nothing(tree):
    path = notebook(tree, "print(2 + 3)", "import os\nprint(os.path.basename(os.getcwd()))")
    assert make(tree, "refresh", "CHAPTER=page").returncode == 0
    once = path.read_bytes()
    cells = nbformat.reads(once.decode(), 4).cells
    assert [cell.outputs[0].text for cell in cells] == ["5\n", "chapters\n"]
    assert make(tree, "refresh").returncode == 0
    assert path.read_bytes() == once


def test_refresh_replaces_the_file_in_one_step_and_keeps_its_mode(tree):
    path = notebook(tree, "1 + 1")
    path.chmod(0o640)
    old = path.open()  # who reads the old file goes on reading the old file, to its end
    assert make(tree, "refresh").returncode == 0
    assert nbformat.reads(old.read(), 4).cells[0].execution_count is None
    assert path.stat().st_mode & 0o777 == 0o640
    old.close()


def test_an_error_in_a_cell_is_one_line_and_leaves_the_notebook_as_it_was(tree):
    path = notebook(tree, "1 + 1", "1 / 0")
    before = path.read_bytes()
    said = make(tree, "refresh")
    last = [line for line in said.stderr.splitlines() if not line.startswith("make")][-1]
    assert "page.ipynb" in last and "code cell 2 ended in ZeroDivisionError: division" in last
    assert said.returncode != 0 and "Traceback" not in said.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "kill"])
def test_an_interrupted_refresh_leaves_the_notebook_whole(tree, number):
    path = notebook(tree, "open('started', 'w').close()", "import time\ntime.sleep(60)")
    before = path.read_bytes()
    command = [sys.executable, tree / "tools" / "refresh.py"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as refresh:
        wait_for(path.parent / "started")
        refresh.send_signal(number)
        said = refresh.communicate(timeout=20)[1]
    assert refresh.returncode == 130
    assert "interrupted" in said.splitlines()[-1] and "Traceback" not in said
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == ["page.ipynb", "started"]


def wait_for(path, seconds=30):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear within {seconds} s"
        time.sleep(0.05)


@pytest.fixture
def small(tree):
    """A book of three pages, to be built in a second or two."""
    files = "".join(f"  - file: {page}\n" for page in ("sound", "report"))
    (tree / "_toc.yml").write_text(f"format: jb-book\nroot: intro\nchapters:\n{files}")
    (tree / "report.md").write_text("# Report\n\n```{verification-report}\n```\n")
    (tree / "glossary.md").write_text("")
    for part in ("layers", "claims"):
        shutil.copytree(ROOT / "normlib" / part, tree / "normlib" / part)
    (tree / "references.bib").write_text("")
    (tree / "intro.md").write_text("# A page\n")
    (tree / "sound.md").write_text("# Sound\n")
    return tree


def test_a_failing_build_stays_red_until_it_is_mended(small):
    page = small / "intro.md"
    page.write_text("# A page\n\n{ref}`no-such-label`\n")
    for _ in range(2):
        said = make(small, "book")
        assert said.returncode != 0 and "no-such-label" in said.stderr
    page.write_text("# A page\n\nMended.\n")
    assert make(small, "book").returncode == 0


def test_a_second_build_sees_an_edited_page_and_an_edited_style(small):
    assert make(small, "book").returncode == 0
    for edit, built in (("sound.md", "sound.html"), ("_static/book.css", "_static/book.css")):
        with (small / edit).open("a") as file:
            file.write("\n/* edited */\n")
        assert make(small, "book").returncode == 0
        assert "edited" in (small / "_build" / "html" / built).read_text()


def test_a_build_after_a_run_shows_its_report_and_one_before_it_says_so(small):
    page = small / "_build" / "html" / "report.html"
    assert make(small, "book").returncode == 0
    assert verification.NO_RUN in page.read_text()
    record.write(small / verification.FILE, record.compose(small, [], {}, {"failed": 1}))
    assert make(small, "book").returncode == 0
    assert "This run FAILED." in page.read_text() and verification.NO_RUN not in page.read_text()


def test_clean_removes_what_was_built_and_keeps_the_environment(tree):
    for name in ("_build/html", "tools/__pycache__", ".venv/lib/__pycache__", ".ruff_cache"):
        (tree / name).mkdir(parents=True)
    assert make(tree, "clean").returncode == 0
    assert not any((tree / n).exists() for n in ("_build", "tools/__pycache__", ".ruff_cache"))
    assert (tree / ".venv/lib/__pycache__").is_dir()


def test_serve_without_a_site_says_how_to_build_one(tree):
    line = only_line(run(sys.executable, tree / "tools" / "serve.py", tree))
    assert "make book" in line
