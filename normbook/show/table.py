"""A small table of numbers that fit on paper."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from normlib import html


def fraction(value: float) -> str:
    """The simple fraction that a float stands for.

    Errors: ValueError if none with a denominator of at most 1000 lies within rounding.
    """
    nearest = Fraction(float(value)).limit_denominator(1000)  # NumPy's own integers overflow
    if abs(value - nearest) > 1e-13 * max(1, abs(nearest)):
        raise ValueError(
            f"expected a number that is a simple fraction up to rounding, got {value!r}; choose "
            f"numbers that can be followed on paper"
        )
    return str(nearest).replace("-", "−")


class Table:
    """Rows of numbers by their names, written as fractions."""

    def __init__(self, rows: Mapping[str, Sequence[float]]):
        self.rows = [(n, *map(fraction, np.ravel(values))) for n, values in rows.items()]

    def __repr__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in self.rows
        )

    def _repr_html_(self) -> str:
        return html.table("verdict paper", html.Markup(""), map(row, self.rows))


def row(cells: tuple[str, ...]) -> html.Markup:
    name, *values = cells
    head = html.element("th", name, scope="row")
    return html.element("tr", head, *(html.element("td", value) for value in values))


class Grid:
    """Rows of words under a head, as Markdown: links and formulas in it work everywhere. With the
    name of a fold, they are shown on asking."""

    def __init__(self, head: Sequence[str], rows: Sequence[Sequence[str]], fold: str = ""):
        self.rows = [tuple(head), *map(tuple, rows)]
        self.fold = fold

    def __repr__(self) -> str:
        return "\n".join(" | ".join(row) for row in self.rows)

    def _repr_markdown_(self) -> str:
        head, *rows = ("| " + " | ".join(row) + " |" for row in self.rows)
        table = "\n".join([head, "|---" * len(self.rows[0]) + "|", *rows])
        if not self.fold:
            return table
        return f"<details><summary>{self.fold}</summary>\n\n{table}\n\n</details>"
