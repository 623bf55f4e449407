"""The ledger and the errata: the register as tables for a reader."""

from html import escape

from normlib.claims.entries import CONDITIONS, FALSE, Claim, register

COLUMNS = ("claim", "what is said, and what was found", "verdict", "decided in")
WRONG = ("where", "wrong", "right", "why it matters", "claim")
BROAD = ("where", "what is said", "when it holds", "claim")


def table(kind: str, columns: tuple[str, ...], rows: list[str]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in columns)
    top = f'<table class="{kind}"><thead><tr>{head}</tr></thead>'
    return "\n".join([top, "<tbody>", *rows, "</tbody></table>"])


def row(columns: tuple[str, ...], cells: tuple[str, ...], attributes: str = "") -> str:
    """Cells of HTML; on a phone each shows the name of its column itself."""
    named = zip(columns, cells, strict=True)
    body = "".join(f'<td data-label="{name}">{cell}</td>' for name, cell in named)
    return f"<tr{attributes}>{body}</tr>"


class Ledger:
    """All claims, each with an anchor and a link to the cell that decides it.

    titles: what the chapters are called. On the site a script sorts and filters the table.
    """

    def __init__(self, titles: dict[str, str]):
        self.titles = titles
        self.sources, self.claims, _ = register()

    def __repr__(self) -> str:
        return "\n".join(f"{c.id}  {c.verdict}  {c.page or '-'}" for c in self.claims.values())

    def _repr_html_(self) -> str:
        return table("ledger", COLUMNS, [*map(self.row, self.claims.values())])

    def row(self, c: Claim) -> str:
        remark = f'<span class="remark">{escape(c.remark)}</span>' if c.remark else ""
        places = "; ".join(f"{self.sources[key]}, {at}" for key, at in c.at.items())
        cells = (
            f'<a href="#{c.id}">{c.id}</a>',
            f"{escape(c.claim)}{remark}<cite>{escape(places)}</cite>",
            f'<strong data-verdict="{c.verdict}">{c.verdict}</strong>',
            self.decided_in(c),
        )
        sources = escape("|".join(self.sources[key] for key in c.at))
        return row(COLUMNS, cells, f' id="{c.id}" data-sources="{sources}"')

    def decided_in(self, c: Claim) -> str:
        if not c.page:
            return "–"
        return f'<a href="{c.page}.html#claim-{c.id}">{escape(self.titles[c.page])}</a>'


class Errata:
    """What is wrong in one document, why it matters, and what is said there too broadly."""

    def __init__(self, source: str):
        _, claims, slips = register()
        own = [c for c in claims.values() if source in c.at]
        self.wrong = [
            *(
                (c.at[source], c.claim, c.remark, c.matters, c.id)
                for c in own
                if c.verdict == FALSE
            ),
            *((s.at[source], s.wrong, s.right, s.matters, "") for s in slips if source in s.at),
        ]
        self.broad = [
            (c.at[source], c.claim, c.remark, c.id) for c in own if c.verdict == CONDITIONS
        ]
        self.wrong.sort(key=line_number)
        self.broad.sort(key=line_number)

    def __repr__(self) -> str:
        return "\n".join("  ".join(cells[:2]) for cells in self.wrong + self.broad)

    def _repr_html_(self) -> str:
        wrong = table("errata", WRONG, [row(WRONG, linked(cells)) for cells in self.wrong])
        broad = table("errata", BROAD, [row(BROAD, linked(cells)) for cells in self.broad])
        return f"{wrong}\n<p>Said too broadly:</p>\n{broad}" if self.broad else wrong


def line_number(cells: tuple[str, ...]) -> int:
    """Documents are read from the top: "lines 35-39" stands before "line 103"."""
    return int("".join(filter(str.isdigit, cells[0].split("-")[0].split(",")[0])) or 0)


def linked(cells: tuple[str, ...]) -> tuple[str, ...]:
    *texts, id = cells
    return (*map(escape, texts), f'<a href="ledger.html#{id}">{id}</a>' if id else "–")
