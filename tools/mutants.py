"""Change the library in every small way that Cosmic Ray knows, and see a test go red each time:
make mutants. Some minutes the first time for its environment, then a second for each mutant.

All mutants of the layers are tried, and of the other parts a sample that a fixed seed draws. What
is inside a message is left out. A mutant that no test notices must stand in tools/mutants.toml with
the reason why it computes the same. The totals go to normbook/data/mutants.json.

One pytest collects the tests in a copy of the project and forks for each mutant. The child writes
the mutant into the copy, where `inspect.getsource` finds it, from which errors are planted; gives
the loaded functions its code; and runs the tests, those first that have noticed most, until one is
red. A mutant outside of functions is imported anew. One that uses up its time has been noticed. A
result is kept in _build/mutants as long as the mutated file and the test that noticed it are what
they were, so an interrupted run goes on.
"""

import ast
import contextlib
import gc
import hashlib
import json
import linecache
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

import peers
import pytest
import store

ROOT = Path(__file__).resolve().parents[1]
PINS, HOME = ROOT / "tools" / "mutants.txt", ROOT / "_build" / "mutants"
LISTED, TARGET = ROOT / "tools" / "mutants.toml", ROOT / "normbook" / "data" / "mutants.json"
LEFT_OUT = ("_build", ".git", ".venv", ".hypothesis", "__pycache__", ".ipynb_checkpoints")

SEED, DRAWN = 15, 200
PARTS = {  # the test files that try a part, the quickest first
    "layers": ("layers", "bad_input", "family", "properties", "any_layer"),
    "verify": (
        *("bad_input", "central_differences", "any_layer", "family"),
        *("verify", "calibration", "planted"),
    ),
    "claims": ("ledger", "trials", "pages"),
}
OPTIONS = "-x -q --tb=no -o addopts= -p no:cacheprovider -p no:nbval -p no:xdist"
# a warning would tell of what was imported before
QUIET = [*OPTIONS.split(), "-W", "ignore::pytest.PytestAssertRewriteWarning"]
CPU_SECONDS = 180  # three times what the tests of a part take
MEMORY = 8 << 30


class Mutant(NamedTuple):
    path: str  # from the root
    operator: str  # Cosmic Ray's name
    function: str
    line: int
    edit: tuple[int, int, str]  # the characters from, to, and what comes in

    def applied(self, text: str) -> str:
        first, last, new = self.edit
        return text[:first] + new + text[last:]

    def lines(self, text: str) -> tuple[str, str]:
        """The lines that it touches, before and after, without indentation."""
        first, last, _ = self.edit
        start, rest = text.rfind("\n", 0, first) + 1, len(text) - text.find("\n", last)
        mutated = self.applied(text)
        return text[start : len(text) - rest].strip(), mutated[start : len(mutated) - rest].strip()


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# Which mutants there are.


