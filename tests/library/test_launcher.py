"""Whatever becomes of one worker, all end within the limit, and one error says what happened."""

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import workers
from project import ROOT

from normbook.studies import distributed_batch_norm as over
from normlib.distributed import WorkerError, launch

pytestmark = pytest.mark.programs

LIMIT = 5.0  # seconds of silence; in one call between two, a worker needs milliseconds
SLACK = 60.0  # for the start of processes on a machine that has other things to do


def fail(function, processes, *args, limit=LIMIT):
    """What a launch ends with, and after how many seconds."""
    started = time.monotonic()
    with pytest.raises(WorkerError) as raised:
        launch(function, processes, *args, limit=limit)
    return str(raised.value), time.monotonic() - started


def test_results_come_in_the_order_of_the_ranks():
    assert launch(workers.rank_and_group, 3) == [(rank, rank, 3, "gloo") for rank in range(3)]


STRUCK = {"killed": "was killed by SIGKILL", "stopped": "is stopped", "fails": "failed"}
WRONG = {
    workers.with_integers: r"rank 1 of 2 failed in batch_norm of \(4, 3\): ValueError: x and",
    workers.with_other_channels: r"killed by SIGABRT.*\(4, 2\); rank 1 .* batch_norm of \(4, 3",
    workers.exits: "rank 1 of 2 ended with exit code 3 and no result",
    workers.leaves_early: "rank 1 of 2 had ended while others waited for it",
}


@pytest.fixture(scope="module")
def ends():
    """How all these launches end, begun at once, so that they wait for their limits together."""
    faults = [(fault, call) for fault in over.FAULTS for call in over.CALLS]
    calls = {case: (over.faulty, 3, *case) for case in faults}
    calls |= {function: (function, 2) for function in WRONG}
    with ThreadPoolExecutor(len(calls)) as pool:
        return dict(zip(calls, pool.map(lambda call: fail(*call), calls.values()), strict=True))


@pytest.mark.parametrize("call", over.CALLS)
@pytest.mark.parametrize("fault", over.FAULTS)
def test_a_lost_worker_ends_all_in_one_error_that_names_rank_and_call(ends, fault, call):
    message, seconds = ends[fault, call]
    assert f"rank 1 of 3 {STRUCK[fault]} in {call} of (3, 3)" in message
    assert "nothing is returned" in message and seconds < LIMIT + SLACK
    assert len(re.findall(r"rank \d (in|after) ", message)) == 3  # where each was
    assert ("out of memory, say" in message) == (fault == "fails")


@pytest.mark.parametrize("function", WRONG, ids=lambda function: function.__name__)
def test_what_goes_wrong_in_one_worker_only_ends_all(ends, function):
    said, seconds = ends[function]
    assert re.search(WRONG[function], said), said
    assert seconds < LIMIT + SLACK


def test_a_worker_alone_in_a_call_is_told_where_and_keeps_its_buffers(tmp_path):
    (message, same), _ = launch(workers.left_alone, 2, str(tmp_path))
    assert message.startswith("rank 0 of 2 expected all others in batch_norm, but") and same
    assert "start all of them again" in message


@pytest.mark.parametrize(
    ("function", "processes", "limit", "message"),
    [
        (lambda rank: rank, 2, 1.0, "top level of a module"),
        (workers.rank_and_group, 0, 1.0, "at least 1 process"),
        (workers.rank_and_group, 2, 0.0, "a limit above 0"),
        (workers.rank_and_group, 2, float("nan"), "a limit above 0"),
    ],
)
def test_a_launch_that_cannot_work_is_refused(function, processes, limit, message):
    with pytest.raises(ValueError, match=message):
        launch(function, processes, limit=limit)


# Nobody is left.

PROGRAM = """
import sys
sys.path[:0] = {path!r}
import workers
from normlib.distributed import launch
if __name__ == "__main__":
    launch(workers.trains_for_ever, 2, {folder!r})
"""


def wait_for(condition):
    """Whether it comes true in time."""
    deadline = time.monotonic() + SLACK
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def is_alive(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(") ")[2][0] not in "ZX"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_no_worker_outlives_a_parent_that_is_killed(tmp_path):
    program = PROGRAM.format(path=[str(Path(__file__).parent), str(ROOT)], folder=str(tmp_path))
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, tmp_path / "program.py"]
    parent = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    files = [tmp_path / f"{rank}.pid" for rank in (0, 1)]
    wait_for(lambda: parent.poll() is not None or all(file.exists() for file in files))
    assert parent.poll() is None, "the program ended before its workers began"
    started = [int(file.read_text()) for file in files]
    assert all(map(is_alive, started))
    # the workers, and the process that forks
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    everyone = {*started, *map(int, children)}
    parent.kill()
    parent.wait()
    assert len(everyone) >= 3 and wait_for(lambda: not any(map(is_alive, everyone)))
