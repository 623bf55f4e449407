"""What the README shows runs, with what it says is needed."""

import re
import sys

import pytest
from project import ROOT, run

README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.S)
# Run a snippet where some packages are missing, as on a machine that does not have them.
WITHOUT = "import sys\nfor name in {names}: sys.modules[name] = None\nexec({snippet!r})"


def result(snippet, *names):
    return run(sys.executable, "-c", WITHOUT.format(names=names, snippet=snippet))


def test_the_layers_run_with_numpy_alone():
    done = result(SNIPPETS[0], "sympy", "torch", "matplotlib", "sklearn")
    assert done.returncode == 0, done.stderr


def test_the_witnesses_run_with_sympy_and_torch_and_print_a_verdict():
    done = result(SNIPPETS[1], "matplotlib", "sklearn")
    assert done.returncode == 0, done.stderr
    assert "central differences" in done.stdout and "NOT RUN" not in done.stdout


@pytest.mark.parametrize("missing", ["sympy", "torch"])
def test_without_a_package_the_witnesses_say_in_one_line_what_to_install(missing):
    last = result(SNIPPETS[1], missing).stderr.splitlines()[-1]
    assert f"found no {missing}" in last and "pip install 'normlib[verify]'" in last


def test_every_snippet_is_tried():
    assert len(SNIPPETS) == 2
