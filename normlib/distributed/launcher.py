"""Starts workers on this machine, and ends all of them as soon as one is lost.

Each worker tells its parent, through a pipe, of every call in which it meets the others. So the
parent knows who is silent, and where. A worker that fails, is killed or stays silent for longer
than the limit is the end of all: none is left behind, and results are handed out only when every
worker has brought its own.

PyTorch's own `torch.multiprocessing.start_processes` was given the same faults. It finds a worker
that raises, ends or is killed as well. It returns no results, blames a worker that waits for the
one that is silent or stopped, and needs half a minute more to end one that is stopped.
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
    moment: str = "in"
    call: str = "its start"
    calls: int = 0  # that it has begun
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
                    self.moment, self.call = said
                    self.calls += self.moment == "in"
                elif kind == "result":
                    self.results = [said]
                else:
                    (self.error, self.trace), self.by_others = said, kind == "by others"
        except (EOFError, OSError):
            pass  # it is gone; how, its exit code says

    def where(self) -> str:
        return f"{self.moment} {self.call}"

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

    limit: how many seconds a worker may be silent. It is heard of when a call of the layer, forward
    or backward, begins and ends, and when it ends itself; so computing between two calls has to
    take less. Until it calls the function a worker has at least a minute.

    Errors: WorkerError, after which no worker is left and nothing is returned, if one raises an
    exception, is killed, or is silent for longer than the limit; it names the rank and the call.
    ValueError for a function that cannot be sent, a script that is in no file, fewer than one
    process, or a limit that is not above 0.
    """
    if processes < 1 or not limit > 0:
        raise ValueError(
            f"expected at least 1 process and a limit above 0 seconds, got {processes} and {limit}"
        )
    check_script(function)
    fix = "write the function at the top level of a module that can be imported"
    task = pickle_or_explain((function, args), "a function and arguments", fix)
    workers: list[Worker] = []
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            for rank in range(processes):
                settings = rank, processes, f"file://{folder}/store", limit
                workers.append(start_worker(rank, task, home(function), settings))
            wait(workers, limit)
        finally:
            end(workers)
    return [worker.results[0] for worker in workers]


def check_script(function: Callable) -> None:
    """Refuse a script, or a function of one, that workers cannot import from a file."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is None and home(function) == "__main__":
        raise ValueError(
            f"expected a function of a module that can be imported, but {function} is one of a "
            f"notebook, a shell or a line after -c; write it into a module"
        )
    if file is not None and main.__spec__ is None and not Path(file).exists():
        raise ValueError(
            f"expected a script in a file, which every worker imports, but got {file}; save it in "
            f"a file, and run that"
        )


def pickle_or_explain(what: Any, name: str, fix: str) -> bytes:
    try:
        return pickle.dumps(what)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise ValueError(f"expected {name} that can be pickled, but {error}; {fix}") from error


def home(function: Callable) -> str:
    """The module of a function, also of one with bound arguments."""
    return getattr(function, "func", function).__module__


def start_worker(rank: int, task: bytes, module: str, settings: tuple) -> Worker:
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
            raise describe_failure(workers, cause)


def excuse(workers: list[Worker], late: float) -> None:
    """Excuse the silence of workers while this process itself was stopped or starved."""
    for worker in workers:
        worker.heard += max(0.0, late)


def found(workers: list[Worker], lost: list[bool], limit: float, late: bool) -> str:
    """What went wrong first, as far as it can be told; nothing while all is well."""
    for worker in workers:
        if worker.error and not worker.by_others:
            return f"{place(worker, workers)} failed {worker.where()}: {worker.error}"
    for worker, gone in zip(workers, lost, strict=True):
        if gone and not worker.results and not worker.error:
            ended = describe_ending(worker.process)
            return f"{place(worker, workers)} {ended} {worker.where()}{guard(worker)}"
    if not late and not any(worker.is_silent(limit) for worker in workers):
        return ""
    return unheard(workers, limit)


def unheard(workers: list[Worker], limit: float) -> str:
    """Who keeps the others waiting: one that is stopped, or has made fewer calls than others."""
    quiet = [w for w in workers if not w.results and not w.error]
    for worker in quiet:
        if worker.is_stopped():
            return f"{place(worker, workers)} is stopped {worker.where()}"
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


def describe_ending(process: Any) -> str:
    code = process.exitcode
    if -code in {*signal.Signals}:
        return f"was killed by {signal.Signals(-code).name}"
    if code < 0:  # a real-time signal has no name
        return f"was killed by signal {-code}"
    return f"ended with exit code {code} and no result"


def guard(worker: Worker) -> str:
    """What a script lacks as a rule that has not come to the function."""
    if worker.calls or worker.process.exitcode != 1:
        return ""
    return '; every worker imports the script, so call launch under `if __name__ == "__main__":`'


def describe_failure(workers: list[Worker], cause: str) -> WorkerError:
    places = "; ".join(f"rank {w.rank} {w.where()}" for w in workers)
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
        fix = "return numbers, arrays or tensors"
        pipe.send_bytes(pickle_or_explain((kind, what), f"a {kind}", fix))

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
        engine.listeners.append(lambda *said: say("call", said))
        engine.tell("in", "the function")
        say("result", function(rank, *args))
    except engine.PeerError as error:
        say("by others", (str(error), traceback.format_exc()))
    except BaseException as error:
        say("error", (f"{type(error).__name__}: {error}", traceback.format_exc()))
    sys.stdout.flush()
    parent.join()  # ending now could close a connection from which others still read


def follow_parent(pipe: connection.Connection) -> None:
    """A worker does not outlive its parent."""
    try:
        pipe.recv_bytes()
    except (EOFError, OSError):
        os._exit(0)


def loopback() -> str:
    return next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
