"""What the README shows runs, with what it says is needed."""

import re
import sys

import pytest
from project import ROOT, run

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
NUMPY, WITNESSES = {"numpy", "normlib"}, {"numpy", "normlib", "torch", "sympy"}
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
    last = result("import normlib.book", WITNESSES | BROUGHT).stderr.splitlines()[-1]
    assert "expected matplotlib" in last and "pip install 'normlib[book]'" in last


def test_every_snippet_is_tried():
    assert len(SNIPPETS) == 2
