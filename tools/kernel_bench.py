"""What the kernels of normlib.fused cost, against PyTorch's and against a copy of the input.

Everything is measured in turns, several rounds of each, and what is kept is the median of the
rounds' ratios with its quartiles: a machine that slows down for a moment slows both sides down.
A call includes its checks and the allocation of its results, on both sides. The copy is
x.copy(), by one thread. All rows are measured twice: as it is, where large results lie in memory
that Linux hands out anew, and in a process that keeps what was freed for the next result.
Called by `make bench`; writes normbook/data/kernels.json.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numba
import numpy as np
import store
import torch
from torch.nn import functional

import normlib
from normlib import fused

TARGET = Path(__file__).resolve().parents[1] / "normbook" / "data" / "kernels.json"
ROUNDS, THREADS, GROUPS, PARTS = 5, (1, 2), 32, 64
REST = 0.01  # seconds
SHAPES = ((16384, 1024), (4096, 4096), (65536, 256), (32, 64, 56, 56))
SMALL = ((8, 32), (64, 64), (8, 32, 4, 4))
# For the C library of Linux: no memory of its own for a large array, none is given back, and all
# is in huge pages. Else each row would have the pages of whoever was the first to write there.
KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}
KEEPING |= {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


REFERENCES = {
    "layer_norm": lambda x, *p: functional.layer_norm(x, p[0].shape, *p),
    "rms_norm": lambda x, *p: functional.rms_norm(x, p[0].shape, *p, eps=1e-6),
    "group_norm": lambda x, *p: functional.group_norm(x, GROUPS, *p),
    "batch_norm": lambda x, *p: functional.batch_norm(x, None, None, *p, training=True),
}


class Calls(NamedTuple):
    """One layer on one array, ready to be called."""

    x: np.ndarray
    forward: Callable
    backward: Callable
    torch_forward: Callable
    torch_backward: Callable


def set_threads(number: int) -> None:
    torch.set_num_threads(number)
    numba.set_num_threads(number)


def prepare(name: str, shape: tuple[int, ...], library=fused) -> Calls:
    rng = np.random.default_rng(0)
    count = 1 if name == "rms_norm" else 2
    each = shape[1:] if name in ("layer_norm", "rms_norm") else shape[1:2]
    x, dy = (rng.standard_normal(shape, dtype=np.float32) for _ in range(2))
    p = [rng.standard_normal(each, dtype=np.float32) for _ in range(count)]
    keywords = {"groups": GROUPS} if name == "group_norm" else {}
    forward, backward = getattr(library, name), getattr(library, f"{name}_backward")
    cache = forward(x, *p, **keywords)[1]
    tensors = [torch.from_numpy(a) for a in (x, *p)]
    leaves = [t.clone().requires_grad_() for t in tensors]
    y, upstream = REFERENCES[name](*leaves), torch.from_numpy(dy)
    return Calls(
        x,
        lambda: forward(x, *p, **keywords),
        lambda: backward(dy, cache),
        lambda: REFERENCES[name](*tensors),
        lambda: torch.autograd.grad(y, leaves, upstream, retain_graph=True),
    )


def seconds(function: Callable) -> float:
    """Of the second of two calls. The rest before them is for the threads of the other side: those
    of PyTorch go on looking for work for some milliseconds, and take a processor meanwhile."""
    time.sleep(REST)
    function()
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def in_turns(functions: dict[str, Callable]) -> dict[str, np.ndarray]:
    """The seconds of each function in every round, after one round to warm up."""
    taken = [[seconds(f) for f in functions.values()] for _ in range(ROUNDS + 1)][1:]
    return dict(zip(functions, np.transpose(taken), strict=True))


def spread(values: np.ndarray) -> list[float]:
    """Lower quartile, median, upper quartile."""
    return [float(f"{v:.4g}") for v in np.percentile(values, [25, 50, 75])]


def row(name: str, shape: tuple[int, ...], threads: int, direction: str) -> dict:
    """Forward or backward of one layer on one shape."""
    set_threads(threads)
    calls = prepare(name, shape)
    ours, theirs = getattr(calls, direction), getattr(calls, f"torch_{direction}")
    taken = in_turns({"copy": calls.x.copy, "ours": ours, "torch": theirs})
    return {
        "layer": name,
        "shape": list(shape),
        "threads": threads,
        "direction": direction,
        "ms": {k: 1e3 * spread(v)[1] for k, v in taken.items()},
        "faster": spread(taken["torch"] / taken["ours"]),
    }


def small(name: str, shape: tuple[int, ...]) -> dict:
    """Forward and backward together, against the readable layer."""

    def both(library) -> Callable:
        calls = prepare(name, shape, library)
        return lambda: [(calls.forward(), calls.backward()) for _ in range(20)]

    taken = in_turns({"ours": both(fused), "readable": both(normlib)})
    ratio = spread(taken["readable"] / taken["ours"])
    return {"layer": name, "shape": list(shape), "faster": ratio}


@numba.njit
def double(x: np.ndarray, y: np.ndarray) -> None:
    for i in range(x.size):
        y[i] = 2 * x[i]


def memory() -> dict:
    """What fresh memory costs: layer norm and a copy whole, and in parts so small that their
    results go where those of the part before were; and a loop that does next to nothing."""
    set_threads(1)
    shape = SHAPES[0]
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape, dtype=np.float32)
    gamma, beta = rng.standard_normal((2, shape[1]), dtype=np.float32)
    tensor, *weights = map(torch.from_numpy, (x, gamma, beta))
    parts = np.array_split(x, PARTS), tensor.chunk(PARTS)

    def ours(x: np.ndarray) -> None:
        fused.layer_norm(x, gamma, beta)

    def theirs(x: torch.Tensor) -> None:
        functional.layer_norm(x, shape[1:], *weights)

    functions = {
        "copy, new": x.copy,
        "torch copy, new": tensor.clone,
        "loop, new": lambda: double(x.reshape(-1), np.empty(x.size, x.dtype)),
        "ours, new": lambda: ours(x),
        "ours, parts": lambda: [ours(part) for part in parts[0]],
        "torch, new": lambda: theirs(tensor),
        "torch, parts": lambda: [theirs(part) for part in parts[1]],
    }
    taken = in_turns(functions)
    return {name: [1e3 * v for v in spread(values)] for name, values in taken.items()}


def page_faults(function: Callable, calls: int = 4) -> float:
    """How often a call waits for Linux to hand out a page."""
    for _ in range(2):
        function()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(calls):
        function()
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / calls


def peak() -> float:
    """GFLOP/s of a matrix product in float32 by one thread: what the arithmetic could do."""
    a = np.random.default_rng(0).standard_normal((1024, 1024), dtype=np.float32)
    a_in_torch = torch.from_numpy(a)
    set_threads(1)
    taken = in_turns({"product": lambda: a_in_torch @ a_in_torch})["product"]
    return float(f"{2 * len(a) ** 3 / np.median(taken) / 1e9:.3g}")


COMPILED = """
import time
import numpy as np
from normlib import fused
ones = np.ones(4, np.float32)
for name in ("layer_norm", "batch_norm", "group_norm"):
    x = np.ones((3, 4) if name == "layer_norm" else (3, 4, 5), np.float32)
    keywords = {"groups": 2} if name == "group_norm" else {}
    start = time.perf_counter()
    y, cache = getattr(fused, name)(x, ones, ones, **keywords)
    getattr(fused, f"{name}_backward")(y, cache)
    print(name, time.perf_counter() - start)
