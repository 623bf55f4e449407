"""Fair shares of all test files by measured time, for several machines: make test PART=2/4.

The seconds stand in .ci/seconds.json; `python tools/parts.py` takes them from the last records.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import records
import store

ROOT = Path(__file__).resolve().parents[1]
SECONDS = ROOT / ".ci" / "seconds.json"


UNKNOWN = 10.0  # of a file that was never measured


def read_seconds() -> dict[str, float]:
    return json.loads(SECONDS.read_text(encoding="utf-8"))


def longest_first(files: Iterable[str]) -> list[str]:
    seconds = read_seconds()
    return sorted({*files}, key=lambda file: (-seconds.get(file, UNKNOWN), file))


def share(files: Iterable[str], part: str) -> set[str]:
    """The files of a part such as 2/4: the longest first, each to the part with the least so far.

    Errors: ValueError for what is no part.
    """
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", part)
    which, number = map(int, match.groups()) if match else (1, 0)
    if which > number:
        raise ValueError(f"expected a part such as 2/4, the second of four, got {part}")
    seconds, totals, found = read_seconds(), [0.0] * number, set()
    for file in longest_first(files):
        least = totals.index(min(totals))
        totals[least] += seconds.get(file, UNKNOWN)
        found |= {file} if least == which - 1 else set()
    return found


if __name__ == "__main__":
    seconds = {record["file"]: round(record["seconds"], 1) for record in records.read(ROOT)}
    store.write(SECONDS, json.dumps(dict(sorted(seconds.items())), indent=1) + "\n")
