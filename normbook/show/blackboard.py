"""A field on a page in which the reader writes a gradient, and is told which term is missing."""

import html
import json
from dataclasses import dataclass, field

import numpy as np

from normlib.evidence import notation
from normlib.verify import lines
from normlib.verify.lines import Lines

ROOT_STEPS = {
    "dvar": "-sum(d * (x - mu)) * r ** 3 / 2",
    "dmu": "-r * sum(d)",
}
MEANING = {
    "x": "the values",
    "v": "the free weights",
    "w": "the weights",
    "dy": "the upstream gradient",
    "dw": "the upstream gradient",
    "dwbar": "the upstream gradient",
    "gamma": "γ",
    "beta": "β",
    "g": "the length",
    "d": "γ dy",
    "mu": "their mean μ",
    "var": "their variance σ²",
    "q": "their mean square",
    "r": "1 over the root",
    "xhat": "x̂",
    "n": "v / |v|",
    "uv": "u vᵀ",
    "sigma": "σ",
    "wbar": "w / σ",
    "m": "how many share a statistic",
    "eps": "ε",
}


@dataclass(frozen=True)
class Board:
    """What is asked, and the batch on which the numbers are shown: they come out even."""

    lines: Lines
    arguments: dict[str, list]
    upstream: list
    targets: tuple[str, ...]
    larger: tuple[tuple[int, ...], ...]  # the shapes of a batch on which the answer is tried
    settings: dict = field(default_factory=dict)
    steps: dict[str, str] = field(default_factory=dict)
    tried: dict = field(default_factory=dict)  # settings of the larger batch that are others


STANDARDIZING = ("dx", "dgamma", "dbeta", "dvar", "dmu")
BOARDS = {
    "batch_norm": Board(
        notation.BATCH,
        {"x": [[0], [6], [6], [8]], "gamma": [1], "beta": [0]},
        [[1], [0], [0], [0]],
        STANDARDIZING,
        ((5, 3), (3,), (3,)),
        {"eps": 0.0},
        ROOT_STEPS,
    ),
    "layer_norm": Board(
        notation.LAYER,
        {"x": [[0, 6, 6, 8]], "gamma": [1, 2, 1, 1], "beta": [0, 0, 0, 0]},
        [[1, 1, 0, 0]],
        STANDARDIZING,
        ((3, 5), (5,), (5,)),
        {"eps": 0.0},
        ROOT_STEPS,
    ),
    "rms_norm": Board(
        notation.RMS,
        {"x": [[1, 1, 3, 5]], "gamma": [1, 1, 1, 1]},
        [[1, 0, 0, 0]],
        ("dx", "dgamma", "dq"),
        ((3, 5), (5,)),
        {"eps": 0.0},
        {"dq": "-sum(d * x) * r ** 3 / 2"},
    ),
    "group_norm": Board(
        notation.GROUP,
        {"x": [[[0], [6], [6], [8]]], "gamma": [1, 2, 1, 1], "beta": [0, 0, 0, 0]},
        [[[1], [1], [0], [0]]],
        STANDARDIZING,
        ((3, 4, 2), (4,), (4,)),
        {"eps": 0.0, "groups": 1},
        ROOT_STEPS,
        {"groups": 2},
    ),
    "weight_norm": Board(
        notation.WEIGHT, {"v": [[3, 4]], "g": [10]}, [[1, 0]], ("dv", "dg"), ((3, 4), (3,))
    ),
    "spectral_norm": Board(
        notation.SPECTRAL,
        {"w": [[3, 0], [0, 1]]},
        [[1, 0], [0, 1]],
        ("dw",),
        ((3, 4),),
        {"u": np.array([1.0, 0.0]), "v": np.array([1.0, 0.0])},
        tried={"u": np.array([0.6, 0.0, 0.8]), "v": np.array([0.1, 0.3, 0.3, 0.9])},
    ),
}


def lay_out(lines: Lines, args: tuple[np.ndarray, ...], settings: dict) -> dict:
    """Every value as a list with one number for each entry of x, and which entries share one."""
    layout, x = lines.layout(args, settings), args[0]
    whole = lambda a: np.broadcast_to(a, x.shape).ravel()  # noqa: E731
    distinct = np.sqrt(np.arange(2, 2 + x.size)).reshape(x.shape)

    def label(a: np.ndarray) -> list[int]:
        return np.unique(whole(a).round(9), return_inverse=True)[1].tolist()

    return {
        "values": {n: whole(v).tolist() if np.ndim(v) else v for n, v in layout.values.items()},
        "statistic": label(layout.mean(distinct)),
        "parameter": label(layout.total(distinct)),
        "others": label(layout.others(distinct)),
    }


def describe(board: Board) -> dict:
    """What the script of the page has to know: the lines, the slips, a batch to show, and one to
    try with other numbers in it."""
    small = tuple(np.array(a, float) for a in board.arguments.values())
    large = tuple(np.ones(shape) for shape in board.larger)
    formulas: dict[str, str] = {}
    for line, formula in board.lines.formulas.items():
        if line == f"d{next(iter(board.arguments))}":
            formulas |= board.steps
        formulas[line] = formula
    slips = lines.list_slips(board.lines._replace(formulas=formulas))
    shown = lay_out(board.lines, small, board.settings)
    known = [*shown["values"], board.lines.upstream, *formulas, "m"]
    return {
        "lines": formulas,
        "targets": board.targets,
        "upstream": board.lines.upstream,
        "names": {name: MEANING[name] for name in known if name in MEANING},
        "arguments": [*board.arguments],
        "shown": shown | {"upstream": np.ravel(np.array(board.upstream, float)).tolist()},
        "tried": lay_out(board.lines, large, board.settings | board.tried),
        "terms": {name: lines.split_terms(formulas[name]) for name in board.targets},
        "slips": [
            [s.line, s.formula, s.says.removesuffix(f" in {s.line} = {formulas[s.line]}"), s.kind]
            for s in slips
        ],
    }


class Blackboard:
    """The field for a layer. In JupyterLab, and without scripts, it says what to call instead."""

    def __init__(self, layer: str):
        self.layer = layer

    def __repr__(self) -> str:
        return (
            f"Write the gradient as a function, and ask verify.diagnose({self.layer}, "
            f"my_backward, args, **evidence.{self.layer}())"
        )

    def _repr_html_(self) -> str:
        told = json.dumps(describe(BOARDS[self.layer]), ensure_ascii=False, separators=(",", ":"))
        return (
            f'<div class="blackboard" data-board="{html.escape(told)}">'
            f"<p>On the site there is a blackboard here. {html.escape(repr(self))}.</p></div>"
        )
