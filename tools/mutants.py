"""Change the library in every small way that Cosmic Ray knows, and see a test go red each time:
make mutants. Some minutes the first time for its environment, then a second for each mutant.

All mutants of the layers are tried, and of the other parts a sample that a fixed seed draws. What
is inside a message is left out. A mutant that no test notices must stand in tools/mutants.toml with
the reason why it computes the same. The totals go to chapters/data/mutants.json.

Each mutant is written into a copy of the project, so `inspect.getsource`, from which errors are
planted, reads what runs. One process has everything imported but the library, and forks for each
mutant; a mutant that uses up its time has been noticed. A result is kept in _build/mutants as long
as the mutated file and the test that noticed it are what they were, so an interrupted run goes on.
"""

import ast
import contextlib
import gc
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import peers

ROOT = Path(__file__).resolve().parents[1]
PINS, HOME = ROOT / "tools" / "mutants.txt", ROOT / "_build" / "mutants"
LISTED, TARGET = ROOT / "tools" / "mutants.toml", ROOT / "chapters" / "data" / "mutants.json"
LEFT_OUT = ("_build", ".git", ".venv", ".hypothesis", "__pycache__", ".ipynb_checkpoints")

SEED, DRAWN = 15, 200
PARTS = {  # the test files that try a part, the likeliest first
    "layers": ("layers", "bad_input", "scaling", "properties", "family"),
    "verify": ("verify", "bad_input", "calibration", "family", "planted", "experiments"),
    "claims": ("ledger", "claim_links", "titles", "batch_norm_claims", "trials", "rests"),
}
WARM = "mpmath nbformat numpy.testing pytest scipy.stats sklearn.datasets sympy torch.nn.functional"
OPTIONS = "-x -q --tb=no -o addopts= -p no:cacheprovider -p no:nbval -p no:xdist"
CPU_SECONDS = 120
MEMORY = 12 << 30


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
    if part == "layers":
        return mutants
    return random.Random(SEED).sample(mutants, min(DRAWN, len(mutants)))


def listed(kind: str) -> Iterator[tuple[str, str, str, str]]:
    """File, function, shipped and mutated line of every entry of tools/mutants.toml."""
    for entry in tomllib.loads(LISTED.read_text(encoding="utf-8")).get(kind, []):
        for mutated in entry["mutated"]:
            yield entry["file"], entry["function"], entry["shipped"], mutated


def name(mutant: Mutant) -> tuple[str, str, str, str]:
    return mutant.path, mutant.function, *mutant.lines(read(ROOT / mutant.path))


# Trying one.


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


def in_child(tree: Path, part: str, pipe: int) -> None:
    """Run the tests of a part in the copy, in this forked process, and send what went red."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    os.chdir(tree)
    sys.path[:0] = [str(tree), str(tree / "tests")]
    os.environ |= {"PYTHONPATH": str(tree), "CI": "true"}  # for what a test starts; no chance
    import pytest

    first = FirstFailure()
    options = [
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:nbval",
        "-p",
        "no:xdist",
        "-o",
        "addopts=",
        "--tb=no",
    ]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what was imported before
    for file in PARTS[part]:  # one after another: collecting a file can take a second
        if code := pytest.main([*options, f"tests/test_{file}.py"], plugins=[first]):
            break
    tested = sys.modules.get("normlib")  # none if it could not be imported
    if tested and not tested.__file__.startswith(str(tree)):
        code, first.said = 3, f"the tests ran {tested.__file__}"
    os.write(pipe, json.dumps([int(code), first.said]).encode())


def run(tree: Path, part: str) -> str:
    """The test that goes red in the copy as it is; empty if none does.

    Errors: SystemExit if the tests cannot be run at all.
    """
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            in_child(tree, part, writer)
        except BaseException as error:
            os.write(writer, json.dumps([3, repr(error)]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    if not said:
        return "a limit of time or memory"
    code, test = json.loads(said)
    if code not in (0, 1, 2, 4):  # 4: conftest.py cannot import the library
        sys.exit(
            f"mutants: expected a run of the tests of {part}, pytest ended with {code}: {test}"
        )
    return (test or "conftest.py") if code else ""


def tried(tree: Path, part: str, mutant: Mutant) -> str:
    path = tree / mutant.path
    shipped = read(path)
    try:
        path.write_text(mutant.applied(shipped), encoding="utf-8")
        return run(tree, part)
    finally:
        path.write_text(shipped, encoding="utf-8")


@contextlib.contextmanager
def copy() -> Iterator[Path]:
    """The project in a folder where it can be changed."""
    import_everything_but_the_library()
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "project"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
        yield tree


def import_everything_but_the_library() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    for module in WARM.split():
        import_module(module)


# Trying all.


def file_digest(tree: Path, test: str) -> str:
    """Of the file that a test stands in."""
    path = tree / test.partition("::")[0]
    return digest(read(path)) if path.is_file() else ""


def still_holds(tree: Path, test: str, file: str) -> bool:
    """That no test noticed a mutant is never taken for granted."""
    return test != "" and file == file_digest(tree, test)


def results(part: str, mutants: list[Mutant]) -> dict[Mutant, str]:
    """For each mutant the test that noticed it."""
    store = HOME / f"{part}.json"
    kept = json.loads(store.read_text()) if store.exists() else {}
    said = {}
    with copy() as tree:
        if red := run(tree, part):
            sys.exit(f"mutants: expected green tests of {part} before any mutant, but {red} is red")
        gc.freeze()
        sys.dont_write_bytecode = True  # two mutants can be alike in size and second
        for number, mutant in enumerate(mutants, 1):
            key = f"{mutant.path} {digest(mutant.applied(read(tree / mutant.path)))}"
            if not (key in kept and still_holds(tree, **kept[key])):
                test = tried(tree, part, mutant)
                kept[key] = {"test": test, "file": file_digest(tree, test)}
                store.write_text(json.dumps(kept, indent=1))
            said[mutant] = kept[key]["test"]
            alive = sum(not test for test in said.values())
            print(f"\r{part}: {number} of {len(mutants)}, {alive} unnoticed", end="", flush=True)
    print()
    return said


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


def main(parts: list[str]) -> None:
    if not peers.is_ready(HOME / "venv", PINS):
        peers.make(HOME / "venv", PINS)
    table = json.loads(TARGET.read_text(encoding="utf-8")) if TARGET.exists() else {"parts": {}}
    for part in parts or PARTS:
        mutants, left_out = found(part)
        row = summary(left_out, len(mutants), results(part, chosen(part, mutants)))
        table["parts"][part] = {"date": date.today().isoformat(), **row}
        TARGET.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    if left := sum(row["unexplained"] for row in table["parts"].values()):
        sys.exit(f"mutants: {left} that no test notices; write a test, or a reason in {LISTED}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit("mutants: interrupted; what was tried is kept")
