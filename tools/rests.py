"""What every page, every layer and every test file rests on: its own file, and what is shared.

A tree is the project as it lies on the disk: the bytes of each file, by its path from the root. A
unit is what has a record of its own: a page (`chapters/batch-norm`), the Case of a layer
(`layers/batch_norm`), a test file. What units share has one digest: a change anywhere in normlib
makes every record stale.
"""

import ast
import hashlib
import re
from fnmatch import filter as matching
from functools import cache
from itertools import chain
from pathlib import Path

Tree = dict[str, bytes]

FOLDERS = (
    "chapters",
    "normlib",
    "normbook",
    "tests",
    "tools",
    "site",
    "_static",
    "_templates",
    ".github",
)
LOCK = "requirements.lock"
CASES = "tests/test_report.py"  # examines every layer, by this test:
CASE_TEST = f"{CASES}::test_every_layer_passes_every_witness_and_every_planted_error_is_caught"
HIDDEN = re.compile(r"(^|/)(\.(?!github/)|__pycache__)")
PROGRAMS = re.compile(rb"^pytestmark = pytest\.mark\.programs$", re.M)
# A file that is told where others lie, or opens some, may read any.
OPENS = re.compile(rb"^from project import .*[A-Z(]|\b(Path|open)\(", re.M)
TEST_FILE = re.compile(rb"^(?:from|import) (test_\w+)", re.M)


def read(root: Path) -> Tree:
    """The project's files, but not what was built or is hidden."""
    paths = [p for folder in FOLDERS for p in (root / folder).rglob("*")] + [*root.iterdir()]
    names = {path.relative_to(root).as_posix(): path for path in paths if path.is_file()}
    return {name: path.read_bytes() for name, path in names.items() if not HIDDEN.search(name)}


def cases(tree: Tree) -> list[str]:
    """The layers that are examined, in each form they are made for."""
    modules = (ast.parse(tree[path]) for path in sorted(matching(tree, "normlib/evidence/*.py")))
    found = []
    for node in chain(*map(ast.walk, modules)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Case":
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            name, (_, *others) = given["forward"].attr, ast.literal_eval(given["forms"])
            found += [name, *(f"{name}, {form}" for form in others)]
    return found


def units(tree: Tree) -> list[str]:
    pages = sorted(path.removesuffix(".ipynb") for path in matching(tree, "chapters/*.ipynb"))
    tests = sorted(path for path in matching(tree, "tests/test_*.py") if path != CASES)
    return [*pages, *(f"layers/{name}" for name in cases(tree)), *tests]


def file_of(unit: str) -> str:
    if unit.startswith("layers/"):
        return CASES
    return unit if unit.endswith(".py") else f"{unit}.ipynb"


def starts_programs(tree: Tree, unit: str) -> bool:
    return bool(PROGRAMS.search(tree[file_of(unit)]))


def of(tree: Tree, unit: str) -> dict[str, str]:
    """All that a unit rests on, by name, each with its digest."""
    own = file_of(unit)
    paths = {own: {own}, LOCK: {LOCK}, "the library": {*matching(tree, "norm*/*")}}
    if own.endswith(".py"):
        paths[own] |= {f"tests/{name.decode()}.py" for name in TEST_FILE.findall(tree[own])}
        tests = matching(tree, "tests/test_*.py")
        paths["helpers in tests"] = {*matching(tree, "tests/*")} - {*tests}
    if own == unit:
        paths["tools"] = {*matching(tree, "tools/*"), *matching(tree, "site/*")}
    if OPENS.search(tree[own]) or starts_programs(tree, unit):
        paths["the other files"] = tree.keys() - set().union(*paths.values())
    found = {name: {p: digest(tree[p]) for p in paths[name] if p in tree} for name in paths}
    return {name: digest(repr(sorted(found[name].items())).encode()) for name in found}


@cache
def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