def messages(text: str) -> list[tuple[int, int]]:
    """Where formatted texts begin and end, in characters."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def at(line: int, column: int) -> int:  # ast counts columns in bytes
        start = starts[line - 1]
        return start + len(text[start:].encode()[:column].decode())

    return [
        (at(n.lineno, n.col_offset), at(n.end_lineno, n.end_col_offset))
        for n in ast.walk(ast.parse(text))
        if isinstance(n, ast.JoinedStr)
    ]


def is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(text, "<mutant>", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def found(part: str) -> tuple[list[Mutant], dict[str, int]]:
    """The mutants of a part, and how many more are inside messages, or no Python: Cosmic Ray takes
    the bare star of a signature for a product."""
    paths = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "normlib" / part).glob("*.py"))
    command = [HOME / "venv" / "bin" / "python", ROOT / "tools" / "mutants_find.py", *paths]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    mutants, left_out = [], Counter({"inside messages": 0, "no Python": 0})
    for path, rows in json.loads(made).items():
        spans = messages(read(ROOT / path))
        for row in rows:
            first, last, _ = row["edit"] = tuple(row["edit"])
            if any(start <= first and last <= end for start, end in spans):
                left_out["inside messages"] += 1
            elif not is_python(Mutant(path, **row).applied(read(ROOT / path))):
                left_out["no Python"] += 1
            else:
                mutants.append(Mutant(path, **row))
    return mutants, left_out


def chosen(part: str, mutants: list[Mutant]) -> list[Mutant]:
    """All of them; or so many that seem drawn by chance, and are drawn again when other lines
    change."""
    if part == "layers":
        return mutants
    return sorted(mutants, key=lambda m: digest(f"{SEED} {name(m)}"))[:DRAWN]


def listed(kind: str) -> Iterator[tuple[str, str, str, str]]:
    """File, function, shipped and mutated line of every entry of tools/mutants.toml."""
    for entry in tomllib.loads(LISTED.read_text(encoding="utf-8")).get(kind, []):
        for mutated in entry["mutated"]:
            yield entry["file"], entry["function"], entry["shipped"], mutated


def placed(kind: str) -> Iterator[Mutant]:
    """The listed mutants where they stand now.

    Errors: ValueError if a shipped line does not stand in its function.
    """
    for path, function, shipped, mutated in listed(kind):
        text = read(ROOT / path)
        nodes = [n for n in ast.walk(ast.parse(text)) if getattr(n, "name", None) == function]
        lines = text.splitlines(keepends=True)
        outside = 0 if not function else len(text)
        start = sum(map(len, lines[: nodes[0].lineno - 1])) if nodes else outside
        first = text.find(shipped, start)
        if first < 0:
            raise ValueError(
                f"expected {shipped!r} in {function} of {path}, found it no more; correct "
                f"{LISTED.name}: make mutants"
            )
        line = text.count("\n", 0, first) + 1
        yield Mutant(path, "", function, line, (first, first + len(shipped), mutated))


def name(mutant: Mutant) -> tuple[str, str, str, str]:
    return mutant.path, mutant.function, *mutant.lines(read(ROOT / mutant.path))


# Trying one, in a forked process.


class FirstFailure:
    """A pytest plugin that remembers what went red first."""

    said = ""

    def pytest_collectreport(self, report):
        self.note(report)

    def pytest_runtest_logreport(self, report):
        self.note(report)

    def note(self, report) -> None:
        if report.failed:
            self.said = self.said or report.nodeid


def functions(owner: object, module: str) -> Iterator[tuple[str, FunctionType]]:
    """The functions that a module or class defines, decorated ones too, by their full names."""
    for value in vars(owner).values():
        if getattr(value, "__module__", None) == module and isinstance(value, type):
            yield from functions(value, module)
        for inner in ("fget", "func", "__func__", "__wrapped__"):
            value = getattr(value, inner, value)
        if isinstance(value, FunctionType) and value.__module__ == module:
            yield value.__qualname__, value


def is_inside_function(text: str, line: int) -> bool:
    nodes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef))
    return any(node.lineno <= line <= node.end_lineno for node in nodes)


def give_code(path: Path, name: str) -> None:
    """Let the functions of a loaded module compute what its file says now."""
    fresh = ModuleType(name)
    fresh.__file__ = str(path)
    exec(compile(read(path), path, "exec"), vars(fresh))
    loaded = dict(functions(sys.modules[name], name))
    for qualname, new in functions(fresh, name):
        old = loaded[qualname]
        old.__code__, old.__defaults__ = new.__code__, new.__defaults__
        old.__kwdefaults__ = new.__kwdefaults__
    linecache.clearcache()
    for module in [m for n, m in sys.modules.items() if n.partition(".")[0] == "normlib"]:
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def limited() -> None:
    for limit, most in ((resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_DATA, MEMORY)):
        resource.setrlimit(limit, (most, most))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)


def go_through(session: pytest.Session, items: list[pytest.Item]) -> str:
    """The first of these tests that is red."""
    first, plugins = FirstFailure(), session.config.pluginmanager
    plugins.unregister(name="terminalreporter")
    plugins.register(first)
    for item, following in zip(items, [*items[1:], None], strict=True):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if first.said:
            break
    return first.said


def anew(files: Iterable[str]) -> str:
    """The first of these files' tests that is red when the library is imported again."""
    ours = {*(f"test_{file}" for file in files), "normlib", "conftest"}
    for name in [n for n in sys.modules if n.partition(".")[0] in ours]:
        del sys.modules[name]
    linecache.clearcache()
    first = FirstFailure()
    code = pytest.main([*QUIET, *(f"tests/test_{file}.py" for file in files)], plugins=[first])
    return (first.said or "conftest.py") if code else ""


