"""What is told of the kernels' speed is what was measured; nothing here measures a time."""

import json

import kernel_bench
import numpy as np
import pytest

from normbook.studies import fused_kernels as fk

STORED = json.loads(kernel_bench.TARGET.read_text(encoding="utf-8"))


def test_the_stored_table_is_whole():
    wanted = {
        (memory, name, shape, t, direction)
        for memory in fk.MEMORIES
        for name in kernel_bench.REFERENCES
        for shape in kernel_bench.SHAPES
        for t in kernel_bench.THREADS
        for direction in ("forward", "backward")
    }
    rows = STORED["rows"]
    found = {(r["memory"], r["layer"], (*r["shape"],), r["threads"], r["direction"]) for r in rows}
    assert found == wanted
    assert len(rows) == len(wanted) and STORED["rounds"] == kernel_bench.ROUNDS
    small = {(r["layer"], (*r["shape"],)) for r in STORED["small"]}
    assert len(small) == len(kernel_bench.REFERENCES) * len(kernel_bench.SMALL)


@pytest.mark.parametrize("name", kernel_bench.REFERENCES)
def test_both_sides_of_the_bench_compute_the_same(name):
    calls = kernel_bench.prepare(name, (4, 32, 3, 2))
    y, theirs = calls.forward()[0], calls.torch_forward().numpy()
    assert np.abs(y - theirs).max() < 1e-5 < np.abs(y).max()
    for ours, other in zip(calls.backward(), calls.torch_backward(), strict=True):
        assert np.abs(ours - other.numpy()).max() < 1e-4 < np.abs(ours).max()


ROWS = [
    {"layer": "layer_norm", "shape": [1000, 1000], "threads": 1, "memory": m, "direction": d,
     "ms": {"copy": 1.0, "ours": v, "torch": 4.0}, "faster": [1, v, 3]}
    for m, d, v in [("new", "forward", 1), ("new", "backward", 2), ("kept", "forward", 0.8),
                    ("kept", "backward", 4)]
]  # fmt: skip


def test_the_summary_is_of_all_rows_and_counts_those_that_are_lost():
    fast = [r | {"layer": "batch_norm", "faster": [8, 9, 9]} for r in ROWS]
    two = [r | {"threads": 2} for r in ROWS]
    told = {name: sides for name, *sides in fk.summary(ROWS + fast + two)}
    assert told["median, times as fast"] == ["5.5", "1.5", "6.5", "2.4"]
    assert told["of layer norm and RMSNorm"] == ["1.5", "1.5", "2.4", "2.4"]
    assert told["the least"] == ["1.0", "1.0", "0.8", "0.8"]
    assert told["slower than PyTorch"] == ["0 of 4", "0 of 2", "1 of 4", "1 of 2"]
    assert fk.lost(ROWS) == [ROWS[2]]
