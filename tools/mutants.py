"""Change the layers in every small way that Cosmic Ray knows, and see a test go red each time:
make mutants, or for one module of normlib/layers: make mutants PART=group.

A mutant that no test notices must stand in tools/mutants.toml with the reason why it computes the
same. What is inside a message is left out. The totals go to normbook/data/mutants.json.

What Cosmic Ray itself would do, a new process of pytest for each mutant, takes six hours. Here a
process that has loaded NumPy, SymPy and PyTorch once is forked for each. The child writes the
mutant into a copy of the project and runs the tests there, those first that were red before.
"""

import ast
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
import warnings
from collections.abc import Iterator, Sequence
from datetime import date
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

import hypothesis  # noqa: F401  loaded here, so that no child has to
import numpy as np  # noqa: F401
import pytest
import store
import sympy as sp  # noqa: F401
import torch  # noqa: F401

ROOT = Path(__file__).resolve().parents[1]
PIN = "cosmic-ray==8.7.0"  # lies by itself: the book's environment does not have it
HOME = ROOT / "_build" / PIN
LISTED, TABLE = ROOT / "tools" / "mutants.toml", ROOT / "normbook" / "data" / "mutants.json"

COPIED = "normlib", "normbook", "tests", "tools", "pyproject.toml", "_toc.yml"
FILES = ("layers", "bad_input", "family", "properties", "any_layer")  # the quickest first
OPTIONS = "-x -q --tb=no --noconftest --failed-first -p no:nbval -p no:xdist -o addopts="
CPU_SECONDS = 180  # several times what all the tests take
MEMORY = 8 << 30


class Mutant(NamedTuple):
    path: str  # from the root
    function: str
    shipped: str
    mutated: str  # the whole text of the file, as shipped

    def name(self) -> tuple[str, str, str, str]:
        """File, function, and the lines that differ, without indentation."""
        before, after = self.shipped.splitlines(), self.mutated.splitlines()
        steps = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        edits = [places for kind, *places in steps if kind != "equal"]
        (start, _, new_start, _), (_, end, _, new_end) = edits[0], edits[-1]
        lines = before[start:end], after[new_start:new_end]
        return self.path, self.function, *("\n".join(side).strip() for side in lines)


class NoMessages(ast.NodeTransformer):
    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Constant:
        return ast.Constant("")


def read_meaning(text: str) -> str:
    """What Python reads, without what is inside messages; nothing of what is no Python."""
    try:
        with warnings.catch_warnings(action="ignore"):
            compile(text, "<mutant>", "exec", dont_inherit=True)
            return ast.dump(NoMessages().visit(ast.parse(text)))
    except SyntaxError:  # Cosmic Ray takes the bare star of a signature for a product
        return ""


def mutants(path: str) -> Iterator[Mutant]:
    """Every mutant of a module by every operator that takes no settings."""
    if str(HOME) not in sys.path:
        sys.path.append(str(HOME))  # last: what the book pins goes first
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.ast.ast_query import ASTQuery
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    text = (ROOT / path).read_text(encoding="utf-8")
    nodes, same = list(ast_nodes(get_ast(text))), ("", read_meaning(text))
    for kind in map(get_operator, sorted(operator_names())):
        places = [] if kind.arguments() else nodes
        hits = (node for node in places for _ in kind().mutation_positions(node))
        for occurrence, node in enumerate(hits):
            mutated = mutate_code(text, kind(), occurrence)
            if read_meaning(mutated) not in same:
                function = ASTQuery(node).get_definition_name() or ""
                yield Mutant(path, function, text, mutated)


def run_tests(folder: Path, mutant: Mutant, files: Sequence[str]) -> int:
    """What pytest ends with in a copy of the project that holds the mutant."""
    for limit, most in ((resource.RLIMIT_CPU, CPU_SECONDS), (resource.RLIMIT_DATA, MEMORY)):
        resource.setrlimit(limit, (most, most))
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    with tempfile.TemporaryDirectory(dir=folder) as tree:
        for name in COPIED:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
            copy(ROOT / name, Path(tree, name))
        Path(tree, mutant.path).write_text(mutant.mutated, encoding="utf-8")
        os.chdir(tree)
        sys.path[:0] = [tree]
        sys.dont_write_bytecode = True
        os.environ |= {"PYTHONPATH": tree, "OMP_NUM_THREADS": "1"}
        # a warning would tell of what was imported before
        quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning", "-o", f"cache_dir={folder}/red"]
        return pytest.main(
            [*OPTIONS.split(), *quiet, *(f"tests/library/test_{f}.py" for f in files)]
        )


def try_mutants(mutants: list[Mutant], files: Sequence[str] = FILES) -> list[bool]:
    """Of each mutant, whether a test noticed it; one that uses up its time has been noticed.

    Errors: SystemExit if pytest itself did not work.
    """
    codes, running = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for number, mutant in enumerate([*mutants, None]):
            while running and (mutant is None or len(running) == os.cpu_count()):
                child, status = os.wait()
                codes[running.pop(child)] = os.waitstatus_to_exitcode(status)
                print(f"\r{len(codes)} of {len(mutants)}", end="", file=sys.stderr, flush=True)
            if mutant and not (child := os.fork()):
                code = pytest.ExitCode.INTERNAL_ERROR
                try:
                    code = run_tests(Path(folder), mutant, files)
                finally:
                    os._exit(code)
            running |= {child: number} if mutant else {}
    if wrong := {*codes.values()} & {3, 4, 5}:
        sys.exit(f"mutants: expected tests that pass or fail, pytest ended with {wrong}")
    return [codes[number] != 0 for number in range(len(mutants))]


def list_equivalent() -> Iterator[tuple[str, str, str, str]]:
    """The names of the mutants in tools/mutants.toml."""
    for entry in tomllib.loads(LISTED.read_text(encoding="utf-8"))["equivalent"]:
        for mutated in entry["mutated"]:
            yield entry["file"], entry["function"], entry["shipped"], mutated


def main(modules: list[str]) -> None:
    """Try the mutants of these modules; of all of them, renew the totals."""
    if not HOME.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", HOME, PIN]
        subprocess.run(pip, check=True, capture_output=True)
    paths = sorted(p.relative_to(ROOT).as_posix() for p in ROOT.glob("normlib/layers/*.py"))
    chosen = [path for path in paths if not modules or Path(path).stem in modules]
    if not chosen:
        sys.exit(f"mutants: expected modules of normlib/layers, got {' '.join(modules)}")
    found = [mutant for path in chosen for mutant in mutants(path)]
    if try_mutants([Mutant(chosen[0], "", "", (ROOT / chosen[0]).read_text(encoding="utf-8"))])[0]:
        sys.exit("mutants: expected green tests without any mutant")
    noticed, excused = try_mutants(found), {*list_equivalent()}
    alive = [mutant for mutant, was_noticed in zip(found, noticed, strict=True) if not was_noticed]
    unexplained = [m for m in alive if m.name() not in excused]
    for path, function, shipped, mutated in (m.name() for m in unexplained):
        print(f"{path} {function}\n    {shipped}\n    {mutated}")
    for name in excused & {m.name() for m in found} - {m.name() for m in alive}:
        print(f"listed as equivalent, but a test notices it: {name}")
    counts = {"tried": len(found), "noticed": sum(noticed)}
    counts |= {"equivalent": len(alive) - len(unexplained), "unexplained": len(unexplained)}
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    if not modules:
        store.write_json(TABLE, {"date": date.today().isoformat(), **counts})
    if unexplained:
        sys.exit(f"mutants: write a test for each of these, or the reason in {LISTED.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
