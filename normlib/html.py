"""HTML that pages show: one way to escape, and one frame for every table."""

from collections.abc import Iterable
from html import escape


class Markup(str):
    """Text that is HTML already; all other text is escaped where it enters an element."""

    __slots__ = ()


def element(name: str, *content: object, **attributes: str) -> Markup:
    """Return one element; `data_label="x"` is written data-label="x", `class_="x"` class="x"."""
    given = (
        f' {key.strip("_").replace("_", "-")}="{escape(text)}"' for key, text in attributes.items()
    )
    parts = (part if isinstance(part, Markup) else escape(str(part)) for part in content)
    return Markup(f"<{name}{''.join(given)}>{''.join(parts)}</{name}>")


def row(cells: Iterable[object], tag: str = "td", **attributes: str) -> Markup:
    """Return a row whose cells are alike; the attributes are those of every cell."""
    return element("tr", *(element(tag, cell, **attributes) for cell in cells))


def table(kind: str, head: Markup, rows: Iterable[Markup], between: str = "") -> Markup:
    """Return a table of the class `kind`; a line break `between` rows keeps stored pages legible.

    A plain table is `table(kind, row(columns, "th"), map(row, rows))`. Rows with a header or
    with attributes of their own are made by `element`.
    """
    top = f'<table class="{kind}"><thead>{head}</thead>'
    return Markup(between.join([top, "<tbody>", *rows, "</tbody></table>"]))
