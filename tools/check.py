"""Runs again what is stale: python tools/check.py [OPTIONS OF PYTEST].

Stale is what has no record, what failed, and what rests on something that has changed since. Test
files with the marker `programs` are left to `make test`: they take minutes.
"""

import subprocess
import sys
from pathlib import Path

import records
import rests

ROOT = Path(__file__).resolve().parents[1]
REASONS = {records.UNSEEN: "has no record", records.FAILED: "failed"}


def target(unit: str) -> str:
    """What pytest calls a unit."""
    if unit.startswith("layers/"):
        return f"{rests.CASE_TEST}[{unit.removeprefix('layers/')}]"
    return rests.file_of(unit)


def reason(found: records.Found) -> str:
    first, *others = found.changed or ("",)
    more = f" and {len(others)} more" if others else ""
    return REASONS.get(found.state, f"rests on {first}{more}, which changed")


def sorted_out(tree: rests.Tree, known: list[dict]) -> tuple[list[records.Found], list[str]]:
    """What has to run again, and what is left to `make test`."""
    stale = [f for f in records.judged(tree, known).values() if f.state != records.VERIFIED]
    left = [f.unit for f in stale if rests.starts_programs(tree, f.unit)]
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
