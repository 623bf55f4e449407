"""The verification report on the site, and the line under the title of every chapter.

`make test` writes the report (tests/record.py), the site reads it. Nothing of it is typed: a site
that was built before any run on this machine says so, and so does a page that has changed since
its run. A Sphinx extension, and free of the library: reading a report must not load it.
"""

import datetime
import hashlib
import json
from collections.abc import Iterable
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

FILE = "_build/report.json"
PAGE = "report"
NO_RUN = "Not yet verified on this machine: make test does it."


def digest(*paths: Path) -> str:
    """A fingerprint of files, so that a page that has changed since its run is known."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(paths))).hexdigest()


def library(root: Path) -> str:
    return digest(*(root / "normlib").rglob("*.py"))


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


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Rows of HTML cells; the first cell of a row names it."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in columns)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    return (
        f'<table class="verdict facts"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
    )


def reached(found: dict | None) -> str:
    """The worst error of one argument before one witness, beside the bound."""
    if found is None:
        return "–"
    if found["failures"]:
        return f'<strong class="bad">{found["error"]:.0e}</strong>'
    if not found["bound"]:
        return "exact"
    return f"{found['error']:.0e}" if found["error"] else "0"


def layer_html(entry: dict) -> str:
    """One layer: arguments down, witnesses across."""
    arguments = entry["arguments"]
    used = entry["witnesses"]
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


def latest(app) -> dict | None:
    return read(Path(app.srcdir, FILE))


class VerificationReport(SphinxDirective):
    """Where the report of the last run on this machine stands."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(Path(self.env.srcdir, FILE)))
        return [nodes.raw("", html(latest(self.env.app)), format="html")]


def put_line(app, doctree: nodes.document, page: str) -> None:
    """Under the title of a chapter: what its last run on this machine said."""
    title = next(doctree.findall(nodes.title), None)
    if not page.startswith("chapters/") or title is None:
        return
    text, kind = line(latest(app), page, Path(app.srcdir))
    link = nodes.reference("", "Verification report")
    link["refuri"] = app.builder.get_relative_uri(page, PAGE)
    paragraph = nodes.paragraph("", f"{text} ", link, classes=["verified", kind])
    title.parent.insert(title.parent.index(title) + 1, paragraph)


def setup(app) -> dict:
    app.add_directive("verification-report", VerificationReport)
    app.connect("doctree-resolved", put_line)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
