"""The book's own Sphinx extension: the verification report, and the line under every title."""

from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from normlib import report

PAGE = "report"


def latest(app) -> dict | None:
    return report.read(Path(app.srcdir, report.FILE))


class VerificationReport(SphinxDirective):
    """Where the report of the last run on this machine stands."""

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(Path(self.env.srcdir, report.FILE)))
        return [nodes.raw("", report.html(latest(self.env.app)), format="html")]


def put_line(app, doctree: nodes.document, page: str) -> None:
    """Under the title of a chapter: what its last run on this machine said."""
    title = next(doctree.findall(nodes.title), None)
    if not page.startswith("chapters/") or title is None:
        return
    text, kind = report.line(latest(app), page, Path(app.srcdir))
    link = nodes.reference("", "Verification report")
    link["refuri"] = app.builder.get_relative_uri(page, PAGE)
    line = nodes.paragraph("", f"{text} ", link, classes=["verified", kind])
    title.parent.insert(title.parent.index(title) + 1, line)


def setup(app) -> dict:
    app.add_directive("verification-report", VerificationReport)
    app.connect("doctree-resolved", put_line)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
