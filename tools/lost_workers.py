"""Measure the exchanges of batch norm over processes, and how long all workers take to end when
one is lost, and write normbook/data/distributed_batch_norm.json: python tools/lost_workers.py.
About two minutes, best on an idle machine.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy reads it

import datetime
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import store

from normbook.lab import data
from normbook.studies import distributed_batch_norm as over
from normlib.distributed import WorkerError, launch

TARGET = Path(__file__).resolve().parents[1] / "normbook" / "data" / "distributed_batch_norm.json"
PROCESSES, NUMBERS, REPEATS = (2, 4), (1, 512, 4096, 32768, 262144), 60
LIMIT, STEPS = 5.0, 60


def exchange(processes: int, numbers: int) -> dict:
    """The fastest tenth of all repeats: what other programs delay is left out."""
    ranks = launch(over.time_exchanges, processes, numbers, REPEATS)
    slowest = {name: np.max([rank[name] for rank in ranks], axis=0) for name in ranks[0]}
    seconds = {name: float(f"{np.quantile(s, 0.1):.2g}") for name, s in slowest.items()}
    return {"processes": processes, "numbers": numbers} | seconds


def fault(kind: str, call: str) -> dict:
    """Seconds from the fault to the error, when no process is left."""
    with tempfile.NamedTemporaryFile() as moment:
        try:
            launch(over.faulty, 4, kind, call, moment.name, limit=LIMIT)
        except WorkerError as error:
            seconds = round(time.time() - float(moment.read()), 1)
            return {"fault": kind, "call": call, "seconds": seconds, "error": str(error)}
    raise RuntimeError(f"expected a WorkerError for {kind} in {call}, got a result")


def run_wrapped() -> dict:
    """One step of PyTorch's DistributedDataParallel around PyTorch's own batch norm."""
    split = data.digits(np.random.default_rng(0), "raw")
    digits = split.x_train, split.labels_train
    task = partial(over.by_torch, merged=False)
    runs = launch(task, 4, digits, (16,) * 4, STEPS, limit=120)
    variances = np.array([run.variances for run in runs])
    spread = float(np.ptp(variances, axis=0).max() / variances.mean())
    return {"sent": runs[0].sent, "spread": round(spread, 3), "loss": round(runs[0].losses[-1], 4)}


def main() -> None:
    launch(over.time_exchanges, 2, 1, 1)  # the process that forks all others
    document = {
        "date": datetime.date.today().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "limit": LIMIT,
        "exchanges": [exchange(p, n) for p in PROCESSES for n in NUMBERS],
        "faults": [fault(kind, call) for kind in over.FAULTS for call in over.CALLS],
        "wrapped": run_wrapped(),
    }
    store.write_json(TARGET, document)


if __name__ == "__main__":
    main()
