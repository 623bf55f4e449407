"""Runs again what is stale: python tools/check.py [OPTIONS OF PYTEST].

Stale is what has no record, what failed, and what rests on something that has changed since. Of
the test files those that start programs, such as make or a browser, are left to `make test`: they
rest on every file of the project, and take minutes.
"""

import subprocess
import sys
from pathlib import Path

import records
import rests

ROOT = Path(__file__).resolve().parents[1]
REASONS = {records.UNSEEN: "has no record", records.FAILED: "failed"}
STARTS = {"subprocess", "run"}


def starts_programs(tree: rests.Tree, unit: str) -> bool:
    if not unit.endswith(".py"):
        return False
    found = rests.facts_of(tree, unit).imports
    return bool({name for pair in found for name in pair} & STARTS)


def target(unit: str) -> str:
    """What pytest calls a unit."""
    if unit.startswith("layers/"):
        return f"{rests.CASE_TEST}[{unit.removeprefix('layers/')}]"
    return unit if unit.endswith(".py") else f"{unit}.ipynb"


def reason(found: records.Found) -> str:
    first, *others = found.changed or ("",)
    more = f" and {len(others)} more" if others else ""
    return REASONS.get(found.state, f"rests on {first}{more}, which changed")


def sorted_out(tree: rests.Tree, known: list[dict]) -> tuple[list[records.Found], list[str]]:
    """What has to run again, and what is left to `make test`."""
    stale = [f for f in records.judged(tree, known).values() if f.state != records.VERIFIED]
    left = [f.unit for f in stale if starts_programs(tree, f.unit)]
    return [f for f in stale if f.unit not in left], left


def main(options: list[str]) -> int:
    tree = rests.read(ROOT)
    stale, left = sorted_out(tree, records.read(ROOT))
    for found in stale:
        print(f"{found.unit} {reason(found)}")
    if left:
        print(f"Left to make test, which runs everything: {', '.join(left)}")
    if not stale:
        print("Nothing else is stale." if left else "Nothing is stale.")
        return 0
    command = [sys.executable, "-m", "pytest", *options, *(target(f.unit) for f in stale)]
    return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
