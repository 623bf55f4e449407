"""Show what `make bench` measured of the kernels: a table and a roofline."""

from statistics import median

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

# Operations on each value, counted in normlib/fused/kernels.py, and how often the bytes of x are
# moved: for layer norm x and y, or x, dy and dx; batch norm of a matrix reads its inputs twice.
OPERATIONS = {
    ("layer_norm", "forward"): (9, 2),
    ("layer_norm", "backward"): (19, 3),
    ("batch_norm", "forward"): (8, 3),
    ("batch_norm", "backward"): (11, 5),
}
BYTES = 4  # of a float32
MEMORIES = ("new", "kept")  # what the results are written to


def choose(rows: list[dict], **wanted) -> list[dict]:
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def middle(rows: list[dict]) -> float:
    """The median over rows of how many times as fast as PyTorch the kernel is."""
    return median(row["faster"][1] for row in rows)


def intensity(layer: str, direction: str) -> float:
    """Operations for each byte moved."""
    operations, moved = OPERATIONS[layer, direction]
    return operations / (moved * BYTES)


def rate(row: dict, of: str) -> float:
    """GFLOP/s: the operations of the formula over the time of the call."""
    operations, _ = OPERATIONS[row["layer"], row["direction"]]
    return operations * float(np.prod(row["shape"])) / row["ms"][of] / 1e6


def cells(rows: list[dict], names: list[str]) -> list[tuple[str, ...]]:
    """For each layer and shape: how many times as fast as PyTorch, forward and backward, into new
    memory and into memory that is kept."""
    found = []
    for name in names:
        for shape in dict.fromkeys(tuple(row["shape"]) for row in rows):
            here = [
                choose(rows, layer=name, shape=list(shape), memory=m, direction=d)[0]
                for m in MEMORIES
                for d in ("forward", "backward")
            ]
            shown = [f"{r['faster'][1]:.1f}" for r in here]
            called = name.replace("_", " ").replace("rms norm", "RMSNorm")
            found.append((called, "×".join(map(str, shape)), *shown))
    return found


def lost(rows: list[dict]) -> list[dict]:
    """The rows in which PyTorch is faster."""
    return [row for row in rows if row["faster"][1] < 1]


def summary(rows: list[dict]) -> list[tuple[str, ...]]:
    """What the rows come to: for each memory by one thread and by two."""
    sides = [choose(rows, memory=m, threads=threads) for m in MEMORIES for threads in (1, 2)]
    of_rows = [[r for r in side if r["layer"] in ("layer_norm", "rms_norm")] for side in sides]
    return [
        ("median, times as fast", *(f"{middle(side):.1f}" for side in sides)),
        ("of layer norm and RMSNorm", *(f"{middle(side):.1f}" for side in of_rows)),
        ("the least", *(f"{min(r['faster'][1] for r in side):.1f}" for side in sides)),
        ("slower than PyTorch", *(f"{len(lost(side))} of {len(side)}" for side in sides)),
    ]


def roofline(rows: list[dict], peak: float, bandwidth: float) -> Axes:
    """Operations a second over operations a byte: what memory and arithmetic allow, and what the
    kernels and PyTorch's reach. A line joins the two of a pass, its words stand below."""
    _, ax = plt.subplots(figsize=(7.2, 4.2))
    reach = np.sort(np.append(np.geomspace(0.2, 4 * peak / bandwidth, 50), peak / bandwidth))
    _ = ax.loglog(reach, np.minimum(bandwidth * reach, peak), "0.35")
    _ = ax.text(0.22, 0.27 * bandwidth, "bandwidth of a copy", rotation=34, size=8, va="bottom")
    _ = ax.text(peak / bandwidth, 1.1 * peak, "a matrix product", size=8)
    at = [intensity(row["layer"], row["direction"]) for row in rows]
    reached = [[rate(row, of) for row in rows] for of in ("ours", "torch")]
    _ = ax.vlines(at, *reached, color="0.7", lw=1)
    _ = ax.loglog(at, reached[0], "o", label="normlib.fused")
    _ = ax.loglog(at, reached[1], "x", label="PyTorch")
    for x, y, row in zip(at, np.min(reached, axis=0), rows, strict=True):
        words = f"{row['layer'].replace('_', ' ')}, {row['direction']}"
        place = {"xytext": (0, -8), "textcoords": "offset points", "ha": "center", "va": "top"}
        _ = ax.annotate(words, (x, y), rotation=90, size=8, **place)
    _ = ax.set(xlabel="operations for each byte", ylabel="speed, GFLOP/s", ylim=(0.3, 2 * peak))
    _ = ax.legend(loc="lower right")
    return ax


def speeds(rows: list[dict], names: list[str]) -> tuple[Axes, ...]:
    """How many times as fast as PyTorch, with quartiles, a row for each layer and shape: forward
    and backward."""
    figure, axes = plt.subplots(1, 2, sharex=True, sharey=True, figsize=(7.2, 4.4))
    shapes = dict.fromkeys(tuple(row["shape"]) for row in rows)
    kinds = [(name, list(shape)) for name in names for shape in shapes]
    words = [f"{n.replace('_', ' ')}, {'×'.join(map(str, shape))}" for n, shape in kinds]
    words = [w.replace("rms norm", "RMSNorm") for w in words]
    for ax, direction in zip(axes, ("forward", "backward"), strict=True):
        for memory, fill in zip(MEMORIES, ("C0", "white"), strict=True):
            here = choose(rows, memory=memory, direction=direction)
            found = [choose(here, layer=n, shape=shape)[0]["faster"] for n, shape in kinds]
            low, middle, high = np.transpose(found)
            _ = ax.hlines(words, low, high, color="C0", lw=1)
            _ = ax.semilogx(middle, words, "oC0", mfc=fill, label=f"{memory} memory")
        _ = ax.axvline(1, color="black", lw=1)
        _ = ax.set(title=direction, xlabel="times as fast as PyTorch")
        _ = ax.set_xticks([0.5, 1, 2, 5, 10], ["0.5", "1", "2", "5", "10"])
        _ = ax.minorticks_off()
    _ = axes[0].invert_yaxis()
    _ = figure.legend(*ax.get_legend_handles_labels(), ncols=2, loc="outside lower center")
    return axes


FRESH = {
    "x.copy()": "copy, new",
    "the same in PyTorch": "torch copy, new",
    "a loop, y = 2 x": "loop, new",
    "kernel, new memory": "ours, new",
    "kernel, kept memory": "ours, kept",
    "kernel, in parts": "ours, parts",
    "PyTorch, new memory": "torch, new",
    "PyTorch, kept memory": "torch, kept",
    "PyTorch, in parts": "torch, parts",
}


def fresh(memory: dict[str, list[float]], kept: dict[str, float]) -> Axes:
    """Milliseconds with their quartiles: a copy and layer norm, whole and in parts. Of layer norm
    into kept memory there are medians alone, `kept`."""
    medians = {f"{of}, kept": [kept[of]] * 3 for of in ("ours", "torch")}
    low, times, high = np.transpose([(memory | medians)[key] for key in FRESH.values()])
    _, ax = plt.subplots(figsize=(7.2, 3.0))
    colors = ["0.6"] * 3 + ["C0"] * 3 + ["C1"] * 3
    _ = ax.barh([*FRESH], times, xerr=[times - low, high - times], color=colors)
    _ = ax.invert_yaxis()
    _ = ax.set(xlabel="milliseconds")
    return ax
