"""A project in small: pages, layers, test files, and what they share."""

import json
from pathlib import Path

from rests import CASE_TEST

FILES = {
    "normlib/__init__.py": "def batch_norm(x): return x",
    "normlib/evidence/batch.py": "BATCH = Case(forward=layers.batch_norm, forms=('matrix',))",
    "normlib/evidence/rms.py": "RMS = Case(forward=layers.rms_norm, forms=('images', 'matrix'))",
    "tools/made.py": "",
    "tests/project.py": "ROOT = ''",
    "tests/cases.py": "",
    "tests/test_report.py": "import pytest\n"
    "@pytest.mark.parametrize('name', ['batch_norm', 'rms_norm', 'rms_norm, matrix'])\n"
    f"def {CASE_TEST.partition('::')[2]}(name): pass",
    "tests/test_layers.py": "from normlib import batch_norm\ndef test_it(): assert batch_norm(1)",
    "tests/test_more.py": "import test_layers\ndef test_it(): test_layers.test_it()",
    "tests/test_files.py": "from project import ROOT\ndef test_it(): assert ROOT == ''",
    "requirements.lock": "numpy==2",
    "README.md": "Read me.",
}
CODE = {"norm": "import normlib", "ledger": "list(Path().glob('*'))", "claims/topic": "x = 1"}
PAGES = {f"chapters/{name}" for name in CODE}
LAYERS = {"layers/batch_norm", "layers/rms_norm", "layers/rms_norm, matrix"}
TESTS = {f"tests/test_{name}.py" for name in ("layers", "more", "files")}


def notebook(source: str) -> str:
    """A notebook that was never executed."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cells = [cell | {"id": "a", "source": source}, cell | {"id": "b", "source": "x = 2"}]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def build(root: Path) -> Path:
    pages = {f"chapters/{name}.ipynb": notebook(code) for name, code in CODE.items()}
    for name, text in (FILES | pages).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def edit(root: Path, name: str) -> None:
    with (root / name).open("a", encoding="utf-8") as file:
        file.write("\n")
