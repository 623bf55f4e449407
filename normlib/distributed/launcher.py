"""Starts workers on this machine, and ends all of them as soon as one is lost.

Each worker tells its parent, through a pipe, of every call in which it meets the others. So the
parent knows who is silent, and where. A worker that fails, is killed or stays silent for longer
than the limit is the end of all: none is left behind, and results are handed out only when every
worker has brought its own.
"""

import multiprocessing
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing import connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from normlib.distributed import engine

START = 60.0  # seconds for a worker to import what it needs and to find the others
TICK = 0.2  # seconds between two looks at the workers
GRACE = 1.0  # seconds in which the cause of a failed exchange shows itself


class WorkerError(RuntimeError):
    """A worker was lost: which, how, and in which call."""


@dataclass
class Worker:
    """A process, and what its parent has heard of it."""

    rank: int
    process: Any
    pipe: connection.Connection
    call: str = "its start"
    calls: int = 0
    heard: float = field(default_factory=time.monotonic)
    results: list = field(default_factory=list)  # its one result, once it is there
    error: str = ""
    trace: str = ""
    by_others: bool = False  # whether the error says that another worker is lost

    def listen(self) -> None:
        """Take in all that it has said."""
        try:
            while self.pipe.poll():
                kind, said = pickle.loads(self.pipe.recv_bytes())
                self.heard = time.monotonic()
                if kind == "call":
                    self.call, self.calls = said, self.calls + 1
                elif kind == "result":
                    self.results = [said]
                else:
                    (self.error, self.trace), self.by_others = said, kind == "by others"
        except (EOFError, OSError):
            pass  # it is gone; how, its exit code says

    def is_lost(self) -> bool:
        return not self.results and self.process.exitcode is not None

    def is_stopped(self) -> bool:
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(") ")[2][0] in "Tt"

    def patience(self, limit: float) -> float:
        return limit if self.calls else max(limit, START)

    def is_silent(self, limit: float) -> bool:
        return not self.results and time.monotonic() - self.heard > self.patience(limit)


def launch(function: Callable, processes: int, *args, limit: float = 60.0) -> list:
    """The results of `function(rank, *args)` in so many processes, in the order of the ranks.

    The processes form the default group of torch.distributed, on gloo, with one thread each. The
    function, its arguments and its results have to be picklable; the function is found by import.

    limit: how many seconds a worker may be silent. It is heard of when it calls the layer, forward
    or backward, and when it ends; so computing between two calls has to take less. Until it calls
    the function a worker has at least a minute.

    Errors: WorkerError, after which no worker is left and nothing is returned, if one raises an
    exception, is killed, or is silent for longer than the limit; it names the rank and the call.
    ValueError for a function that cannot be sent, fewer than one process, or a limit that is not
    above 0.
    """
    if processes < 1 or not limit > 0:
        raise ValueError(
            f"expected at least 1 process and a limit above 0 seconds, got {processes} and {limit}"
        )
    task = sent((function, args))
    workers: list[Worker] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            for rank in range(processes):
                settings = rank, processes, f"file://{folder}/store", limit
                workers.append(started(rank, task, home(function), settings))
            wait(workers, limit)
        finally:
            end(workers)
    return [worker.results[0] for worker in workers]


def sent(task: tuple) -> bytes:
    try:
        return pickle.dumps(task)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise ValueError(
            f"expected a function and arguments that can be pickled, but {error}; write the "
            f"function at the top level of a module that can be imported"
        ) from error


def home(function: Callable) -> str:
    """The module of a function, also of one with bound arguments."""
    return getattr(function, "func", function).__module__


def started(rank: int, task: bytes, module: str, settings: tuple) -> Worker:
    """Forked off a process that has imported torch and this module once, where the system can."""
    here, there = multiprocessing.Pipe()
    if "forkserver" in multiprocessing.get_all_start_methods():
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["normlib.distributed", module])
    else:
        context = multiprocessing.get_context("spawn")
    process = context.Process(target=work, args=(there, task, *settings), daemon=True)
    process.start()
    there.close()
    return Worker(rank, process, here)


