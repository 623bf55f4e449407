"""Problems whose numbers come out even, and the exercises of all pages in one list."""

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from normlib import layers

GRADES = "On paper", "In code", "To think", "To prove"


class Kind(NamedTuple):
    """What is asked: a layer of one statistic of four numbers, or the rows of a matrix."""

    forward: Callable
    backward: Callable
    centre: bool  # whether the mean is subtracted
    eps: int | None  # None for a layer that has none
    whole: bool  # whether γ is one number for all four


KINDS = {
    "batch norm": Kind(layers.batch_norm, layers.batch_norm_backward, True, 0, True),
    "batch norm, ε = 7": Kind(layers.batch_norm, layers.batch_norm_backward, True, 7, True),
    "layer norm": Kind(layers.layer_norm, layers.layer_norm_backward, True, 0, False),
    "RMSNorm": Kind(layers.rms_norm, layers.rms_norm_backward, False, 0, False),
    "weight norm": Kind(layers.weight_norm, layers.weight_norm_backward, False, None, True),
}


class Problem(NamedTuple):
    """What is given, and what is to be found."""

    x: np.ndarray
    gamma: np.ndarray
    dy: np.ndarray
    y: np.ndarray
    dx: np.ndarray


def root(x: tuple[int, ...], kind: Kind) -> float:
    """What the layer divides by: √(σ² + ε), the root mean square, or a length."""
    mean = sum(x) / len(x) if kind.centre else 0.0
    squares = sum((v - mean) ** 2 for v in x)
    return math.sqrt(squares if kind.eps is None else squares / len(x) + kind.eps)


def list_even(kind: Kind, largest: int = 20) -> list[tuple[int, ...]]:
    """Four whole numbers in rising order, the least of them 0 where the mean is subtracted, and not
    more than two of them alike, for which the layer divides by a whole number up to 6, or a half up
    to 7/2: so the gradients have denominators below a thousand."""
    least = range(1) if kind.centre else range(largest + 1)
    rows = itertools.combinations_with_replacement(range(largest + 1), 4)
    fits = (row for row in rows if row[0] in least and len({*row}) > 2)
    divisors = {*range(1, 7), 1.5, 2.5, 3.5}
    return [row for row in fits if root(row, kind) in divisors]


def solve(kind: Kind, x: np.ndarray, gamma: np.ndarray, dy: np.ndarray) -> Problem:
    """Fill in y and dx by the shipped layer. β is 0."""
    eps = {} if kind.eps is None else {"eps": float(kind.eps)}
    by_column = kind.forward is layers.batch_norm
    given, upstream = (a[:, None] if by_column else a[None] for a in (x, dy))
    scale = gamma[:1] if kind.whole else gamma
    shift = [0 * scale] * kind.centre
    y, cache = kind.forward(given, scale, *shift, **eps)
    return Problem(x, scale, dy, y.ravel(), kind.backward(upstream, cache)[0].ravel())


def sheet(kind: Kind, rng: np.random.Generator, count: int = 4) -> list[Problem]:
    """So many problems of a kind, each with numbers of its own."""
    rows = list_even(kind)
    chosen = rng.choice(len(rows), count, replace=False)
    found = []
    for row in (rng.permutation(rows[i]) for i in chosen):
        gamma, dy = np.ones(4), np.zeros(4)
        if not kind.whole:
            gamma[rng.integers(4)] = 2
        dy[rng.integers(4)] = rng.choice([-1, 1])
        found.append(solve(kind, row.astype(float), gamma, dy))
    return found


class Exercise(NamedTuple):
    """An exercise of a chapter."""

    page: str
    number: int
    grade: str
    text: str  # without hint and solution


def exercises(folder: Path, pages: list[str]) -> list[Exercise]:
    """All that stand below a heading *Exercises* in these notebooks.

    Errors: ValueError for one without a grade, a hint or a solution.
    """
    found = []
    for page in pages:
        cells = json.loads((folder / f"{page}.ipynb").read_text("utf-8"))["cells"]
        asked = False
        for cell in cells:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                asked = "## Exercises" in source or (asked and not source.startswith("## "))
                part = source.partition("## Exercises")[2] or source
                found += in_cell(page, part) if asked else []
    return found


def in_cell(page: str, source: str) -> list[Exercise]:
    """The exercises of one cell."""
    found = []
    for block in re.split(r"^(?=\*\*\d+\.\*\* )", source, flags=re.M)[1:]:
        begun = re.match(r"\*\*(\d+)\.\*\* \*([\w ]+)\.\* ", block)
        if not begun or begun[2] not in GRADES or "<summary>" not in block:
            raise ValueError(
                f"expected a grade of {', '.join(GRADES)} and a hint or a solution, got "
                f"{block[:60]!r} on the page {page}; write **1.** *On paper.* … and fold them below"
            )
        text = block[begun.end() :].partition("<details>")[0].strip()
        found.append(Exercise(page, int(begun[1]), begun[2], text))
    return found


class Chapter(NamedTuple):
    """A page as the contents list it."""

    page: str
    title: str
    part: str


def chapters(root: Path) -> list[Chapter]:
    """All notebooks of the contents, in their order."""
    part, files = "", []
    for line in (root / "_toc.yml").read_text("utf-8").splitlines():
        part = line.partition("caption: ")[2] or part
        if page := re.search(r"- file: (chapters/[\w-]+)$", line):
            files.append((page[1], part))
    found = ((Path(file).name, part) for file, part in files)
    return [
        Chapter(page, title_of(root / "chapters" / f"{page}.ipynb"), part) for page, part in found
    ]


def title_of(path: Path) -> str:
    first = "".join(json.loads(path.read_text("utf-8"))["cells"][0]["source"])
    return first.partition("# ")[2].partition("\n")[0]


class ProblemBook:
    """The exercises part by part, each part folded, with a link to where it is solved."""

    def __init__(self, found: Sequence[Exercise], listed: Sequence[Chapter]):
        self.found, self.listed = found, listed

    def of(self, page: str) -> list[Exercise]:
        return [each for each in self.found if each.page == page]

    def __repr__(self) -> str:
        counts = Counter(each.grade for each in self.found)
        return "\n".join(f"{grade:9} {counts[grade]:3}" for grade in GRADES)

    def _repr_markdown_(self) -> str:
        parts = dict.fromkeys(c.part for c in self.listed if self.of(c.page))
        return "\n\n".join(map(self.part, parts))

    def part(self, name: str) -> str:
        pages = [c for c in self.listed if c.part == name and self.of(c.page)]
        blocks = [f"<details><summary>{name}</summary>", *map(self.page, pages), "</details>"]
        return "\n\n".join(blocks)

    def page(self, chapter: Chapter) -> str:
        rows = [f"**[{chapter.title}]({chapter.page}-exercises)**"]
        rows += [f"{e.number}. *{e.grade}.* {without_links(e.text)}" for e in self.of(chapter.page)]
        return "\n\n".join(rows)


def without_links(text: str) -> str:
    """A statement as it reads alone: a verdict in parentheses goes, a link keeps its words."""
    text = re.sub(r" \(\[[^\]]+: [^\]]+\]\([^)]*\)\)", "", text)
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
