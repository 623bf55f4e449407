"""Fair shares of all test files by measured time, for several machines: make test PART=2/4.

The seconds stand in .ci/seconds.json; `python tools/parts.py` takes them from the last records.
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import records
import store

SECONDS = ".ci/seconds.json"


def measured(root: Path) -> dict[str, float]:
    path = root / SECONDS
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def expected(seconds: dict[str, float], file: str) -> float:
    """How long a file takes; one that was never measured, the mean."""
    return seconds.get(file, sum(seconds.values()) / max(len(seconds), 1))


def shares(files: Iterable[str], seconds: dict[str, float], number: int) -> list[list[str]]:
    """The longest file first, each to the share with the least so far."""
    found = [[] for _ in range(number)]
    totals = [0.0] * number
    for file in sorted({*files}, key=lambda f: (-expected(seconds, f), f)):
        least = min(range(number), key=lambda k: (totals[k], len(found[k])))
        found[least].append(file)
        totals[least] += expected(seconds, file)
    return found


def part(text: str) -> tuple[int, int]:
    """2/4 as (2, 4). Errors: ValueError for what is no part."""
    match = re.fullmatch(r"([1-9]\d*)/([1-9]\d*)", text)
    which, number = map(int, match.groups()) if match else (1, 0)
    if which > number:
        raise ValueError(f"expected a part such as 2/4, the second of four, got {text}")
    return which, number


def main(root: Path) -> None:
    """Store what the files took when they last ran."""
    found = [f.record for f in records.latest(root).values()]
    if None in found:
        sys.exit("parts: expected a record of every page, layer and test file; try: make test")
    totals = Counter()
    for record in found:
        totals[record["file"]] += record["seconds"]
    seconds = {file: round(total, 1) for file, total in sorted(totals.items())}
    store.write(root / SECONDS, json.dumps(seconds, indent=1) + "\n")
    for number in (1, 2, 4):
        sums = [sum(map(seconds.get, share)) for share in shares(seconds, seconds, number)]
        print(f"{number} parts: {', '.join(f'{total:.0f}' for total in sums)} s of one core")


if __name__ == "__main__":
    main(Path(__file__).resolve().parents[1])
