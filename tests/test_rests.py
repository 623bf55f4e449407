"""What a page, a layer or a test file rests on is found, all of it, and nothing else."""

import ast
import sys

import ledger_checks
import nbformat
import pytest
import records
import rests
import small
from project import CHAPTERS, ROOT
from test_report import LAYERS

import normlib

LIBRARY = small.PAGES - {"chapters/plain"}  # importing any of it loads all layers


def recorded(root):
    """A record of every unit, as if all had passed just now."""
    tree = rests.read(root)
    passed = {"date": "2026-01-01T00:00:00+00:00", "passed": 1, "failed": 0, "skipped": 0}
    return [{"unit": u, "rests": rests.of(tree, u)} | passed for u in rests.units(tree)]


def turned(root, known):
    """The units that no longer count as verified."""
    judged = records.judged(rests.read(root), known)
    return {unit for unit, found in judged.items() if found.state != records.VERIFIED}


CHANGES = {
    "a cell of a page": (
        ("chapters/plain.ipynb", "import numpy", "import numpy as np"),
        {"chapters/plain", "chapters/ledger"},
    ),
    "a page in a folder of its own": (
        ("chapters/claims/topic.ipynb", "runs.read()", "runs.readline()"),
        {"chapters/claims/topic"},
    ),
    "the core of all layers": (
        ("normlib/layers/core.py", "pass", "return"),
        LIBRARY | small.LAYERS | {"tests/test_layers.py"},
    ),
    "one layer": (
        ("normlib/layers/rms.py", "pass", "return"),
        LIBRARY | {"layers/rms_norm", "layers/rms_norm, matrix", "tests/test_layers.py"},
    ),
    "the evidence of one layer": (
        ("normlib/evidence/batch.py", "", "\nx = 1"),
        {"layers/batch_norm", "chapters/search"},
    ),
    "what all evidence is made of": (
        ("normlib/evidence/case.py", "", "\nx = 1"),
        small.LAYERS | {"chapters/search"},
    ),
    "the engine": (
        ("normlib/verify/run.py", "pass", "return"),
        {"chapters/check"} | small.LAYERS,
    ),
    "what examines the layers": (("tests/cases.py", "", "x = 1"), small.LAYERS),
    "an experiment": (("normlib/experiments/gan.py", "", "\nx = 1"), {"chapters/train"}),
    "what an experiment imports": (
        ("normlib/experiments/data.py", "pass", "return"),
        {"chapters/train"},
    ),
    "the look of figures": (("normlib/book.mplstyle", "2", "3"), {"chapters/train"}),
    "an entry of the register": (
        ("normlib/claims/register/000.toml", "holds", "does not hold"),
        {"chapters/norm", "chapters/ledger", "chapters/errata"},
    ),
    "the name of a source": (
        ("normlib/claims/register/001.toml", "Slides", "Talk"),
        {"chapters/claims/topic", "chapters/ledger", "chapters/errata"},
    ),
    "a new entry": (
        (
            "normlib/claims/register/001.toml",
            "",
            '[[claim]]\nid = "001-02"\nat.001 = { slide = 2 }',
        ),
        {"chapters/ledger", "chapters/errata"},
    ),
    "a list of all claims": (
        ("normlib/claims/listed.txt", "", "001-02"),
        {"chapters/ledger", "chapters/errata"},
    ),
    "how a claim is decided": (
        ("normlib/claims/decision.py", "pass", "return"),
        {"chapters/norm", "chapters/claims/topic", "chapters/ledger", "chapters/errata"},
    ),
    "data": (("chapters/data/runs.json", "]", "1]"), {"chapters/train", "chapters/claims/topic"}),
    "data that no page names": (("chapters/data/other.json", "]", "1]"), set()),
    "a tool that nothing imports": (("tools/made.py", "", "x = 1"), set()),
    "the lock": (
        ("requirements.lock", "2", "3"),
        small.PAGES | small.LAYERS | small.TESTS,
    ),
    "a text": (("README.md", "Read", "Do read"), set()),
    "a test file": (("tests/test_layers.py", "assert", "assert not"), {"tests/test_layers.py"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_turns_what_rests_on_it_and_nothing_else(tmp_path, change):
    root = small.build(tmp_path)
    known = recorded(root)
    assert len(known) == len(small.PAGES | small.LAYERS | small.TESTS) and not turned(root, known)
    edited, expected = CHANGES[change]
    small.edit(root, *edited)
    assert turned(root, known) == expected | {"tests/test_files.py"}  # it may read any file


def test_what_is_built_or_hidden_is_nothing_to_rest_on(tmp_path):
    root = small.build(tmp_path)
    known = recorded(root)
    for name in ("normlib/__pycache__/x.pyc", "chapters/.ipynb_checkpoints/plain.ipynb", ".env"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x")
    assert not turned(root, known)


SUB = {"normlib/sub/__init__.py", "normlib/a.py", "normlib/b.py"}
MODULES = {
    "normlib/__init__.py": b"",
    "normlib/a.py": b"def f():\n    from . import b",
    "normlib/b.py": b"",
    "normlib/sub/__init__.py": b"from ..a import f",
    "normlib/sub/c.py": b"",
    "tools/t.py": b"",
    "chapters/data/x.csv": b"",
    "chapters/data/y.csv": b"",
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import numpy", set()),
        ("import normlib.b", {"normlib/b.py"}),
        ("import normlib.b as x, os", {"normlib/b.py"}),
        ("from normlib import b as x", {"normlib/b.py"}),
        ("if True:\n    from normlib import a", {"normlib/a.py", "normlib/b.py"}),
        ("import normlib.sub.c", SUB | {"normlib/sub/c.py"}),
        ("from normlib.sub import f", SUB),
        ("import t", {"tools/t.py"}),
        ("load('data/x.csv')", {"chapters/data/x.csv"}),
        ("load(f'data/{name}.csv')", {"chapters/data/x.csv", "chapters/data/y.csv"}),
        ("Path('data') / name", {"chapters/data/x.csv", "chapters/data/y.csv"}),
        ("share = parts['data']", set()),
        ("Path('data').glob('x.*')", {"chapters/data/x.csv", "chapters/data/y.csv"}),
        ("Path().rglob('*.csv')", {"chapters/data/x.csv", "chapters/data/y.csv"}),
        ("glob('data/*.csv')", {"chapters/data/x.csv", "chapters/data/y.csv"}),
        ("importlib.import_module(name)", {p for p in MODULES if p.startswith("normlib/")}),
    ],
)
def test_whatever_a_cell_imports_or_reads_is_reached(source, expected):
    tree = MODULES | {"chapters/page.ipynb": small.notebook("x = 1", source).encode()}
    found = rests.reached(tree, ["chapters/page.ipynb"]) - {"chapters/page.ipynb"}
    assert found - {"normlib/__init__.py"} == expected - {"normlib/__init__.py"}
    assert ("normlib/__init__.py" in found) == any("normlib" in path for path in expected)


def test_the_data_of_the_library_are_named_as_seen_from_it():
    page = small.notebook("kept('data/z.json')").encode()
    tree = {"chapters/page.ipynb": page, "normlib/data/z.json": b"", "normlib/data/y.json": b""}
    found = rests.reached(tree, ["chapters/page.ipynb"])
    assert found == {"chapters/page.ipynb", "normlib/data/z.json"}


def test_what_a_module_reads_is_seen_from_its_own_folder_and_from_the_pages():
    tree = MODULES | {
        "chapters/page.ipynb": small.notebook("from normlib import reads").encode(),
        "normlib/reads.py": b"open('data/x.csv'), files(__package__) / 'own.csv'",
        "normlib/own.csv": b"",
    }
    found = rests.reached(tree, ["chapters/page.ipynb"])
    assert {path for path in found if path.endswith(".csv")} == {
        "chapters/data/x.csv",
        "normlib/own.csv",
    }


def test_a_page_that_cannot_be_read_rests_on_everything():
    for content in (b"", small.notebook("%timeit x = ").encode(), b'{"cells": [1]}'):
        tree = MODULES | {"chapters/page.ipynb": content}
        assert {*rests.of(tree, "chapters/page")} == {*tree}


TOML = b'[[claim]]\nid = "1"\nat = {}\n[[claim]]\nid = "2"\nat = {}'


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("decide('1')", {"claim 1"}),
        ("decide('1')\ndecide('2', f)", {"claim 1", "claim 2"}),
        ("x = 1", set()),
        ("decide(name)", {"whole"}),
        ("decide(id='1')", {"whole"}),
        ("for id in ids: try_it(decide, id)", {"whole"}),
        ("from normlib.claims import decide as d\nd('1')", {"whole"}),
        ("from normlib.claims import register", {"whole"}),
        ("from normlib import claims", {"whole"}),
        ("import normlib.claims", {"whole"}),
        ("from normlib import shown", {"whole"}),
    ],
)
def test_a_page_rests_on_the_claims_it_decides_or_on_the_whole_register(source, expected):
    tree = {
        "normlib/__init__.py": b"",
        "normlib/claims/__init__.py": b"from normlib.claims.decision import decide, register",
        "normlib/claims/decision.py": b"def register(): pass",
        "normlib/claims/register/1.toml": TOML,
        "normlib/shown.py": b"from .claims import register",
        "chapters/page.ipynb": small.notebook("from normlib.claims import decide", source).encode(),
    }
    found = rests.claims(tree, rests.reached(tree, ["chapters/page.ipynb"]))
    assert {"whole" if name.endswith(".toml") else name for name in found} == expected


# The project itself.


@pytest.fixture(scope="module")
def tree():
    return rests.read(ROOT)


def names(page):
    return page.relative_to(ROOT).with_suffix("").as_posix()


def test_every_page_has_its_record_and_every_layer_has_one():
    assert rests.pages(rests.read(ROOT)) == sorted(map(names, CHAPTERS))
    assert [*rests.cases(rests.read(ROOT))] == [*LAYERS]


def test_every_layer_of_the_library_is_examined():
    pairs = {n for n in normlib.__all__ if f"{n}_backward" in normlib.__all__}
    assert pairs - {"standardize"} == {name.split(",")[0] for name in LAYERS}


def test_every_layer_rests_on_its_own_module_and_on_no_other_layers(tree):
    found = {name: {*rests.of(tree, f"layers/{name}")} for name in rests.cases(tree)}
    own = {f"normlib/layers/{name}.py" for name in ("__init__", "rms", "core", "guard", "shapes")}
    assert {path for path in found["rms_norm"] if path.startswith("normlib/layers/")} == own
    always = {rests.LOCK, "normlib/verify/run.py", rests.CASES, "tests/record.py"}
    assert found and all(always <= files for files in found.values())


def loaded(page):
    """The files of normlib that Python loads when it runs the import lines of a page."""
    lines = [
        ast.unparse(node)
        for source in rests.sources(page.read_bytes(), is_notebook=True)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    kept = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith("normlib")}
    try:
        exec("\n".join(lines), {})
        new = [m for name, m in sys.modules.items() if name.startswith("normlib")]
        return {m.__file__ for m in new}
    finally:
        for name in [name for name in sys.modules if name.startswith("normlib")]:
            del sys.modules[name]
        sys.modules.update(kept)


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda path: path.stem)
def test_everything_that_python_loads_for_a_page_is_what_the_page_rests_on(tree, page):
    found = {str(ROOT / name) for name in rests.of(tree, names(page))}
    files = loaded(page)
    assert files and not files - found


def test_every_page_rests_on_the_claims_that_it_decides_or_on_the_whole_register(tree):
    decided = {p: ledger_checks.calls(p.stem, nbformat.read(p, as_version=4)) for p in CHAPTERS}
    assert any(decided.values())
    for page, calls in decided.items():
        found = {*rests.of(tree, names(page))}
        own = {name for name in found if name.startswith("claim ")}
        assert own == {f"claim {c.claim}" for c in calls} or {*rests.registers(tree)} <= found


def test_all_data_of_the_book_are_what_some_page_rests_on(tree):
    data = {path for path in tree if path.startswith("normlib/data/")}
    found = {name for page in CHAPTERS for name in rests.of(tree, names(page))}
    assert data and data <= found
