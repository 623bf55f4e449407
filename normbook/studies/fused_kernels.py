"""Show what `make bench` measured of the kernels, in tables."""

from statistics import median

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
