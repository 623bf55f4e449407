"""The records of what was verified: one file for each unit, and what they say of the tree now.

A record says what its run found on one unit (tools/rests.py), and holds a digest of everything
that the unit rested on. The records of several machines, placed into one folder, below each
other or in folders of their own, make one report.
"""

import datetime
import importlib.metadata
import json
import os
import platform
import re
from pathlib import Path
from typing import NamedTuple

import rests
import store

FOLDER = "_build/records"
PACKAGES = ("numpy", "sympy", "torch", "matplotlib", "scikit-learn", "jupyter-book", "nbval")
VERIFIED, FAILED, CHANGED, UNSEEN = "verified", "failed", "changed", "unseen"


class Found(NamedTuple):
    """What is known of a unit."""

    unit: str
    state: str
    record: dict | None = None
    changed: tuple[str, ...] = ()  # what it rests on and is no longer as it was


def environment() -> dict:
    """The machine and the packages of this run."""
    versions = {"python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in PACKAGES}
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    return {"machine": machine, "versions": versions}


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def write(root: Path, record: dict) -> None:
    name = re.sub(r"[^\w./-]+", "-", record["unit"])
    store.write(root / FOLDER / f"{name}.json", json.dumps(record, indent=1))


def read(root: Path) -> list[dict]:
    return [loaded(path) for path in sorted((root / FOLDER).rglob("*.json"))]


def loaded(path: Path) -> dict:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"expected a record in {path}, got {error}; remove the file") from error
    return record


def judged(tree: rests.Tree, records: list[dict]) -> dict[str, Found]:
    """Every unit of the tree. Records of what is no longer there say nothing."""
    return {unit: judge(tree, unit, records) for unit in rests.units(tree)}


def judge(tree: rests.Tree, unit: str, records: list[dict]) -> Found:
    """Of several records the newest counts, of the tree as it is now before all others."""
    own = [record for record in records if record["unit"] == unit]
    if not own:
        return Found(unit, UNSEEN)
    at = rests.of(tree, unit)
    record = max(own, key=lambda r: (r["rests"] == at, r["date"]))
    pairs = {*at.items()} ^ {*record["rests"].items()}
    changed = tuple(sorted({name for name, _ in pairs}))
    state = FAILED if record["failed"] else CHANGED if changed else VERIFIED
    return Found(unit, state, record, changed)


def latest(root: Path) -> dict[str, Found]:
    return judged(rests.read(root), read(root))
