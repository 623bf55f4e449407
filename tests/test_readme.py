"""What the README shows runs, with what it says is needed; and what the pages show, as it is."""

import re
import shlex
import sys
import tomllib

import nbformat
import page_budget
import pytest
from project import CHAPTERS, ROOT, run

pytestmark = pytest.mark.programs

README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.S)
# Run a snippet where only some packages are there, as on a machine that has no others: whatever
# is looked for under another name, and is not part of Python, is not found.
WITH = """
import sys


class Few:
    def find_spec(self, name, path=None, target=None):
        known = {names} | sys.stdlib_module_names
        if name.partition(".")[0] not in known:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Few())
exec({snippet!r})
"""
NUMPY, WITNESSES = {"numpy", "normlib"}, {"numpy", "normlib", "normbook", "torch", "sympy"}
KERNELS = {"numpy", "normlib", "numba", "llvmlite"}
# what torch and SymPy import themselves
BROUGHT = {"mpmath", "typing_extensions", "torchgen", "functorch", "filelock", "jinja2", "networkx"}


def result(snippet, names):
    return run(sys.executable, "-c", WITH.format(names=names, snippet=snippet))


def test_the_layers_run_with_numpy_alone():
    done = result(SNIPPETS[0], NUMPY)
    assert done.returncode == 0, done.stderr


def test_the_witnesses_run_with_sympy_and_torch_and_print_a_verdict():
    done = result(SNIPPETS[1], WITNESSES | BROUGHT)
    assert done.returncode == 0, done.stderr
    assert "central differences" in done.stdout and "NOT RUN" not in done.stdout


@pytest.mark.parametrize("missing", ["sympy", "torch"])
def test_without_a_package_the_witnesses_say_in_one_line_what_to_install(missing):
    last = result(SNIPPETS[1], (WITNESSES | BROUGHT) - {missing}).stderr.splitlines()[-1]
    assert f"found no {missing}" in last and "pip install 'normlib[verify]'" in last


def test_without_matplotlib_the_pages_helpers_say_what_to_install():
    last = result("import normbook.show", WITNESSES | BROUGHT).stderr.splitlines()[-1]
    assert "expected matplotlib" in last and "pip install matplotlib" in last


def test_the_kernels_run_with_numba():
    (snippet,) = (text for text in SNIPPETS if "fused" in text)
    done = result(snippet, KERNELS)
    assert done.returncode == 0, done.stderr


def test_every_snippet_is_tried():
    assert len(SNIPPETS) == 3


RECIPES = "in-practice-", "evaluation-gap-"


def shown_blocks():
    """What each page shows of the library, by page and cell."""
    for path in CHAPTERS:
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "code" and re.search(r"\bSource\(", cell.source):
                texts = [output.data["text/markdown"] for output in cell.outputs]
                yield f"{path.stem}-{cell.id}", page_budget.code_blocks("".join(texts))


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


def test_what_is_there_to_be_copied_into_a_project_of_ones_own_needs_pytorch_alone():
    found = [block for name, (block,) in shown_blocks() if name.startswith(RECIPES)]
    assert len(found) > 4 and not [block for block in found if "normlib" in block]


def test_a_name_that_nothing_defines_is_seen(tmp_path):
    (tmp_path / "a.py").write_text("def f(x: Shape):\n    return x * NORMS\n")
    found = unknown_names(tmp_path).stdout
    assert "`Shape`" in found and "`NORMS`" in found


COMMANDS = re.findall(r"^python (-m normlib\.verify .+)$", README, re.M)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_runs_as_it_is_written(command):
    done = run(sys.executable, *shlex.split(command))
    assert done.returncode == 0, done.stderr


def test_every_extra_is_in_the_table():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(re.findall(r"^\| `pip install '\.\[(\w+)\]'`", README, re.M))
    assert COMMANDS and extras == {*project["optional-dependencies"]}
