"""Pictures that more than one page draws."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, NullLocator

from normbook.show.steps import letter
from normlib.verify.derivations import Derivation
from normlib.verify.planted import Falsification


def planted_picture(table: Falsification) -> Axes:
    """Planted errors down, witnesses across; a filled cell is a catch."""
    _, ax = plt.subplots(figsize=(7.2, 0.26 * len(table.errors) + 1.5))
    ax.pcolormesh(table.caught, cmap="Blues", vmin=0, vmax=1.4, edgecolors="white", linewidth=2)
    for row, column in np.ndindex(table.caught.shape):
        mark = "✓" if table.caught[row, column] else "·"
        color = "white" if table.caught[row, column] else "black"
        ax.text(column + 0.5, row + 0.5, mark, ha="center", va="center", color=color)
    ax.set_xticks([c + 0.5 for c in range(len(table.witnesses))], table.witnesses)
    ax.set_yticks([r + 0.5 for r in range(len(table.errors))], table.errors)
    ax.tick_params(length=0, labeltop=True, labelbottom=False)
    ax.tick_params("x", labelrotation=35, pad=0)
    plt.setp(ax.get_xticklabels(), ha="left", va="bottom", rotation_mode="anchor")
    ax.invert_yaxis()
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return ax


def names_in(expr: sp.Expr) -> set[str]:
    """The symbols and arrays that an expression is made of, without eps, m and the indices."""
    arrays = {str(base) for base in expr.atoms(sp.IndexedBase)}
    return arrays | {s.name for s in expr.free_symbols if isinstance(s, sp.Symbol)}


def edges(derivation: Derivation) -> list[tuple[str, str]]:
    """The arrows of the computational graph: what each stage, and y, is computed from."""
    nodes = [(str(getattr(s, "base", s)), definition) for s, definition in derivation.stages]
    nodes.append(("y", derivation.output))
    known = {*(name for name, _ in nodes), *(g.removeprefix("d") for g in derivation.gradients)}
    found = [(name, names_in(definition) & known - {name}) for name, definition in nodes]
    return [(source, name) for name, sources in found for source in sorted(sources)]


def graph(derivation: Derivation, start: str = "x", output: str = "y") -> Axes:
    """The computational graph, drawn from the stages; the ways out of `start` are marked. `output`
    is the letter of what comes out."""
    arrows = edges(derivation)
    chain = [start, *dict.fromkeys(name for _, name in arrows)]
    at = {name: (2.0 * place, 0.0) for place, name in enumerate(chain)}
    parameters = [name for name, _ in arrows if name not in at]
    last = at[chain[-1]][0]
    for name, height in zip(parameters, (1.3, -1.3), strict=False):
        at[name] = (last, height)
    neighbours = set(pairwise(chain))
    _, ax = plt.subplots(figsize=(7.2, 2.4))
    for source, target in arrows:
        bend = 0.0 if (source, target) in neighbours or source in parameters else -0.42
        color, width = ("C1", 2.2) if source == start else ("0.45", 1.2)
        style = {"arrowstyle": "-|>", "color": color, "lw": width, "shrinkA": 15, "shrinkB": 15}
        style["connectionstyle"] = f"arc3,rad={bend}"
        ax.annotate("", at[target], at[source], arrowprops=style)
    for name, (x, y) in at.items():
        disc = {"boxstyle": "circle", "fc": "white", "ec": "C1" if name == start else "0.45"}
        shown = letter(output if name == "y" else name)
        ax.text(x, y, f"${shown}$", ha="center", va="center", size=13, bbox=disc)
    ax.set(xlim=(-0.8, last + 0.8), ylim=(-1.8, 2.1), xticks=[], yticks=[])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return ax


def transformer_block() -> Axes:
    """Half a transformer block: the stream below, its branch above; an orange box is a place where
    some models have a norm."""
    _, ax = plt.subplots(figsize=(4.8, 2.1))
    grey = {"color": "0.45", "lw": 1.2}
    arrow = {"arrowprops": {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, **grey}}
    ax.annotate("", (11.2, 0), (0, 0), **arrow)
    ax.plot([0.6, 0.6, 8.9], [0, 1.7, 1.7], **grey)
    ax.annotate("", (8.9, 0.35), (8.9, 1.7), **arrow)
    ax.vlines([3.9, 4.8], 1.7, 2.9, **grey)
    norms = {"pre": (1.4, 1.7), "branch output": (7.2, 1.7), "post": (10.1, 0)}
    norms |= {"queries": (3.9, 2.9), "keys": (4.8, 2.9)}
    boxes = [(at, "N", {"fc": "#F6CFAE"}) for at in norms.values()]
    boxes += [((4.35, 1.7), "branch\n(here attention)", {"fc": "#DCEAF4"})]
    boxes += [((8.9, 0), "+", {"fc": "white", "boxstyle": "circle"})]
    for at, text, look in boxes:
        box = {"boxstyle": "round,pad=0.35", "ec": "0.35", **look}
        ax.text(*at, text, ha="center", va="center", size=9, bbox=box)
    for name, (x, y) in norms.items():
        beside = {"queries": (x - 0.4, y, "right"), "keys": (x + 0.4, y, "left")}
        x, y, side = beside.get(name, (x, y - 0.6, "center"))
        ax.text(x, y, name, ha=side, va="center", size=9)
    ax.plot([1.4, 1.4, 7.2, 7.2], [0.85, 0.7, 0.7, 0.85], color="0.45", lw=0.8)
    ax.text(4.3, 0.42, "both sides = these two", ha="center", va="center", size=9)
    ax.text(0, -0.5, "stream x", va="center", size=9)
    ax.set(xlim=(-0.1, 11.3), ylim=(-0.85, 3.3), xticks=[], yticks=[])
    ax.grid(False)
    ax.spines[:].set_visible(False)
    return ax


def spreads(panels: dict[str, np.ndarray]) -> list[Axes]:
    """For each title an array (samples, units): per unit the median, the quartiles, and the range
    from the 5th to the 95th percentile. Each panel has a scale of its own."""
    _, axes = plt.subplots(1, len(panels), figsize=(7.2, 2.2))
    for ax, (title, units) in zip(axes, panels.items(), strict=True):
        low, first, median, third, high = np.percentile(units, [5, 25, 50, 75, 95], axis=0)
        place = np.arange(units.shape[1])
        ax.vlines(place, low, high, color="C5", lw=2)
        ax.vlines(place, first, third, color="C0", lw=4)
        ax.plot(median, ".", color="black", ms=3)
        ax.set(xlabel="hidden unit", title=title)
    return list(axes)


def with_and_without(pairs: dict[str, list], norm: str) -> Axes:
    """Errors in a hundred of networks without a norm and with it: two intervals, (low, mean,
    high), for each name in `pairs`."""
    _, ax = plt.subplots(figsize=(4.0, 0.6 + 0.25 * len(pairs)))
    for place, label in enumerate(("no norm", norm)):
        low, mean, high = np.array([pair[place] for pair in pairs.values()]).T
        look = {"fmt": "oC1" if place == 0 else "sC0", "ms": 6 - place, "label": label}
        rows = np.arange(len(pairs)) + 0.3 * place - 0.15  # beside each other, where they are alike
        ax.errorbar(mean, rows, xerr=(mean - low, high - mean), **look)
    ax.set_yticks(range(len(pairs)), list(pairs), fontsize=8)
    ax.invert_yaxis()
    ax.set(xlabel="errors in a hundred", xscale="log", xlim=(0.7, 100))
    ax.set_xticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.legend(fontsize=8)
    return ax


def factors(found: dict[str, tuple], meaning: str, base: float = np.e) -> Axes:
    """Effects that are logarithms, (low, mean, high) for each name, drawn as factors; 1 is no
    difference."""
    _, ax = plt.subplots(figsize=(6.8, 0.7 + 0.26 * len(found)))
    low, mean, high = base ** np.array(list(found.values())).T
    ax.errorbar(mean, range(len(found)), xerr=(mean - low, high - mean), fmt="oC0")
    ax.axvline(1, color="black", lw=0.8)
    ax.set_yticks(range(len(found)), list(found))
    ax.set_ylim(len(found) - 0.5, -0.5)
    ax.set(xscale="log", xlabel=meaning)
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    return ax