def wait(workers: list[Worker], limit: float) -> None:
    """Until every result is there; WorkerError if one is lost."""
    suspected = None  # since when exchanges have failed without a cause
    while not all(worker.results for worker in workers):
        open_ = [w for w in workers if not w.results and not w.error and not w.is_lost()]
        watched = [source for w in open_ for source in (w.pipe, w.process.sentinel)]
        before = time.monotonic()
        connection.wait(watched, timeout=TICK)
        excuse(workers, time.monotonic() - before - TICK)
        lost = [worker.is_lost() for worker in workers]  # before what they said last is read
        for worker in workers:
            worker.listen()
        if any(w.by_others for w in workers):
            suspected = suspected or time.monotonic()
        late = suspected is not None and time.monotonic() - suspected > GRACE
        if cause := found(workers, lost, limit, late):
            raise described(workers, cause)


def excuse(workers: list[Worker], late: float) -> None:
    """Time in which this process itself stood still, stopped or starved, is nobody's silence."""
    for worker in workers:
        worker.heard += max(0.0, late)


def found(workers: list[Worker], lost: list[bool], limit: float, late: bool) -> str:
    """What went wrong first, as far as it can be told; nothing while all is well."""
    for worker in workers:
        if worker.error and not worker.by_others:
            return f"{place(worker, workers)} failed in {worker.call}: {worker.error}"
    for worker, gone in zip(workers, lost, strict=True):
        if gone and not worker.results and not worker.error:
            return f"{place(worker, workers)} {ending(worker.process)} in {worker.call}"
    if not late and not any(worker.is_silent(limit) for worker in workers):
        return ""
    return unheard(workers, limit)


def unheard(workers: list[Worker], limit: float) -> str:
    """Who keeps the others waiting: one that is stopped, or has made fewer calls than others."""
    quiet = [w for w in workers if not w.results and not w.error]
    for worker in quiet:
        if worker.is_stopped():
            return f"{place(worker, workers)} is stopped in {worker.call}"
    fewest, most = (f(w.calls for w in workers) for f in (min, max))
    for worker in workers:
        if worker.calls == fewest < most and worker.results:
            return f"{place(worker, workers)} had ended while others waited for it"
        if worker.calls == fewest < most and worker in quiet:
            seconds = worker.patience(limit)
            return f"{place(worker, workers)} was silent for {seconds:g} s after {worker.call}"
    return f"all workers were silent for {workers[0].patience(limit):g} s, or waited for each other"


def place(worker: Worker, workers: list[Worker]) -> str:
    return f"rank {worker.rank} of {len(workers)}"


def ending(process: Any) -> str:
    code = process.exitcode
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code} and no result"


def described(workers: list[Worker], cause: str) -> WorkerError:
    places = "; ".join(f"rank {w.rank} in {w.call}" for w in workers)
    error = WorkerError(
        f"expected a result of every worker, but {cause}. All were ended, and nothing is returned. "
        f"Last calls: {places}. Mend what failed first, and start again"
    )
    for worker in workers:
        if worker.trace and not worker.by_others:
            error.add_note(f"In rank {worker.rank}:\n{worker.trace}")
    return error


def end(workers: list[Worker]) -> None:
    """None is left behind, stopped or not."""
    for worker in workers:
        worker.process.kill()
    for worker in workers:
        worker.process.join()
        worker.process.close()
        worker.pipe.close()


# In the worker.


def work(pipe: connection.Connection, task: bytes, rank: int, size: int, store: str, limit: float):
    def say(kind: str, what: Any) -> None:
        pipe.send_bytes(pickle.dumps((kind, what)))

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides, and ends all
    parent = threading.Thread(target=follow_parent, args=(pipe,), daemon=True)
    parent.start()
    try:
        function, args = pickle.loads(task)
        torch.set_num_threads(1)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback())
        patience = timedelta(seconds=max(limit, START))
        dist.init_process_group(
            "gloo", init_method=store, rank=rank, world_size=size, timeout=patience
        )
        engine.listeners.append(lambda call: say("call", call))
        engine.tell("the function")
        say("result", function(rank, *args))
    except engine.PeerError as error:
        say("by others", (str(error), traceback.format_exc()))
    except BaseException as error:
        say("error", (f"{type(error).__name__}: {error}", traceback.format_exc()))
    sys.stdout.flush()
    parent.join()  # to go now could tear a connection that others still read from


def follow_parent(pipe: connection.Connection) -> None:
    """A worker does not outlive its parent."""
    try:
        pipe.recv_bytes()
    except (EOFError, OSError):
        os._exit(0)


def loopback() -> str:
    return next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
