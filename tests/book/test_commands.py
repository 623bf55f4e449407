"""The commands of the Makefile do what they say, and fail in one clear line."""

import importlib.util
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import notebooks
import pytest
import records
import refresh
import verification
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from project import ROOT, environment, make, run

pytestmark = pytest.mark.programs

TARGETS = "help book test check serve zip pdf epub audit lab refresh bench peers processors "
TARGETS += "mutants dist clean lock"
FRAME = "Makefile _config.yml _static _templates LICENSE pyproject.toml tools site "
FRAME += "requirements.txt requirements.lock normbook/pyproject.toml"
CLOSED = "http://127.0.0.1:9"  # a port where nobody listens


def copy_project(parent):
    """Copy the project, without environment, chapters and .git, into a folder with a space."""
    tree = parent / "a book"
    tree.mkdir()
    for name in FRAME.split():
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (tree / name).parent.mkdir(exist_ok=True)
        copy(ROOT / name, tree / name)
    (tree / "README.md").write_text("")
    (tree / "chapters").mkdir()
    return tree


@pytest.fixture
def tree(tmp_path):
    return copy_project(tmp_path)


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


def script(path, text):
    """Write a program and return what make is to call it, in a path with a space."""
    path.write_text(text)
    path.chmod(0o755)
    return shlex.quote(str(path))


def test_help_is_the_default_and_lists_every_target():
    said = run("make").stdout
    assert [line.split()[1] for line in said.splitlines()] == TARGETS.split()


def test_code_and_notebooks_pass_the_linter_and_are_formatted():
    for command in (("check",), ("format", "--check")):
        result = run(sys.executable, "-m", "ruff", *command, ".")
        assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("python", "said"),
    [
        ("#!/bin/sh\necho 3.9\n", "expected Python 3.11 or newer as '{}', found 3.9"),
        ("#!/bin/sh\necho 3.10\n", "expected Python 3.11 or newer as '{}', found 3.10"),
        ("#!/no/such/shell\n", "expected Python 3.11 or newer as '{}', found none"),
        ('#!/bin/sh\n[ "$1" = -c ] && echo 3.12\n', "apt install python3-venv"),
    ],
)
def test_a_python_that_does_not_do_ends_in_one_line(tree, python, said):
    found = script(tree / "python3", python)
    assert said.format(found) in only_line(run("make", "book", f"PYTHON={found}", cwd=tree))
    assert not (tree / ".venv").exists()


# To copy pip into an environment takes seconds; this Python lets it borrow ours.
QUICK_PYTHON = """#!/bin/sh
if [ "$1" != -m ]; then exec '{python}' "$@"; fi
'{python}' -m venv --without-pip "$3" && ln -s '{pip}' "$3"/lib/python*/site-packages/
"""


def test_a_missing_network_ends_in_one_line_and_leaves_no_environment_that_counts(tree):
    pip = Path(importlib.util.find_spec("pip").origin).parent
    quick = script(tree / "python3", QUICK_PYTHON.format(python=sys.executable, pip=pip))
    # Only the closed port is left: no settings of pip, of a proxy, or of this machine.
    env = {"PATH": os.environ["PATH"], "no_proxy": "*", "PIP_CONFIG_FILE": os.devnull}
    env |= {"PIP_INDEX_URL": f"{CLOSED}/simple", "PIP_RETRIES": "0"}
    command = ["make", "book", f"PYTHON={quick}"]
    line = only_line(subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True))
    assert "pip said: ERROR: Could not find a version" in line and "check the network" in line
    assert not (tree / ".venv" / "ready").exists()


@pytest.fixture
def here(tree, monkeypatch):
    """Let refresh run in this process, which has already loaded what it needs."""
    for module in (notebooks, refresh):
        monkeypatch.setattr(module, "CHAPTERS", tree / "chapters")
    return tree


def test_refresh_finds_a_page_by_each_of_its_names_and_no_other(here):
    path = notebook(here, "1 + 1", page="claims/topic")
    for name in ("topic", "claims/topic", "chapters/claims/topic.ipynb"):
        assert refresh.choose_notebooks([name]) == [path]
    for name in ("nonsense", "other/topic"):
        with pytest.raises(SystemExit, match=f"got {name}; there are: claims/topic"):
            refresh.choose_notebooks([name])


def test_refresh_stores_the_outputs_and_a_second_one_changes_nothing(here):
    path = notebook(here, "import os\nprint(os.path.basename(os.getcwd()))", page="claims/page")
    page = nbformat.read(path, 4)
    page.cells[0].metadata = {"tags": ["hide-input"], "collapsed": True}
    nbformat.write(page, path)
    assert make(here, "refresh", "CHAPTER=page").returncode == 0
    once = path.read_bytes()
    page = nbformat.reads(once.decode(), 4)
    assert page.cells[0].outputs[0].text == "claims\n" and page.metadata == refresh.KERNEL
    # JupyterLab, which reads no tags, folds what they fold on the site
    assert page.cells[0].metadata == {"tags": ["hide-input"], "jupyter": {"source_hidden": True}}
    refresh.refresh(path)
    assert path.read_bytes() == once


