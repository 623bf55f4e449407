"""What every page, every layer and every test file rests on, found without running anything.

A tree is the project as it lies on the disk: the bytes of each file, by its path from the root.
Everything else here is computed from a tree. A unit is what has a record of its own: a page
(`chapters/batch-norm`), the Case of a layer (`layers/batch_norm`), a test file.

Imports are followed as Python follows them, file by file: importing a module also loads every
package that it lies in. Where the text of a file leaves open what it loads, everything that it
might load counts: a record may be called stale without need, but not fresh by mistake.
"""

import ast
import fnmatch
import hashlib
import json
import posixpath
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

Tree = dict[str, bytes]

FOLDERS = ("chapters", "normlib", "tests", "tools", "_static")
LOCK = "requirements.lock"
IMPORTED_FROM = ("", "tools/", "tests/")  # where a top-level module may lie
# A file that uses one of these may import any module of its own package.
DISCOVERING = {"import_module", "iter_modules", "walk_packages", "__import__", "run_path"}
LIBRARY = "normlib"
CLAIMS = "normlib.claims"  # the package of the register and of `decide`
OF_ONE_ENTRY = {"decide", "interval", "Interval"}  # what a page may use of it without reading more
CASES = "tests/test_report.py"  # examines every layer, by this test:
CASE_TEST = f"{CASES}::test_every_layer_passes_every_witness_and_every_planted_error_is_caught"
PROJECT = "tests/project.py"  # hands the files of the project to whoever imports it


def read(root: Path) -> Tree:
    """The project's files, but not what was built or is hidden."""
    paths = [p for folder in FOLDERS for p in (root / folder).rglob("*")] + [*root.iterdir()]
    names = {path.relative_to(root).as_posix(): path for path in paths if path.is_file()}
    return {name: path.read_bytes() for name, path in names.items() if not is_passed_over(name)}


def is_passed_over(name: str) -> bool:
    return any(part.startswith((".", "__pycache__")) for part in name.split("/"))


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


# What one file says.


class Facts(NamedTuple):
    """What the text of one file of Python, or of one notebook, shows."""

    imports: frozenset[tuple[str, str]]  # ("a.b", "") for `import a.b`, ("a", "b") for `from a …`
    texts: frozenset[str]
    words: frozenset[str]  # every name and attribute
    decided: frozenset[str | None]  # the claims it calls `decide` on; None where that is not shown


ALL = Facts(frozenset(), frozenset(), frozenset(DISCOVERING), frozenset({None}))


@cache
def facts(content: bytes, is_notebook: bool) -> Facts:
    """The facts of a file; of one that cannot be read, that it may rest on anything."""
    try:
        trees = [ast.parse(source) for source in sources(content, is_notebook)]
    except (SyntaxError, ValueError, KeyError, TypeError):
        return ALL
    nodes = [node for tree in trees for node in ast.walk(tree)]
    return Facts(
        frozenset(pair for node in nodes for pair in imported(node)),
        frozenset(n.value for n in nodes if isinstance(n, ast.Constant) and is_short(n.value)),
        frozenset(word for node in nodes for word in words(node)),
        frozenset(decided(nodes)),
    )


