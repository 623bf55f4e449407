"""A project in small: pages, layers, test files, and everything that they can rest on."""

import json
from pathlib import Path

from rests import CASE_TEST

FILES = {
    "normlib/__init__.py": "from normlib.layers import *",
    "normlib/layers/__init__.py": "from normlib.layers.batch import batch_norm\n"
    "from normlib.layers.rms import rms_norm",
    "normlib/layers/core.py": "def standardize(): pass",
    "normlib/layers/batch.py": "from .core import standardize\ndef batch_norm(): pass",
    "normlib/layers/rms.py": "from normlib.layers.core import standardize\ndef rms_norm(): pass",
    "normlib/verify/__init__.py": "from normlib.verify.run import backward",
    "normlib/verify/run.py": "def backward(): pass",
    "normlib/experiments/__init__.py": "",
    "normlib/experiments/data.py": "def digits(): pass",
    "normlib/experiments/gan.py": "from normlib.experiments import data",
    "normlib/book.mplstyle": "lines.linewidth: 2",
    "normlib/claims/__init__.py": "from normlib.claims.decision import decide\n"
    "from normlib.claims.tables import Errata",
    "normlib/claims/decision.py": "LISTED = 'listed.txt'\ndef register(): pass\n"
    "def decide(*a): pass",
    "normlib/claims/tables.py": "from normlib.claims.decision import register\nclass Errata: pass",
    "normlib/claims/listed.txt": "000-01",
    "normlib/claims/register/000.toml": 'title = "Notes"\n'
    '[[claim]]\nid = "000-01"\nat.000 = { line = 1 }\nverdict = "holds"\n',
    "normlib/claims/register/001.toml": 'title = "Slides"\n'
    '[[claim]]\nid = "001-01"\nat.001 = { slide = 1 }\nverdict = "holds"\n',
    "normlib/evidence/__init__.py": "from importlib import import_module\n"
    "from pkgutil import iter_modules\n"
    "CASES = [import_module('normlib.evidence.' + m.name) for m in iter_modules(__path__)]",
    "normlib/evidence/case.py": "def Case(**known): return known",
    "normlib/evidence/batch.py": "from normlib import layers\n"
    "from normlib.evidence.case import Case\n"
    "BATCH = Case(forward=layers.batch_norm, forms=('matrix',))",
    "normlib/evidence/rms.py": "from normlib import layers\n"
    "from normlib.evidence.case import Case\n"
    "RMS = Case(forward=layers.rms_norm, forms=('images', 'matrix'))",
    "tools/made.py": "",
    "chapters/data/runs.json": "[]",
    "chapters/data/other.json": "[]",
    "tests/project.py": "ROOT = ''",
    "tests/cases.py": "",
    "tests/test_report.py": "import cases, pytest\n"
    "@pytest.mark.parametrize('name', ['batch_norm', 'rms_norm', 'rms_norm, matrix'])\n"
    f"def {CASE_TEST.partition('::')[2]}(name): pass",
    "tests/test_layers.py": "from normlib import rms_norm\ndef test_it(): assert rms_norm",
    "tests/test_files.py": "from project import ROOT\ndef test_it(): assert ROOT == ''",
    "requirements.lock": "numpy==2",
    "README.md": "Read me.",
}
DECIDES = "decide('000-01')"
NOTEBOOKS = {
    "plain": ["import numpy"],
    "norm": ["from normlib import batch_norm", "from normlib.claims import decide", DECIDES],
    "train": [
        "from pathlib import Path\nfrom normlib.experiments import gan",
        "style = 'normlib.book'\nruns = Path('data/runs.json').read_text()",
    ],
    "ledger": ["from pathlib import Path\nfrom normlib import claims", "Path().glob('*.ipynb')"],
    "errata": ["from normlib.claims import Errata"],
    "search": ["from normlib import evidence"],
    "check": ["from normlib.verify import backward"],
    "claims/topic": [
        "from normlib.claims import decide\ndecide('001-01')",
        "with open('../data/runs.json') as runs: runs.read()",
    ],
}
PAGES = {f"chapters/{name}" for name in NOTEBOOKS}
LAYERS = {"layers/batch_norm", "layers/rms_norm", "layers/rms_norm, matrix"}
TESTS = {"tests/test_layers.py", "tests/test_files.py"}


def notebook(*cells: str) -> str:
    """A notebook that was never executed."""
    code = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    whole = [code | {"id": f"cell-{i}", "source": source} for i, source in enumerate(cells)]
    return json.dumps({"cells": whole, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def build(root: Path) -> Path:
    pages = {f"chapters/{name}.ipynb": notebook(*cells) for name, cells in NOTEBOOKS.items()}
    for name, text in (FILES | pages).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def edit(root: Path, name: str, before: str, after: str) -> None:
    """Replace a text that stands in a file; an empty one by appending."""
    text = (root / name).read_text(encoding="utf-8")
    assert before in text, f"{name} must hold {before!r}"
    changed = text.replace(before, after, 1) if before else text + after
    (root / name).write_text(changed, encoding="utf-8")
