"""The verification report on the site, and the line under the title of every chapter.

A run of the tests leaves records (tools/records.py), the site reads them. Nothing of it is typed.
A page that rests on something that has changed since says so; one that has no record says nothing.
A Sphinx extension; of the library it takes the frame of a table and nothing that computes.
"""

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import records
from docutils import nodes
from records import CHANGED, FAILED, SKIPPED, UNSEEN, VERIFIED, Found
from sphinx.util.docutils import SphinxDirective

from normlib.html import Markup, element, row
from normlib.html import table as html_table

PAGE = "report"
EMPTY = (
    "No test had run where this site was built, so there is nothing to report. For a report, run "
    "make test, then make book. It will say here: when the tests ran, on which machine and with "
    "which packages; what is not verified, and why; for each layer the worst error that each "
    "witness found, and how many planted errors were caught; for each page, its last run."
)
GOOD = "Everything passed: every page and every test file, as they are now."
BAD = "Something FAILED."
LAYERS = "tests/library/test_report.py"  # examines every layer, and hands over what it found


def describe_run(record: dict) -> str:
    """The day of a run, and the commit."""
    date = datetime.datetime.fromisoformat(record["date"])
    at = f" at commit {record['commit']}" if record["commit"] else ""
    return f"{date.day} {date:%B %Y}{at}"


def page_of(found: Found) -> str:
    return found.file.removesuffix(".ipynb")


def line(found: Found) -> tuple[str, str] | None:
    """What stands under the title of a page, and its class: good, bad or unknown."""
    if found.state in (UNSEEN, SKIPPED):
        return None
    on, cells = describe_run(found.record), found.record["passed"]
    if found.state == FAILED:
        return f"{found.record['failed']} of {found.record['of']} cells FAILED on {on}.", "bad"
    if found.state == CHANGED:
        return f"Changed since it was verified on {on}.", "unknown"
    return f"Verified on {on}: {cells} cells agreed.", "good"


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Markup:
    """Rows of cells; the first cell of a row names it."""
    body = (
        element("tr", element("th", first, scope="row"), *(element("td", cell) for cell in rest))
        for first, *rest in rows
    )
    return html_table("verdict facts", row(columns, "th", scope="col"), body)


# A layer.


def describe_error(found: dict | None) -> str:
    """The worst error of one argument before one witness, beside the bound."""
    if found is None:
        return "–"
    if found["failures"]:
        return element("strong", f"{found['error']:.0e}", class_="bad")
    if not found["bound"]:
        return "exact"
    return f"{found['error']:.0e}" if found["error"] else "0"


def witnesses(entry: dict) -> str:
    """Arguments down, witnesses across."""
    arguments, used = entry["arguments"], entry["witnesses"]
    bounds = [max(row[w]["bound"] for row in arguments.values() if w in row) for w in used]
    head = [
        Markup(f"{w}<br>{f'&lt; {b:.0e}' if b else 'exact'}")
        for w, b in zip(used, bounds, strict=True)
    ]
    rows = [(name, *(describe_error(row.get(w)) for w in used)) for name, row in arguments.items()]
    return table(("", *head), rows)


def notes(entry: dict) -> list[str]:
    shapes = ", ".join(str(tuple(shape)) for shape in entry["shapes"])
    checks = [check for row in entry["arguments"].values() for check in row.values()]
    return [
        f"Shapes of the arguments: {shapes}.",
        f"Planted errors caught by the witnesses that need no algebra: {entry['caught']} of "
        f"{entry['planted']}, each by {entry['fewest']} or more.",
        *(f"Not run: {witness}, {why}." for witness, why in entry["not run"]),
        *(f"FAILED: {failure}" for check in checks for failure in check["failures"]),
    ]


# The report of all records.


def explain_missing(found: Found) -> str:
    """Why a file does not count as verified."""
    if found.state == UNSEEN:
        return "not run"
    record, on = found.record, describe_run(found.record)
    if found.state == FAILED:
        return f"{record['failed']} of {record['of']} FAILED on {on}"
    if found.state == CHANGED:
        return f"ran on {on}; {' and '.join(found.changed)} changed since"
    return f"{record['skipped']} of {record['of']} skipped on {on}"


def layers(found: Found) -> Iterator[str]:
    """A heading, a table and notes of every layer; before them, whether they still hold."""
    if found.state != VERIFIED:
        yield element("p", f"All layers: {explain_missing(found)}.")
    for name, entry in (found.record or {}).get("layers", {}).items():
        yield element("h3", name, id=name.replace(" ", "-"))
        yield witnesses(entry)
        yield from (element("p", note) for note in notes(entry))