def sources(content: bytes, is_notebook: bool) -> list[str]:
    if not is_notebook:
        return [content.decode("utf-8")]
    cells = json.loads(content)["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def is_short(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) < 200 and "\n" not in value


def imported(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = "." * node.level + (node.module or "")
        for alias in node.names:
            yield base, alias.name
            if alias.asname:  # under another name nobody can tell what is done with it
                yield base, f"{alias.name} as {alias.asname}"


def words(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.alias):
        yield node.name


def decided(nodes: list[ast.AST]) -> Iterator[str | None]:
    calls = [n for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "decide"]
    for call in calls:
        first = call.args[0] if call.args else None
        yield first.value if isinstance(first, ast.Constant) else None
    called = {id(call.func) for call in calls}
    if any(getattr(n, "id", "") == "decide" and id(n) not in called for n in nodes):
        yield None  # handed on, to be called elsewhere


# What a file reaches.


def facts_of(tree: Tree, path: str) -> Facts:
    return facts(tree[path], path.endswith(".ipynb"))


def absolute(name: str, path: str) -> str:
    """`..core` as a file at this path means it."""
    bare = name.lstrip(".")
    level = len(name) - len(bare)
    if not level:
        return name
    package = path.split("/")[:-1]
    return ".".join([*package[: len(package) - level + 1], *filter(None, [bare])])


def module(tree: Tree, name: str) -> str | None:
    stems = [folder + name.replace(".", "/") for folder in IMPORTED_FROM]
    found = (stem + end for stem in stems for end in (".py", "/__init__.py"))
    return next((path for path in found if path in tree), None)


def imports(tree: Tree, path: str) -> Iterator[str]:
    """The files that a file imports by name, or may import by finding them."""
    said = facts_of(tree, path)
    for base, name in said.imports:
        base = absolute(base, path)
        inside = module(tree, f"{base}.{name}") if name else None
        yield from filter(None, [inside or module(tree, base)])
    if said.words & DISCOVERING:
        package = posixpath.dirname(path)
        found = below(tree, package if f"{package}/__init__.py" in tree else "normlib")
        yield from (p for p in found if p.endswith(".py"))


def packages(tree: Tree, path: str) -> list[str]:
    """The packages that a file lies in: Python loads them first."""
    folders = path.split("/")[:-1]
    names = ("/".join([*folders[: i + 1], "__init__.py"]) for i in range(len(folders)))
    return [name for name in names if name in tree]


def named(tree: Tree, path: str, at: str) -> Iterator[str]:
    """The files that the texts in a file name, seen from its folder, from the folder `at`, or from
    the library, which holds the data of the pages.

    "package.style" names a style of matplotlib, "data/" or Path("data") all that the folder holds.
    """
    found = facts_of(tree, path)
    for text in found.texts:
        yield from filter(tree.__contains__, [text.replace(".", "/") + ".mplstyle"])
        for folder in {posixpath.dirname(path), at, LIBRARY}:
            wanted = posixpath.normpath(posixpath.join(folder, text))
            if wanted in tree:
                yield wanted
            elif "*." in text:
                yield from matching(tree, wanted, "rglob" in found.words)
            elif text.endswith("/") or found.words & {"Path", "open"}:
                yield from below(tree, wanted) if wanted != at else ()


def matching(tree: Tree, pattern: str, at_any_depth: bool) -> list[str]:
    if at_any_depth or "**" in pattern:
        return fnmatch.filter(tree, pattern.replace("**/", "*"))
    return [path for path in tree if PurePosixPath(path).match(pattern)]


def below(tree: Tree, folder: str) -> list[str]:
    return [path for path in tree if path.startswith(f"{folder}/")]


def reached(tree: Tree, starts: Iterable[str], with_packages: bool = True) -> set[str]:
    """All files that running these files can load or read, as far as their text shows it."""
    seen, waiting = set(), [*starts]
    at = posixpath.dirname(waiting[0])
    follow = {*waiting}
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        waiting += packages(tree, path) if with_packages else []
        if path.endswith(".py") or path in follow:
            waiting += imports(tree, path)
            waiting += (p for p in named(tree, path, at) if p not in registers(tree))
    return seen


# The register: a page rests on the entries that it decides, or on all of it.


def registers(tree: Tree) -> list[str]:
    """All that the register's package reads: the claims themselves, and lists of their ids."""
    return [p for p in below(tree, CLAIMS.replace(".", "/")) if not p.endswith(".py")]


@cache
def table(content: bytes) -> dict:
    return tomllib.loads(content.decode("utf-8"))


def entries(tree: Tree) -> dict[str, bytes]:
    """Every claim of the register as it stands there, with the titles of the sources it cites."""
    files = below(tree, f"{CLAIMS.replace('.', '/')}/register")
    tables = {PurePosixPath(path).stem: table(tree[path]) for path in files}
    titles = {source: found.get("title") for source, found in tables.items()}
    found = {}
    for claim in (claim for table in tables.values() for claim in table.get("claim", ())):
        cited = {source: titles.get(source) for source in claim.get("at", ())}
        found[claim.get("id")] = json.dumps([claim, cited], sort_keys=True).encode()
    return found


def decided_by(tree: Tree, files: Iterable[str]) -> set[str | None]:
    """The claims that these files decide; None if one of them can read the whole register.

    The package of the register itself does not count: who uses more of it than `decide` is seen.
    """
    home = CLAIMS.replace(".", "/")
    ids = set()
    for path in files:
        if not path.endswith((".py", ".ipynb")) or path.startswith((f"{home}.", f"{home}/")):
            continue
        found = facts_of(tree, path)
        pairs = {(absolute(base, path), name) for base, name in found.imports}
        whole = {f"{base}.{name}".rstrip(".") for base, name in pairs}
        used = {n.rsplit(".", 1)[1] for n in whole if n == CLAIMS or n.startswith(f"{CLAIMS}.")}
        ids |= found.decided if used else set()
        ids |= {None} if used - OF_ONE_ENTRY else set()
    return ids


def claims(tree: Tree, files: Iterable[str]) -> dict[str, str]:
    ids = decided_by(tree, files)
    if None in ids:
        return {path: digest(tree[path]) for path in registers(tree)}
    known = entries(tree) if ids else {}
    return {f"claim {name}": digest(known.get(name, b"")) for name in ids}


# The units.


def pages(tree: Tree) -> list[str]:
    notebooks = (p for p in tree if p.startswith("chapters/") and p.endswith(".ipynb"))
    return sorted(path.removesuffix(".ipynb") for path in notebooks)


def cases(tree: Tree) -> dict[str, str]:
    """The layers that are examined, in each form they are made for, with their evidence."""
    found = {}
    for path in sorted(fnmatch.filter(tree, "normlib/evidence/*.py")):
        for node in ast.walk(ast.parse(tree[path])):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Case":
                given = {keyword.arg: keyword.value for keyword in node.keywords}
                name, (_, *others) = given["forward"].attr, ast.literal_eval(given["forms"])
                found |= dict.fromkeys([name, *(f"{name}, {form}" for form in others)], path)
    return found


def engine(tree: Tree) -> list[str]:
    """The code that examines a layer, whichever it is."""
    python = (path for path in below(tree, "normlib/verify") if path.endswith(".py"))
    return [*python, "normlib/evidence/__init__.py"]


def defining(tree: Tree, words: Iterable[str]) -> list[str]:
    """The modules of layers that define a function of one of these names."""
    texts = [f"def {word}(".encode() for word in words]
    return [p for p in below(tree, "normlib/layers") if any(text in tree[p] for text in texts)]


def test_files(tree: Tree) -> list[str]:
    found = fnmatch.filter(tree, "tests/test_*.py")
    return sorted(path for path in found if path != CASES)


def units(tree: Tree) -> list[str]:
    return [*pages(tree), *(f"layers/{name}" for name in cases(tree)), *test_files(tree)]


def of_layer(tree: Tree, name: str) -> set[str]:
    """Its evidence, the layers that this names, the engine, and the test that brings them together.

    The other layers are left out: the packages load them, but nothing of them is examined.
    """
    case = cases(tree)[name]
    evidence = reached(tree, [case], with_packages=False)
    layers = reached(tree, defining(tree, facts_of(tree, case).words), with_packages=False)
    examiner = reached(tree, [CASES], with_packages=False)
    within_tests = {path for path in examiner if path.startswith("tests/")}
    others = {path for path in below(tree, "normlib/layers") if not path.endswith("__init__.py")}
    return evidence - others | layers | within_tests | {*engine(tree)}


def of(tree: Tree, unit: str) -> dict[str, str]:
    """All that a unit rests on, each with its digest."""
    if unit.startswith("layers/"):
        files, decides = of_layer(tree, unit.removeprefix("layers/")), {}
    else:
        start = unit if unit.endswith(".py") else f"{unit}.ipynb"
        files = reached(tree, [start])
        files = {*tree} if PROJECT in files or facts_of(tree, start) is ALL else files
        decides = claims(tree, files)
    kept = {path: digest(tree[path]) for path in files | {LOCK} if path in tree}
    return kept | decides