def test_an_error_in_a_cell_is_one_line_and_leaves_the_notebook_as_it_was(here):
    path = notebook(here, "1 + 1", "1 / 0")
    before = path.read_bytes()
    with pytest.raises(SystemExit) as end:
        refresh.refresh(path)
    said = end.value.code
    assert "page.ipynb" in said and "code cell 2 ended in ZeroDivisionError: division" in said
    assert "\n" not in said
    assert path.read_bytes() == before


# A job in the background of a script starts with Ctrl-C ignored.
IN_BACKGROUND = ("sh", "-c", 'trap \'\' INT; exec "$0" "$@"')


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "kill"])
def test_an_interrupted_refresh_leaves_the_notebook_whole(tree, number):
    path = notebook(tree, "open('started', 'w').close()", "import time\ntime.sleep(60)")
    before = path.read_bytes()
    command = [*IN_BACKGROUND, sys.executable, tree / "tools" / "refresh.py"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as child:
        wait_for(path.parent / "started")
        child.send_signal(number)
        said = child.communicate(timeout=20)[1]
    assert child.returncode == 130
    assert "interrupted" in said.splitlines()[-1] and "Traceback" not in said
    assert path.read_bytes() == before
    assert sorted(os.listdir(path.parent)) == ["page.ipynb", "started"]


def wait_for(path, seconds=30):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear within {seconds} s"
        time.sleep(0.05)


SHOWN = ("report.html", "page.html", "sound.html", "book.css")
EDITED = {"changed": ("sound.md", "requirements.lock"), "restyled": ("_static/book.css",)}


@pytest.fixture(scope="module")
def builds(tmp_path_factory):
    """The life of a small book of four pages: what each build said, and the site after it."""
    tree = copy_project(tmp_path_factory.mktemp("small"))
    files = "".join(f"  - file: {page}\n" for page in ("sound", "report", "chapters/page"))
    texts = {
        "_toc.yml": f"format: jb-book\nroot: intro\nchapters:\n{files}",
        "report.md": "# Report\n\n```{verification-report}\n```\n",
        "glossary.md": "",
        "references.bib": "",
        "intro.md": "# A page\n\n{ref}`no-such-label`\n",
        "sound.md": "# Sound\n",
        "tests/test_it.py": "",
    }
    for name, text in texts.items():
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text(text)
    shutil.copytree(ROOT / "normlib", tree / "normlib")
    shutil.copytree(ROOT / "normbook", tree / "normbook", dirs_exist_ok=True)
    cells = [new_markdown_cell("# A page", id="title"), new_code_cell("1 + 1", id="cell")]
    page = new_notebook(cells=cells, metadata=refresh.KERNEL)
    nbformat.write(page, tree / "chapters" / "page.ipynb")

    def build():
        said = make(tree, "book")
        html = (tree / "_build" / "html").rglob("*.*")
        return said, {path.name: path.read_text() for path in html if path.name in SHOWN}

    life = {"broken": build(), "still": build()}
    (tree / "intro.md").write_text("# A page\n\nMended.\n")
    record(tree, "chapters/page.ipynb", passed=1, failed=0)
    record(tree, "tests/test_it.py", passed=0, failed=1)
    life["mended"] = build()
    for change, edited in EDITED.items():
        for name in edited:
            with (tree / name).open("a") as file:
                file.write("\n# /* edited */\n")
        life[change] = build()
    return life


def record(tree, file, **counts):
    """Write a record of a file as it is now."""
    found = {"file": file, "date": records.now(), "commit": "", "skipped": 0, "of": 1} | counts
    found |= records.environment() | {"rests": records.rests(tree)[file]}
    records.write(tree, found)


def test_a_failing_build_stays_red_until_it_is_mended(builds):
    assert [name for name, (said, _) in builds.items() if said.returncode] == ["broken", "still"]
    assert all("no-such-label" in builds[name][0].stderr for name in ("broken", "still"))


def test_a_second_build_sees_an_edited_page_and_an_edited_style(builds):
    old, new = builds["changed"][1], builds["restyled"][1]
    assert "edited */" in old["sound.html"] and "edited */" in new["book.css"]
    # Every page names the version of its style, else a browser would go on with the old one.
    style = re.compile(r"site\.css\?v=\w+")
    assert style.search(old["page.html"])[0] != style.search(new["page.html"])[0]


def test_a_build_says_what_the_records_say_and_what_has_changed_since(builds):
    before, after, changed = (builds[name][1] for name in ("broken", "mended", "changed"))
    assert verification.EMPTY in before["report.html"]
    assert 'class="verified' not in before["page.html"]  # nothing stands under its title
    assert verification.BAD in after["report.html"]
    line = re.search(r'</h1>\s*<p class="verified good">(.*?)</p>', after["page.html"], re.S)[1]
    assert "1 cells agreed" in line and 'href="../report.html"' in line
    assert "what all share changed since" in changed["report.html"]
    assert "Changed since" in changed["page.html"]


def test_clean_removes_what_was_built_and_keeps_the_environment(tree):
    for name in ("_build/html", "tools/__pycache__", ".venv/lib/__pycache__", ".ruff_cache"):
        (tree / name).mkdir(parents=True)
    assert make(tree, "clean").returncode == 0
    assert not any((tree / n).exists() for n in ("_build", "tools/__pycache__", ".ruff_cache"))
    assert (tree / ".venv/lib/__pycache__").is_dir()
