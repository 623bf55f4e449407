"""Writes the verification report of a run, if the run saw every layer and every page."""

from collections import Counter

import pytest
import record
from project import CHAPTERS, ROOT
from verification import FILE

LAYER = "layer"  # the property under which a test hands over what it found on a layer


class Recorder:
    """Listens to the results of all workers."""

    def __init__(self):
        self.layers, self.cells, self.tests = [], {}, Counter(passed=0, failed=0, skipped=0)

    def pytest_runtest_logreport(self, report):
        if report.when != "call" and report.passed:
            return  # preparing and clearing up count only when they fail
        self.tests[report.outcome] += 1
        self.layers += [value for name, value in report.user_properties if name == LAYER]
        page, notebook, _ = report.nodeid.partition(".ipynb::")
        if notebook:
            passed, failed = self.cells.get(page, (0, 0))
            self.cells[page] = [passed + report.passed, failed + report.failed]

    def pytest_sessionfinish(self):
        pages = {path.relative_to(ROOT).with_suffix("").as_posix() for path in CHAPTERS}
        if self.layers and pages == set(self.cells):
            whole = record.compose(ROOT, self.layers, self.cells, dict(self.tests))
            record.write(ROOT / FILE, whole)


def pytest_configure(config: pytest.Config):
    if not hasattr(config, "workerinput"):  # a worker's results reach the process that started it
        config.pluginmanager.register(Recorder())