def verdict(found: list[Found]) -> tuple[str, str]:
    """The first sentence of the report, and its class."""
    if not any(f.record for f in found):
        return EMPTY, "unknown"
    if any(f.state == FAILED for f in found):
        return BAD, "bad"
    whole = sum(f.state == VERIFIED for f in found)
    if whole == len(found):
        return GOOD, "good"
    return f"{whole} of {len(found)} verified; the others are named below.", "unknown"


def count_outcomes(seen: list[dict]) -> str:
    totals = Counter({key: sum(r[key] for r in seen) for key in ("passed", "failed", "skipped")})
    return ", ".join(f"{count} {outcome}" for outcome, count in totals.items())


def facts(seen: list[dict]) -> list[tuple[str, str]]:
    """What the records have in common, a row each; machines that differ have a row each."""
    dates = sorted(record["date"].replace("T", " ").replace("+00:00", " UTC") for record in seen)
    cells, tests = ([r for r in seen if r["file"].endswith(end)] for end in (".ipynb", ".py"))
    places = Counter(
        f"{r['machine']}: {', '.join(f'{n} {v}' for n, v in r['versions'].items())}" for r in seen
    )
    return [
        ("date", " to ".join(dict.fromkeys([dates[0], dates[-1]]))),
        ("tests", count_outcomes(tests)),
        ("cells of notebooks", count_outcomes(cells)),
        *((f"machine of {count} records", place) for place, count in places.items()),
    ]


def page_row(found: Found) -> tuple[str, str]:
    text, _ = line(found) or (explain_missing(found), "")
    return element("a", page_of(found), href=f"{page_of(found)}.html"), text


def html(known: dict[str, Found]) -> str:
    """The whole report."""
    found = [*known.values()]
    seen = [f.record for f in found if f.record]
    text, kind = verdict(found)
    parts = [element("p", text, class_=f"verified {kind}")]
    if seen:
        parts.append(table(("run", ""), facts(seen)))
        parts.append(element("h2", "What is not verified", id="not-verified"))
        open_ = [(f.file, explain_missing(f)) for f in found if f.state != VERIFIED]
        parts.append(table(("", "why"), open_) if open_ else element("p", "Nothing."))
        parts.append(element("h2", "Layers", id="layers"))
        parts += layers(known.get(LAYERS, Found(LAYERS, UNSEEN)))
        parts.append(element("h2", "Pages", id="pages"))
        pages = [page_row(f) for f in found if f.file.endswith(".ipynb")]
        parts.append(table(("page", "its last run"), pages))
    return "".join(parts)


def summary(known: dict[str, Found]) -> tuple[str, str] | None:
    """What stands under the title of the book, if everything is verified as it is now."""
    found = [*known.values()]
    if verdict(found)[1] != "good":
        return None
    last = max((f.record for f in found), key=lambda record: record["date"])
    pages = sum(f.file.endswith(".ipynb") for f in found)
    layers = known[LAYERS].record["layers"].values() if LAYERS in known else ()
    planted = sum(entry["caught"] for entry in layers)
    tests = sum(f.record["passed"] for f in found)
    counted = f"{pages} notebooks, {tests:,} tests and cells, {planted} planted errors caught"
    return f"Verified on {describe_run(last)}: {counted}.", "good"


# The site.


def read_again(app, env, added, changed, removed) -> list[str]:
    """The pages under whose title, or in whose report, something else has to stand now."""
    known = records.latest(Path(app.srcdir))
    before, env.verification = getattr(env, "verification", {}), {PAGE: html(known)}
    env.verification |= {page_of(f): line(f) for f in known.values() if f.file.endswith(".ipynb")}
    env.verification[app.config.root_doc] = summary(known)
    return [page for page, said in env.verification.items() if before.get(page) != said]


class VerificationReport(SphinxDirective):
    """Where the report stands."""

    def run(self) -> list[nodes.Node]:
        return [nodes.raw("", self.env.verification[PAGE], format="html")]


def put_line(app, doctree: nodes.document, page: str) -> None:
    """Under the title of a chapter: what its last run said."""
    title = next(doctree.findall(nodes.title), None)
    said = app.env.verification.get(page)
    if page == PAGE or not said or title is None:
        return
    text, kind = said
    link = nodes.reference("", "Verification report")
    link["refuri"] = app.builder.get_relative_uri(page, PAGE)
    paragraph = nodes.paragraph("", f"{text} ", link, classes=["verified", kind])
    title.parent.insert(title.parent.index(title) + 1, paragraph)


def setup(app) -> dict:
    app.add_directive("verification-report", VerificationReport)
    app.connect("env-get-outdated", read_again)
    app.connect("doctree-resolved", put_line)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
