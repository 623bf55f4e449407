"""Writes a record for each unit that a run of pytest has seen whole, or seen fail."""

import functools
import subprocess
import sys
from collections import Counter
from pathlib import Path

import records
import rests

WHOLE = "whole"  # the property under which a test says how many there are in its file
LAYER = "layer"  # and under which it hands over what it found on a layer (tests/record.py)
LOOSE = ("nbval_lax", "nbval_sanitize_with", "nbval_kernel_name")
WHERE = "import importlib.util as u; print(getattr(u.find_spec('normlib'), 'origin', 'nowhere'))"


def unit_of(nodeid: str) -> str:
    """A page, a layer, or a test file."""
    if nodeid.startswith(f"{rests.CASE_TEST}["):
        return f"layers/{nodeid.partition('[')[2][:-1]}"
    return nodeid.partition("::")[0].removesuffix(".ipynb")


class Run:
    """What this run has found on one unit so far."""

    def __init__(self, file: str):
        self.file, self.whole, self.seconds = file, 0, 0.0
        self.outcomes, self.done, self.layer = {}, set(), None

    def add(self, report):
        said = dict(report.user_properties)
        self.whole = 1 if report.nodeid.startswith(rests.CASE_TEST) else said.get(WHOLE, self.whole)
        self.layer = said.get(LAYER)
        self.seconds += report.duration
        before = self.outcomes.get(report.nodeid, "passed")
        self.outcomes[report.nodeid] = before if report.passed else report.outcome
        if report.when == "teardown":
            self.done.add(report.nodeid)

    def counts(self):
        return Counter(self.outcomes.values())


class Recorder:
    """Listens to the results of all workers.

    The tree is read before anything runs: a file that is edited during the run is then stale.
    """

    def __init__(self, root: Path, options):
        self.root, self.options = root, options
        self.tree = rests.read(root)
        self.units = {*rests.units(self.tree)}
        self.runs, self.written, self.kept_back = {}, set(), ""

    @functools.cached_property
    def doubt(self) -> str:
        """Why the cells of this run prove nothing about this folder, if that is so."""
        loose = [name for name in LOOSE if getattr(self.options, name, None)]
        command, at = [sys.executable, "-c", WHERE], self.root / "chapters"
        found = subprocess.run(command, cwd=at, capture_output=True, text=True).stdout.strip()
        if loose:
            return f"the outputs were not compared as strictly as without {loose[0]}"
        if Path(found).resolve() != (self.root / "normlib" / "__init__.py").resolve():
            return f"the notebooks import the normlib of another folder, {found}"
        return ""

    def pytest_runtest_logreport(self, report):
        unit = unit_of(report.nodeid)
        if unit not in self.units:
            return
        run = self.runs.setdefault(unit, Run(report.nodeid.partition("::")[0]))
        run.add(report)
        if self.is_whole(unit):
            self.write(unit)

    def is_whole(self, unit: str) -> bool:
        """Whether every test of the unit has run to its end; a cell passed over never does."""
        run = self.runs[unit]
        skipped = run.file.endswith(".ipynb") and run.counts()["skipped"]
        return len(run.done) == run.whole and not skipped

    def write(self, unit: str):
        run = self.runs[unit]
        if run.file.endswith(".ipynb") and self.doubt:
            self.kept_back = self.doubt
            return
        self.written.add(unit)
        record = {"unit": unit, "file": run.file, "date": records.now()}
        record |= {"passed": 0, "failed": 0, "skipped": 0} | run.counts()
        of = max(run.whole, len(run.outcomes))  # of a worker that crashed nobody knows how many
        record |= {"of": of, "seconds": round(run.seconds, 2), "layer": run.layer}
        record |= records.environment() | {"rests": rests.of(self.tree, unit)}
        records.write(self.root, record)

    def pytest_sessionfinish(self):
        """What failed stays visible, although the run did not get to its end."""
        for unit in self.runs.keys() - self.written:
            if self.runs[unit].counts()["failed"]:
                self.write(unit)

    def pytest_terminal_summary(self, terminalreporter):
        if self.kept_back:
            terminalreporter.write_line(f"No page was recorded: {self.kept_back}.", yellow=True)
