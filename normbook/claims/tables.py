"""The ledger and the errata: the register as tables for a reader."""

from collections.abc import Iterable

from normbook.claims.entries import (
    CONDITIONS,
    ERROR,
    FALSE,
    KINDS,
    MISPRINT,
    VERDICTS,
    Claim,
    Slip,
    register,
)
from normlib.html import Markup, element, row, table

CLAIMS = ("claim", "what is said", "verdict")
SLIPS = ("entry", "what is wrong", "kind", "where")
HEADINGS = {
    FALSE: "Does not hold:",
    CONDITIONS: "Misleads without a condition:",
    ERROR: "Wrong definitions, names and numbers:",
    MISPRINT: "Misprints:",
}
COLUMNS = {
    FALSE: ("where", "what is said", "what holds", "why it matters", "entry"),
    CONDITIONS: ("where", "what is said", "when it holds", "entry"),
    ERROR: ("where", "wrong", "right", "why it matters", "entry"),
    MISPRINT: ("where", "wrong", "right", "why it matters", "entry"),
}


def listing(kind: str, columns: tuple[str, ...], rows: Iterable[Markup]) -> Markup:
    return table(kind, row(columns, "th", scope="col"), rows, between="\n")


def fold(head: str, *parts: Markup) -> Markup:
    return element("details", element("summary", head), *parts)


def paragraphs(**said: str) -> list[Markup]:
    """What is said under each heading, but for those of which there is nothing to say."""
    heads = {key: f"{key.replace('_', ' ').capitalize()}: " for key in said}
    return [element("p", element("b", heads[key]), text) for key, text in said.items() if text]


def label_cells(columns: tuple[str, ...], cells: Iterable[object], **attributes: str) -> Markup:
    """A row whose cells carry the names of their columns, for phones."""
    named = zip(columns, cells, strict=True)
    return element("tr", *(element("td", c, data_label=name) for name, c in named), **attributes)


def link(id: str, page: str = "") -> Markup:
    return element("a", id, href=f"{page}#{id}")


class Ledger:
    """All claims with their verdicts, each with an anchor; what was found, where it is said and the
    link to the cell that decides it are folded under the claim.

    titles: what the chapters are called. On the site a script sorts and filters the table.
    """

    def __init__(self, titles: dict[str, str]):
        self.titles = titles
        self.sources, self.claims, _ = register()

    def __repr__(self) -> str:
        return "\n".join(f"{c.id}  {c.verdict}  {c.page or '-'}" for c in self.claims.values())

    def _repr_html_(self) -> str:
        return listing("ledger", CLAIMS, map(self.row, self.claims.values()))

    def row(self, c: Claim) -> Markup:
        found = [element("p", c.remark)] * bool(c.remark)
        found += paragraphs(another_trial=c.also, earlier_verdict=c.changed, said_in=self.cite(c))
        title = self.titles.get(c.page, "")
        if c.page:
            link_there = element("a", title, href=c.card)
            found.append(element("p", element("b", "Decided in: "), link_there))
        verdict = element("strong", c.verdict, data_verdict=c.verdict)
        data = {
            "data_sources": "|".join(self.sources[key] for key in c.at),
            "data_evidence": c.evidence,
            "data_page": title,
        }
        return label_cells(CLAIMS, (link(c.id), fold(c.claim, *found), verdict), id=c.id, **data)

    def cite(self, c: Claim) -> str:
        """Where it is said, by which words each source limits it, and what kind of test decides."""
        places = [
            " ".join([f"{self.sources[key]}, {at}", *(f"“{word}”" for word in at.scope)])
            for key, at in c.at.items()
        ]
        return "; ".join(places) + (f" · decided by {c.evidence}" if c.evidence else "")


