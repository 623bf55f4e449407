"""Runs again what is stale: python tools/check.py [OPTIONS OF PYTEST].

Stale is what has no record, what failed, and what rests on something that has changed since. Test
files with the marker `programs` are left to `make test`: they take minutes.
"""

import re
import subprocess
import sys
from pathlib import Path

import parts
import records

ROOT = Path(__file__).resolve().parents[1]
REASONS = {records.UNSEEN: "has no record", records.FAILED: "failed"}
FEW = 60.0  # seconds
PROGRAMS = re.compile(r"^pytestmark = pytest\.mark\.programs$", re.M)


def main(options: list[str]) -> int:
    known = records.latest(ROOT).values()
    stale = [f for f in known if f.state not in (records.VERIFIED, records.SKIPPED)]
    left = [f.file for f in stale if PROGRAMS.search((ROOT / f.file).read_text(encoding="utf-8"))]
    again = [f for f in stale if f.file not in left]
    for found in again:
        print(found.file, REASONS.get(found.state) or f"ran before {found.changed[0]} changed")
    if left:
        print(f"Left to make test, which runs everything: {', '.join(left)}")
    if not again:
        print("Nothing else is stale." if left else "Nothing is stale.")
        return 0
    seconds = parts.read_seconds()
    if sum(seconds.get(found.file, parts.UNKNOWN) for found in again) < FEW:
        options = []  # each worker imports all that is needed: one process is done sooner
    command = [sys.executable, "-m", "pytest", *options, *(found.file for found in again)]
    return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
