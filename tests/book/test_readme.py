"""What the README shows runs, with what it says is needed; and what the pages show, as it is."""

import re
import shlex
import sys
import tomllib
from pathlib import Path

import page_budget
import pytest
from project import ROOT, read_cells, run

from normlib import verify

pytestmark = pytest.mark.programs

README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = r"```python\n(.*?)```"
SNIPPETS = re.findall(PYTHON, README, re.S)
assert len(SNIPPETS) == 3  # each has its test


@pytest.mark.parametrize(
    ("snippet", "needed", "printed"),
    [
        (SNIPPETS[0], set(), ""),
        (SNIPPETS[1], {"sympy", "torch"}, "central differences"),
        (next(text for text in SNIPPETS if "fused" in text), {"numba"}, ""),
    ],
)
def test_a_snippet_runs_with_what_the_readme_says_it_needs_and_imports_no_more(
    snippet, needed, printed
):
    optional = {"sympy", "torch", "numba", "matplotlib", "sklearn"}
    told = f"\nimport sys; print(*sorted({optional} & {{*sys.modules}}))"
    done = run(sys.executable, "-c", snippet + told)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout and "NOT RUN" not in done.stdout
    assert {*done.stdout.splitlines()[-1].split()} == needed


RECIPES = "in-practice-", "evaluation-gap-", "recipes-"


def shown_blocks():
    """What each page shows of the library, by page and cell."""
    for name, cell in read_cells():
        if re.search(r"\bSource\(", cell.source):
            texts = [output.data["text/markdown"] for output in cell.outputs]
            yield f"{Path(name).name}-{cell.id}", page_budget.code_blocks("".join(texts))


def unknown_names(folder):
    """What ruff says of names in the files of a folder that nothing in them defines."""
    command = sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821"
    return run(*command, "--output-format", "concise", folder)


def test_every_source_on_a_page_runs_when_it_is_copied(tmp_path):
    shown = dict(shown_blocks())
    assert len(shown) > 30 and all(len(blocks) == 1 for blocks in shown.values())
    for name, (block,) in shown.items():
        (tmp_path / f"{name}.py").write_text(block, encoding="utf-8")
    found = unknown_names(tmp_path)
    assert found.returncode == 0, found.stdout
    for name, (block,) in shown.items():  # what it imports is there
        exec(compile(block, tmp_path / f"{name}.py", "exec"), {})


def test_every_beginning_to_copy_runs_up_to_its_blank():
    """An exercise gives the first lines, with ... for what is asked. What goes on from the cells of
    a page is fenced as py."""
    shown = [re.findall(PYTHON, cell.source, re.S) for _, cell in read_cells("markdown")]
    begun = {block for blocks in shown for block in blocks}
    blank = {block for block in begun if "= ..." in block}
    assert len(blank) > 5
    for block in blank:
        with pytest.raises((TypeError, ValueError, verify.VerificationError)) as raised:
            exec(block, {"__name__": "pasted"})
        assert "ellipsis" in str(raised.value).lower(), block
    for block in begun - blank:
        exec(block, {"__name__": "pasted"})


def test_what_is_there_to_be_copied_into_a_project_of_ones_own_needs_pytorch_alone():
    found = [block for name, (block,) in shown_blocks() if name.startswith(RECIPES)]
    assert len(found) > 4 and not [block for block in found if "normlib" in block]


COMMANDS = re.findall(r"^python (-m normlib\.verify .+)$", README, re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_runs_as_it_is_written(command):
    done = run(sys.executable, *shlex.split(command))
    assert done.returncode == 0, done.stderr


def test_every_extra_is_in_the_table():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(re.findall(r"^\| `pip install '\.\[(\w+)\]'`", README, re.M))
    assert COMMANDS and extras == {*project["optional-dependencies"]}