class Slips:
    """The errors and misprints that need no verdict, in all sources, each with an anchor."""

    def __init__(self):
        self.sources, _, self.slips = register()

    def __repr__(self) -> str:
        return "\n".join(f"{s.id}  {s.at}" for s in self.slips.values())

    def _repr_html_(self) -> str:
        return listing("ledger slips", SLIPS, map(self.row, self.slips.values()))

    def row(self, s: Slip) -> Markup:
        said = fold(s.wrong, *paragraphs(right=s.right, why_it_matters=s.matters))
        where = f"{self.sources[s.source]}, {s.at}"
        return label_cells(SLIPS, (link(s.id), said, s.kind, where), id=s.id)


class Errata:
    """What of one document does not hold, what misleads, its errors and its misprints.

    Each part is a table of its own, in the order of the lines; a document may lack some. What it
    quotes is not charged to it.
    """

    def __init__(self, source: str):
        _, claims, slips = register()
        own = [(c.at[source], c) for c in claims.values() if source in c.at]
        own = [(at, c) for at, c in own if not at.quoted]
        rows = {v: [(at, c) for at, c in own if c.verdict == v] for v in (FALSE, CONDITIONS)}
        slips = [s for s in slips.values() if s.source == source]
        self.parts = {
            FALSE: [(at, c.claim, c.remark, c.matters, c.id) for at, c in rows[FALSE]],
            CONDITIONS: [(at, c.claim, c.remark, c.id) for at, c in rows[CONDITIONS]],
        }
        self.parts |= {
            kind: [(s.at, s.wrong, s.right, s.matters, s.id) for s in slips if s.kind == kind]
            for kind in KINDS
        }
        for part in self.parts.values():
            part.sort(key=lambda cells: cells[0].lines)

    def __repr__(self) -> str:
        rows = (row for part in self.parts.values() for row in part)
        return "\n".join(f"{where}  {said}" for where, said, *_ in rows)

    def _repr_html_(self) -> str:
        return "\n".join(
            f"<p>{HEADINGS[kind]}</p>\n" + listing("errata", COLUMNS[kind], linked_rows(kind, rows))
            for kind, rows in self.parts.items()
            if rows
        )


def linked_rows(kind: str, rows: list[tuple]) -> list[Markup]:
    return [link_row(COLUMNS[kind], *cells) for cells in rows]


def link_row(columns: tuple[str, ...], *cells: object) -> Markup:
    *said, id = cells
    return label_cells(columns, (*said, link(id, "ledger.html")))


class Said:
    """For the recap of a chapter: what a page decides, by verdict, with a link to every card.

    page: as in the register. The links are Markdown's, so that they work in JupyterLab too; the
    site gives them the colours of their verdicts.
    Errors: ValueError for a page that decides nothing.
    """

    def __init__(self, page: str):
        claims = register().claims.values()
        if page not in {c.page for c in claims}:
            pages = ", ".join(sorted({c.page for c in claims if c.page}))
            raise ValueError(
                f"Said: expected a page that decides claims, got {page!r}; there are: {pages}"
            )
        own = {v: [c for c in claims if (c.page, c.verdict) == (page, v)] for v in VERDICTS}
        self.by_verdict = {verdict: found for verdict, found in own.items() if found}
        self.total = sum(map(len, self.by_verdict.values()))

    def __repr__(self) -> str:
        rows = [f"{v}: {len(c)} ({', '.join(x.id for x in c)})" for v, c in self.by_verdict.items()]
        return "\n".join([f"{self.total} claims", *rows])

    def _repr_markdown_(self) -> str:
        rows = (
            f"| {verdict} | {len(claims)} | {', '.join(map(to_card, claims))} |"
            for verdict, claims in self.by_verdict.items()
        )
        return "\n".join([f"| verdict | of {self.total} | claims |", "|---|---|---|", *rows])


def to_card(c: Claim) -> str:
    """A link as the site and JupyterLab understand it (site/claim_links.py)."""
    return f"[{c.id}]({c.page}.ipynb#cell-id=claim-{c.id})"
