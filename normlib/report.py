"""The verification report: what a run of all tests found, and how the site shows it.

The run writes a file, the site reads it. Nothing of it is typed: a site that was built before any
run on this machine says so, and a page that has changed since its run says that.
"""

import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
from collections import defaultdict
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from normlib.verify.run import WITNESSES
from normlib.verify.verdict import Verdict

FILE = "_build/report.json"
PACKAGES = ("numpy", "sympy", "torch", "matplotlib", "scikit-learn", "jupyter-book", "nbval")
NO_RUN = "Not yet verified on this machine: make test does it."


def digest(*paths: Path) -> str:
    """A fingerprint of files, so that a page that has changed since its run is known."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()


def library(root: Path) -> str:
    return digest(*(root / "normlib").rglob("*.py"))


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
    """Replace the file whole: an interrupted run leaves the former one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(report, indent=1), encoding="utf-8")
    new.replace(path)


def read(path: Path) -> dict | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def day(report: dict) -> str:
    date = datetime.datetime.fromisoformat(report["date"])
    return f"{date.day} {date:%B %Y}"


def line(report: dict | None, page: str, root: Path) -> tuple[str, str]:
    """What stands under the title of a page, and its class: good, bad or unknown."""
    if not report:
        return NO_RUN, "unknown"
    found = report["pages"].get(page)
    if not found:
        return f"Not among the pages verified on {day(report)}.", "unknown"
    cells = found["passed"] + found["failed"]
    if found["failed"]:
        return f"{found['failed']} of {cells} cells FAILED on {day(report)}.", "bad"
    if found["digest"] != digest(root / f"{page}.ipynb"):
        return f"Changed since it was verified on {day(report)}.", "unknown"
    if report["library"] != library(root):
        return f"Verified on {day(report)}; the library has changed since.", "unknown"
    return f"Verified on {day(report)}: {cells} cells ran again and agreed.", "good"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Rows of HTML cells; the first cell of a row names it."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return f'<table class="verdict"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def reached(found: dict | None) -> str:
    """The worst error of one argument before one witness, beside the bound."""
    if found is None:
        return "–"
    if found["failures"]:
        return f'<strong class="bad">{found["error"]:.0e}</strong>'
    return f"{found['error']:.0e}" if found["bound"] else "exact"


def layer_html(entry: dict) -> str:
    """One layer: arguments down, witnesses across."""
    arguments = entry["arguments"]
    used = [w for w in WITNESSES if any(w in row for row in arguments.values())]
    bounds = [max(row[w]["bound"] for row in arguments.values() if w in row) for w in used]
    head = [
        f"{w}<br>{f'&lt; {b:.0e}' if b else 'exact'}" for w, b in zip(used, bounds, strict=True)
    ]
    rows = [(name, *(reached(row.get(w)) for w in used)) for name, row in arguments.items()]
    shapes = ", ".join(str(tuple(shape)) for shape in entry["shapes"])
    failures = [f for row in arguments.values() for c in row.values() for f in c["failures"]]
    notes = [f"Shapes of the arguments: {shapes}."]
    notes.append(
        f"Planted errors caught by the witnesses that need no algebra: {entry['caught']} of "
        f"{entry['planted']}, each by {entry['fewest']} or more."
    )
    notes += [f"Not run: {witness}, {why}." for witness, why in entry["not run"]]
    notes += [f"FAILED: {failure}" for failure in failures]
    return (
        f'<h2 id="{entry["name"].replace(" ", "-")}">{escape(entry["name"])}</h2>'
        + table(("", *head), rows)
        + "".join(f"<p>{escape(note)}</p>" for note in notes)
    )


def html(report: dict | None) -> str:
    """The whole report."""
    if not report:
        return f'<p class="verified unknown">{NO_RUN}</p>'
    tests, pages = report["tests"], report["pages"]
    failed = sum(page["failed"] for page in pages.values())
    cells = failed + sum(page["passed"] for page in pages.values())
    bad = tests["failed"] or failed
    facts = [
        ("date", report["date"].replace("T", " ").replace("+00:00", " UTC")),
        ("tests", ", ".join(f"{count} {outcome}" for outcome, count in tests.items())),
        ("cells of notebooks", f"{cells}, of which {failed} failed"),
        ("versions", ", ".join(f"{n} {v}" for n, v in report["versions"].items())),
        ("machine", report["machine"]),
    ]
    rows = [
        (f'<a href="{page}.html">{page}</a>', str(found["passed"]), str(found["failed"]))
        for page, found in pages.items()
    ]
    return "".join(
        [
            f'<p class="verified {"bad" if bad else "good"}">'
            f"{'This run FAILED.' if bad else 'Everything passed.'}</p>",
            table(("run", ""), [(name, escape(fact)) for name, fact in facts]),
            *map(layer_html, report["layers"]),
            '<h2 id="pages">Pages</h2>',
            table(("page", "cells that agreed", "cells that failed"), rows),
        ]
    )
