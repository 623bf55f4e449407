"""A sheet to print for each layer: its lines, a batch that comes out even, and room to compute."""

import re
from fractions import Fraction

import numpy as np

from normbook.show.blackboard import BOARDS, describe
from normlib.verify.lines import evaluate

SIGNS = {
    "gamma": "γ", "dgamma": "dγ", "beta": "β", "dbeta": "dβ", "mu": "μ", "dmu": "dμ", "var": "σ²",
    "dvar": "dσ²", "xhat": "x̂", "eps": "ε", "sigma": "σ", "wbar": "w̄", "dwbar": "dw̄", "uv": "u vᵀ",
}  # fmt: skip
WORDS = {" ** 2": "²", " ** 3": "³", " * ": " · ", "-": "−", "sqrt": "√"}


def write(formula: str) -> str:
    """A line in the letters of the pages."""
    for word, sign in WORDS.items():
        formula = formula.replace(word, sign)
    return re.sub(r"[a-z]+", lambda name: SIGNS.get(name[0], name[0]), formula)


def write_numbers(values) -> str:
    """Fractions, once where all are the same; the rows of a matrix one after the other."""
    rows = np.atleast_2d(np.squeeze(np.array(values, float)))
    shown = [[str(Fraction(v).limit_denominator(5000)) for v in row] for row in rows]
    alone = len({v for row in shown for v in row}) == 1
    return (shown[0][0] if alone else " / ".join(map(", ".join, shown))).replace("-", "−")


def settings_of(layer: str) -> dict:
    """Those of the blackboard, with two groups where there are groups."""
    settings = BOARDS[layer].settings
    return settings | ({"groups": 2} if "groups" in settings else {})


def solve(layer: str) -> dict[str, np.ndarray]:
    """The value of every line on the batch of the sheet."""
    board = BOARDS[layer]
    args = tuple(np.array(a, float) for a in board.arguments.values())
    layout = board.lines.layout(args, settings_of(layer))
    lines = board.lines._replace(formulas=describe(board)["lines"])
    return evaluate(lines, layout, np.array(board.upstream, float))


class Sheet:
    """What is given, every line with room for its numbers, and the solution at the foot."""

    def __init__(self, layer: str):
        board = BOARDS[layer]
        given = board.arguments | {board.lines.upstream: board.upstream} | settings_of(layer)
        self.given = {name: write_numbers(value) for name, value in given.items()}
        self.lines, found = describe(board)["lines"], solve(layer)
        self.solution = {name: write_numbers(found[name]) for name in self.lines}

    def list(self, values: dict[str, str]) -> str:
        return "; ".join(f"{write(name)} = {value}" for name, value in values.items())

    def __repr__(self) -> str:
        return f"Given: {self.list(self.given)}\nSolution: {self.list(self.solution)}"

    def _repr_markdown_(self) -> str:
        rows = {name: f"| {write(name)} | {write(f)} | |" for name, f in self.lines.items()}
        first = next(name for name in rows if name.startswith("d"))  # of the way back
        rows[first] = "| **backward** | | |\n" + rows[first]
        head = "| line | formula | your numbers |", "|---|---|---|", "| **forward** | | |"
        given, solution = self.list(self.given), self.list(self.solution)
        fold = "<details><summary>The numbers</summary>", solution, "</details>"
        parts = f"Given: {given}.", "\n".join([*head, *rows.values()]), *fold
        return "\n\n".join(['<div class="sheet">', *parts, "</div>"])