def in_child(work: Callable[[], str]) -> str:
    """What `work` finds in a process of its own.

    Errors: SystemExit if it ends in an error of this tool.
    """
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            limited()
            os.write(writer, json.dumps([work(), ""]).encode())
        except BaseException as error:
            os.write(writer, json.dumps(["", repr(error)]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    if not said:
        return "a limit of time or memory"
    test, error = json.loads(said)
    if error:
        sys.exit(f"mutants: expected a test to pass or to fail, got {error}")
    return test


class Trial:
    """A pytest plugin: in place of running the tests once, it runs them on every mutant."""

    def __init__(self, tree: Path, files: tuple[str, ...], mutants: list[Mutant], store: Path):
        self.tree, self.files, self.mutants, self.store = tree, files, mutants, store
        self.noticed: dict[str, Counter] = {}  # by the file of the mutant: how often each test did
        self.said: dict[Mutant, str] = {}
        self.red = ""  # without any mutant

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.collect()
        gc.freeze()
        if red := in_child(lambda: go_through(session, session.items)):
            self.red = red
            return True
        sys.dont_write_bytecode = True  # two mutants can be alike in size and second
        kept = json.loads(read(self.store)) if self.store.exists() else {}
        for number, mutant in enumerate(self.mutants, 1):
            key = f"{mutant.path} {digest(mutant.applied(read(self.tree / mutant.path)))}"
            if not (key in kept and still_holds(self.tree, **kept[key])):
                test = self.tried(session, mutant)
                kept[key] = {"test": test, "file": file_digest(self.tree, test)}
                self.store.write_text(json.dumps(kept, indent=1), encoding="utf-8")
            self.said[mutant] = kept[key]["test"]
            self.noticed.setdefault(mutant.path, Counter())[kept[key]["test"]] += 1
            alive = sum(not test for test in self.said.values())
            line = f"\r{self.store.stem}: {number} of {len(self.mutants)}, {alive} unnoticed"
            print(line, end="", file=sys.__stderr__, flush=True)
        return True

    def tried(self, session: pytest.Session, mutant: Mutant) -> str:
        path = self.tree / mutant.path
        shipped = read(path)
        often = self.noticed.get(mutant.path, Counter())
        items = sorted(session.items, key=lambda item: -often[item.nodeid])

        def work() -> str:
            path.write_text(mutant.applied(shipped), encoding="utf-8")
            if is_inside_function(shipped, mutant.line):
                with contextlib.suppress(Exception):  # then it cannot even be imported
                    give_code(path, mutant.path.removesuffix(".py").replace("/", "."))
                    return go_through(session, items)
            return anew(self.files)

        try:
            return in_child(work)
        finally:
            path.write_text(shipped, encoding="utf-8")


@contextlib.contextmanager
def copy() -> Iterator[Path]:
    """The project in a folder where it can be changed; this process moves there."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "project"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
        sys.path[:0] = [str(tree), str(tree / "tests")]
        os.environ |= {"PYTHONPATH": str(tree), "CI": "true", "OMP_NUM_THREADS": "1"}
        os.chdir(tree)
        yield tree
        os.chdir(ROOT)


# Trying all.


def file_digest(tree: Path, test: str) -> str:
    """Of the file that a test stands in."""
    path = tree / test.partition("::")[0]
    return digest(read(path)) if path.is_file() else ""


def still_holds(tree: Path, test: str, file: str) -> bool:
    """That no test noticed a mutant, or that it used up its time, is never taken for granted."""
    return file != "" and file == file_digest(tree, test)


def results(files: tuple[str, ...], mutants: list[Mutant], store: Path) -> dict[Mutant, str]:
    """For each mutant the test of these files that noticed it. Only once in a process.

    Errors: SystemExit if a test is red without any mutant, or after an interruption.
    """
    store.parent.mkdir(parents=True, exist_ok=True)
    with copy() as tree:
        trial = Trial(tree, files, mutants, store)
        pytest.main([*QUIET, *(f"tests/test_{file}.py" for file in files)], [trial])
    if trial.red:
        sys.exit(f"mutants: expected green tests without any mutant, but {trial.red} is red")
    if len(trial.said) < len(mutants):
        sys.exit("mutants: interrupted; what was tried is kept")
    print()
    return trial.said


def totals(mutants: Iterable[Mutant], alive: set[Mutant], excused: set) -> dict[str, int]:
    mutants = list(mutants)
    same = sum(m in alive and name(m) in excused for m in mutants)
    killed = sum(m not in alive for m in mutants)
    rest = len(mutants) - killed - same
    return {"tried": len(mutants), "noticed": killed, "equivalent": same, "unexplained": rest}


def summary(left_out: dict[str, int], number: int, said: dict[Mutant, str]) -> dict:
    """One part of the table, and the unexplained ones on the screen."""
    alive, excused = {m for m, test in said.items() if not test}, set(listed("equivalent"))
    for mutant in (m for m in said if m in alive and name(m) not in excused):
        path, function, shipped, mutated = name(mutant)
        print(f"{path}:{mutant.line} {function}\n    {shipped}\n    {mutated}")
    mine = {name(m) for m in said if m not in alive} - {name(m) for m in alive}
    for entry in sorted(excused & mine):
        print(f"listed as equivalent, but a test notices it: {entry}")
    kinds = Counter(m.operator.partition("_")[0] for m in said)
    operators = {
        kind: totals((m for m in said if m.operator.partition("_")[0] == kind), alive, excused)
        for kind in sorted(kinds)
    }
    return {
        "mutants": number,
        **left_out,
        **totals(said, alive, excused),
        "operators": operators,
    }


def sample() -> None:
    """The listed few, and one that computes the same, by two test files: a line for each."""
    mutants = [*placed("sample"), next(placed("equivalent"))]
    with tempfile.TemporaryDirectory() as folder:
        said = results(("layers", "bad_input"), mutants, Path(folder) / "sample.json")
    for mutant, test in said.items():
        print(f"{name(mutant)[-1]}: {test or 'unnoticed'}")


def main(part: str) -> None:
    """Try a part, and renew its place in the table."""
    if not peers.is_ready(HOME / "venv", PINS):
        peers.make(HOME / "venv", PINS)
    mutants, left_out = found(part)
    said = results(PARTS[part], chosen(part, mutants), HOME / f"{part}.json")
    table = json.loads(read(TARGET)) if TARGET.exists() else {}
    row = summary(left_out, len(mutants), said)
    table[part] = {"date": date.today().isoformat(), "seed": SEED} | row
    store.write_json(TARGET, table)
    if row["unexplained"]:
        sys.exit(
            f"mutants: expected each to be noticed or listed, got {row['unexplained']} that are "
            f"not; write a test, or the reason in {LISTED.name}"
        )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["sample"]:
            sample()
        case [part] if part in PARTS:
            main(part)
        case []:  # each in a process of its own: the library is imported once in each
            codes = [subprocess.run([sys.executable, __file__, part]).returncode for part in PARTS]
            sys.exit(max(codes))
        case other:
            sys.exit(f"mutants: expected one of {[*PARTS]} or nothing, got {other}")