"""


def compile_seconds() -> dict[str, float]:
    """The first call, forward and backward, with nothing kept on disk."""
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-c", COMPILED]
        env = os.environ | {"NUMBA_CACHE_DIR": empty}
        said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    return {name: round(float(value), 2) for name, value in map(str.split, said.splitlines())}


def rows() -> list[dict]:
    ways = "forward", "backward"
    return [row(n, s, t, w) for t in THREADS for n in REFERENCES for s in SHAPES for w in ways]


def rows_kept() -> list[dict]:
    """The same in a process that keeps its memory."""
    command, env = [sys.executable, __file__, "rows"], os.environ | KEEPING
    return json.loads(subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True).stdout)


def measure() -> dict:
    """All of it, as it is kept."""
    memories, large = {"new": rows(), "kept": rows_kept()}, prepare("layer_norm", SHAPES[0])
    packages = {module.__name__: module.__version__ for module in (np, numba, torch)}
    return {
        "date": date.today().isoformat(),
        "versions": {name: v.partition("+")[0] for name, v in packages.items()},
        "rounds": ROUNDS,
        "compile": compile_seconds(),
        "peak": peak(),
        "memory": memory(),
        "faults": {"ours": page_faults(large.forward), "torch": page_faults(large.torch_forward)},
        "rows": [{"memory": name} | r for name, found in memories.items() for r in found],
        "small": [small(name, shape) for name in REFERENCES for shape in SMALL],
    }


def main() -> None:
    if max(THREADS) > numba.config.NUMBA_NUM_THREADS:
        raise SystemExit(
            f"expected {max(THREADS)} processors for the kernels' table, found "
            f"{numba.config.NUMBA_NUM_THREADS}; take a larger machine, or unset NUMBA_NUM_THREADS"
        )
    store.write_json(TARGET, measure())
    print(f"{TARGET.name}: written, a line a row; the page on kernels draws it")


if __name__ == "__main__":
    if sys.argv[1:] == ["rows"]:
        print(json.dumps(rows()))
    else:
        main()
