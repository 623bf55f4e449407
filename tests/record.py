"""Writes down what a run of all tests found. The site shows it (tools/verification.py)."""

import datetime
import importlib.metadata
import json
import os
import platform
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import store
from verification import digest, library

from normlib.verify.run import WITNESSES
from normlib.verify.verdict import Verdict

PACKAGES = ("numpy", "sympy", "torch", "matplotlib", "scikit-learn", "jupyter-book", "nbval")


def layer(name: str, args: Iterable[np.ndarray], verdict: Verdict, caught: np.ndarray) -> dict:
    """What is kept of a verdict on one layer: the worst error of each argument and witness.

    caught: planted errors × witnesses, as `verify.falsify` returns it.
    """
    worst: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for c in verdict.checks:
        kept = worst[c.argument].get(c.witness, {"error": 0.0, "bound": c.bound, "failures": []})
        kept["error"] = max(kept["error"], float(c.error))
        kept["failures"] += [c.failure] * bool(c.failure)
        worst[c.argument][c.witness] = kept
    hits = [int(row.sum()) for row in caught]
    return {
        "name": name,
        "witnesses": [w for w in WITNESSES if any(w in row for row in worst.values())],
        "shapes": [list(a.shape) for a in args],
        "arguments": dict(worst),
        "not run": [list(pair) for pair in verdict.not_run],
        "planted": len(hits),
        "caught": sum(hit > 0 for hit in hits),
        "fewest": min(hits, default=0),
    }


def compose(root: Path, layers: list[dict], cells: dict[str, list[int]], tests: dict) -> dict:
    """The report of a run. cells: for each page how many of its cells passed, and how many not."""
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    pages = {
        page: {"passed": passed, "failed": failed, "digest": digest(root / f"{page}.ipynb")}
        for page, (passed, failed) in sorted(cells.items())
    }
    versions = {"python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "date": now.isoformat(),
        "versions": versions,
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "library": library(root),
        "tests": tests,
        "pages": pages,
        "layers": sorted(layers, key=lambda entry: entry["name"]),
    }


def write(path: Path, report: dict) -> None:
    store.write(path, json.dumps(report, indent=1))
