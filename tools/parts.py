"""Which test files take longest, so that they are begun first.

The seconds stand in .ci/seconds.json; `python tools/parts.py` takes them from the last records.
"""

import json
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


if __name__ == "__main__":
    seconds = {record["file"]: round(record["seconds"], 1) for record in records.read(ROOT)}
    store.write(SECONDS, json.dumps(dict(sorted(seconds.items())), indent=1) + "\n")
