"""Records of what pages and test files did when they last ran, and whether that still holds.

A run of pytest writes a record of each file that it has seen whole, or seen fail. A record holds
the commit, and digests of what the file rested on: itself, all that the files share, and, if it
reads other files, these.
"""

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import store

FOLDER = "_build/records"
PACKAGES = ("numpy", "sympy", "torch", "matplotlib", "scikit-learn", "jupyter-book", "nbval")
VERIFIED, SKIPPED, CHANGED, FAILED, UNSEEN = "verified", "skipped", "changed", "failed", "unseen"

READ = ["chapters", "labs", "normlib", "normbook", "tests", "tools", "site"]
READ += ["_static", "_templates", ".github"]
HIDDEN = re.compile(r"(^|/)(\.(?!github/)|__pycache__)")
RECORDED = re.compile(r"chapters/.+\.ipynb|tests/(?:\w+/)?test_\w+\.py")
SHARED = re.compile(r"(normlib|normbook|tests|tools|site)/|(requirements\.lock|conftest\.py)$")
# A file that is told where others lie, or opens some, may read any.
READER = re.compile(
    rb"^from project import .*[A-Z(]|\b(Path|open)\(|^pytestmark = .*programs", re.M
)
IMPORTED = re.compile(rb"^(?:from|import) (test_\w+)", re.M)

WHOLE = "whole"  # the property under which a test says how many there are in its file
LAYER = "layer"  # and under which tests/library/test_report.py hands over a layer
LOOSE = ("nbval_lax", "nbval_sanitize_with", "nbval_kernel_name")
WHERE = "import importlib.util as u; print(getattr(u.find_spec('normlib'), 'origin', 'nowhere'))"


def rests(root: Path) -> dict[str, dict[str, str]]:
    """Every page and test file, with digests of what it rests on."""
    paths = [p for folder in READ for p in (root / folder).rglob("*")] + [*root.iterdir()]
    named = {path.relative_to(root).as_posix(): path for path in paths if path.is_file()}
    tree = {n: path.read_bytes() for n, path in sorted(named.items()) if not HIDDEN.search(n)}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in tree.items()}

    def digest(names) -> str:
        return hashlib.sha256("".join(name + digests[name] for name in names).encode()).hexdigest()

    own = [name for name in tree if RECORDED.fullmatch(name)]
    shared = digest(name for name in tree if SHARED.match(name) and name not in own)
    others = digest(name for name in tree if name in own or not SHARED.match(name))
    found = {}
    for name in own:
        imported = {module.decode() for module in IMPORTED.findall(tree[name])}
        itself = [name, *(path for path in own if Path(path).stem in imported)]
        found[name] = {"the file": digest(itself), "what all share": shared}
        if READER.search(tree[name]):
            found[name]["files that it reads"] = others
    return found


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def environment() -> dict:
    """The machine and the packages of this run."""
    versions = {"python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in PACKAGES}
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return {"machine": machine, "versions": versions}


def commit(root: Path) -> str:
    """The commit that the files are of; nothing where git does not know them."""

    def git(words: str) -> str:  # through a shell, which does without git
        said = subprocess.run(f"git {words}", shell=True, cwd=root, capture_output=True, text=True)
        return said.stdout.strip()

    known = git("rev-parse --short HEAD")
    return f"{known} with changes" if known and git("status --porcelain") else known


class Recorder:
    """A pytest plugin that listens to the results of all workers.

    The files are read before anything runs: one that is edited during the run is then stale.
    """

    def __init__(self, root: Path, options):
        self.root, self.options, self.rests = root, options, rests(root)
        self.about = {"commit": commit(root)} | environment()
        self.outcomes, self.done, self.seconds = defaultdict(dict), Counter(), Counter()
        self.layers, self.kept_back = defaultdict(dict), ""

    @cached_property
    def doubt(self) -> str:
        """Why the cells of this run prove nothing about this folder, if that is so."""
        if loose := [name for name in LOOSE if getattr(self.options, name, None)]:
            return f"the outputs were not compared as strictly as without {loose[0]}"
        command, at = [sys.executable, "-c", WHERE], self.root / "chapters"
        found = subprocess.run(command, cwd=at, capture_output=True, text=True).stdout.strip()
        if Path(found).resolve() != (self.root / "normlib" / "__init__.py").resolve():
            return f"the notebooks import the normlib of another folder, {found}"
        return ""

    def pytest_runtest_logreport(self, report):
        """Write a record when the last test of a file has ended, or at once when one failed: then
        the failure stays visible although the run may not get to its end."""
        file, said = report.nodeid.partition("::")[0], dict(report.user_properties)
        if file not in self.rests:
            return
        outcomes = self.outcomes[file]
        before = outcomes.get(report.nodeid, "passed")
        outcomes[report.nodeid] = before if report.passed else report.outcome
        self.done[file] += report.when == "teardown"
        self.seconds[file] += report.duration
        if LAYER in said:
            self.layers[file][said[LAYER]["name"]] = said[LAYER]
        if "failed" in outcomes.values() or self.done[file] == said[WHOLE]:
            # of a worker that crashed nobody knows how many tests it had
            self.write(file, max(said.get(WHOLE, 0), len(outcomes)))

    def write(self, file: str, of: int):
        if file.endswith(".ipynb") and self.doubt:
            self.kept_back = self.doubt
            return
        record = {"file": file, "date": now(), "passed": 0, "failed": 0, "skipped": 0, "of": of}
        record |= Counter(self.outcomes[file].values())
        record |= {"seconds": round(self.seconds[file], 2), "layers": self.layers[file]}
        write(self.root, record | self.about | {"rests": self.rests[file]})

    def pytest_terminal_summary(self, terminalreporter):
        if self.kept_back:
            terminalreporter.write_line(f"No page was recorded: {self.kept_back}.", yellow=True)


def write(root: Path, record: dict) -> None:
    store.write(root / FOLDER / f"{record['file']}.json", json.dumps(record, indent=1))


def read(root: Path) -> list[dict]:
    return [json.loads(path.read_text("utf-8")) for path in (root / FOLDER).rglob("*.json")]


class Found(NamedTuple):
    """What is known of a file."""

    file: str
    state: str
    record: dict | None = None
    changed: tuple[str, ...] = ()  # of what it rests on


def judge(file: str, at: dict[str, str], records: list[dict]) -> Found:
    """Of several records the newest counts, of the files as they are now before all others."""
    own = [record for record in records if record["file"] == file]
    if not own:
        return Found(file, UNSEEN)
    record = max(own, key=lambda r: (r["rests"] == at, r["date"]))
    changed = tuple(name for name in at if record["rests"].get(name) != at[name])
    if record["failed"]:
        return Found(file, FAILED, record, changed)
    state = CHANGED if changed else SKIPPED if record["skipped"] else VERIFIED
    return Found(file, state, record, changed)


def latest(root: Path) -> dict[str, Found]:
    """What is known of every page and test file that is here now."""
    records = read(root)
    return {file: judge(file, at, records) for file, at in rests(root).items()}
