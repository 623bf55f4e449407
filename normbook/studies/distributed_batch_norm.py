"""Batch norm over processes: compared with one process, watched at its exchanges, struck by faults.
What runs in a worker takes its rank first, as `launch` calls it."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from normbook.lab import networks, training
from normlib import distributed, layers
from normlib.distributed import engine

# Compared with one process.


class Case(NamedTuple):
    """One batch and its parts."""

    sizes: tuple[int, ...]  # of the parts, one for each worker
    spatial: tuple[int, ...] = ()
    mean: float = 0.0
    dtype: str = "float64"


# Equal and uneven parts, empty ones, one value in all, images, and numbers far from zero.
CASES: dict[int, tuple[Case, ...]] = {
    2: (
        Case((4, 4)),
        Case((5, 2)),
        Case((1, 8)),
        Case((0, 6)),
        Case((1, 0)),
        Case((3, 1), (2, 3)),
        Case((1, 0), (2, 3)),
        Case((40, 25), mean=1e4, dtype="float32"),
    ),
    4: (
        Case((4, 4, 4, 4)),
        Case((1, 7, 3, 5)),
        Case((0, 6, 0, 2)),
        Case((0, 0, 1, 0)),
        Case((2, 1, 0, 3), (3, 2)),
        Case((0, 0, 0, 1), (2, 1, 2)),
        Case((31, 1, 0, 33), mean=1e4, dtype="float32"),
    ),
}
CHANNELS, RATE = 3, 0.3


def problem(case: Case) -> tuple[np.ndarray, ...]:
    """x, dy, gamma and beta of the whole batch, as numbers that the dtype has, in float64."""
    rng = np.random.default_rng(0)
    shape = sum(case.sizes), CHANNELS, *case.spatial
    x, dy = case.mean + rng.standard_normal(shape), rng.standard_normal(shape)
    gamma, beta = rng.uniform(0.5, 2, CHANNELS), rng.standard_normal(CHANNELS)
    return tuple(a.astype(case.dtype).astype(float) for a in (x, dy, gamma, beta))


def own(rank: int, sizes: Sequence[int], whole: Any) -> Any:
    """The part of one worker."""
    start = sum(sizes[:rank])
    return whole[start : start + sizes[rank]]


def errors(rank: int, case: Case, pair: tuple[Callable, Callable]) -> dict[str, float]:
    """How far this worker is from the layer of one process, relative to the largest term."""
    x, dy, gamma, beta = problem(case)
    y, cache = layers.batch_norm(x, gamma, beta)
    expected = dict(
        zip(("dx", "dgamma", "dbeta"), layers.batch_norm_backward(dy, cache), strict=True)
    )
    terms = {"y": np.abs(y), "dx": cache.standardized.rstd * np.abs(dy).max()}
    terms |= {"dgamma": np.abs(dy * cache.standardized.xhat).sum(), "dbeta": np.abs(dy).sum()}
    expected |= {"y": own(rank, case.sizes, y), "dx": own(rank, case.sizes, expected["dx"])}

    part, upstream = (
        torch.tensor(own(rank, case.sizes, a)).to(getattr(torch, case.dtype)) for a in (x, dy)
    )
    parameters = (torch.tensor(a).to(part.dtype) for a in (gamma, beta))
    y, cache = pair[0](part, *parameters)
    dx, *shares = pair[1](upstream, cache)
    for share in shares:
        dist.all_reduce(share)
    found = dict(zip(("y", "dx", "dgamma", "dbeta"), (y, dx, *shares), strict=True))
    return {name: off(found[name].numpy(), expected[name], terms[name]) for name in found}


def off(found: np.ndarray, expected: np.ndarray, terms: np.ndarray) -> float:
    return float(np.max(np.abs(found - expected), initial=0) / (np.max(terms) or 1))


SHIPPED = distributed.batch_norm, distributed.batch_norm_backward


def compare_cases(rank: int, cases: Sequence[Case]) -> list[dict[str, float]]:
    return [errors(rank, case, SHIPPED) for case in cases]


def worst(by_rank: Sequence[Sequence[dict]]) -> list[dict[str, float]]:
    """Of every case the worst errors among the workers."""
    return [
        {name: max(found[name] for found in ranks) for name in ranks[0]}
        for ranks in zip(*by_rank, strict=True)
    ]


# Watched at the exchanges.


class Heard(TorchDispatchMode):
    """Notes every collective of torch.distributed, whoever calls it: its name, and how many numbers
    this worker hands over."""

    def __init__(self):
        super().__init__()
        self.notes: list[tuple[str, int]] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or torch imports its compiler, for seconds, in every worker

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        if op.namespace == "c10d":
            name = op._opname.strip("_")
            (own,) = args[1] if name == "allgather" else args[0]
            self.notes.append((name, own.numel()))
        return op(*args, **(kwargs or {}))


def notes(call: Callable[[], Any]) -> list[tuple[str, int]]:
    with Heard() as heard:
        call()
    return heard.notes


def exchanges(rank: int, channels: int, rows: int) -> dict[str, list[tuple[str, int]]]:
    """What a layer sends in the forward and in the backward pass, of so many rows a worker."""
    x = torch.randn(rows, channels, requires_grad=True)
    found = {}
    for name, layer in {
        "batch norm": distributed.BatchNorm(channels),
        "layer norm": nn.LayerNorm(channels),
    }.items():
        kept: list[Tensor] = []
        found[f"{name}, forward"] = notes(lambda layer=layer, kept=kept: kept.append(layer(x)))
        found[f"{name}, backward"] = notes(lambda kept=kept: kept[0].sum().backward())
    return found


def torchs_own(rank: int) -> str:
    """What PyTorch's layer says of tensors on a CPU."""
    try:
        nn.SyncBatchNorm(CHANNELS)(torch.randn(4, CHANNELS))
    except ValueError as error:
        return str(error)
    return ""


# Digits, learned by several workers.


def order(steps: int) -> list[np.ndarray]:
    return [*training.batches(1437, 64, steps, np.random.default_rng(0))]


def start() -> networks.Params:
    return networks.dense((64, 32, 32, 10), np.random.default_rng(0))


def network(merged: bool) -> nn.Sequential:
    """Two hidden layers of 32 units, in float64: with the layer of this page, or PyTorch's own."""
    net = networks.torch_twin(start())
    if merged:
        for place, module in enumerate(net):
            if isinstance(module, nn.BatchNorm1d):
                net[place] = distributed.BatchNorm(module.num_features).double()
    return net


Digits = tuple[np.ndarray, np.ndarray]  # handed to workers: to import them takes a second in each


class Learned(NamedTuple):
    losses: list[float]  # of the whole batch, at each step
    variances: list[float]  # the running ones of this worker's first norm, in the end
    sent: list[tuple[str, int]]  # its exchanges in the last step


def descend(
    rank: int, net: nn.Module, digits: Digits, sizes: Sequence[int], steps: int, average: Callable
) -> Learned:
    """Plain gradient descent, each worker on its part of the batch. As usual gradients are averaged
    over the workers; the sum is wanted, so the loss is multiplied by their number."""
    x, labels = map(torch.tensor, digits)
    parameters, losses = [*net.parameters()], []

    def step(batch: np.ndarray) -> None:
        rows = own(rank, sizes, batch)
        loss = nn.functional.cross_entropy(net(x[rows]), labels[rows], reduction="sum")
        loss = loss / len(batch)
        (len(sizes) * loss).backward()
        average(net)
        with torch.no_grad():  # by hand: torch's optimizers import a compiler in every worker
            for parameter in parameters:
                parameter -= RATE * parameter.grad
                parameter.grad = None
        losses.append(loss.detach())

    *batches, last = order(steps)
    for batch in batches:
        step(batch)
    sent = notes(lambda: step(last))
    total = torch.stack(losses)
    dist.all_reduce(total)
    (first, *_) = (m for m in net.modules() if hasattr(m, "running_var"))
    return Learned(total.tolist(), first.running_var.tolist(), sent)


def average_gradients(net: nn.Module) -> None:
    """The gradients of all parameters, in one exchange."""
    gradients = [parameter.grad for parameter in net.parameters()]
    flat = torch.cat([gradient.ravel() for gradient in gradients])
    dist.all_reduce(flat)
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, mean in zip(gradients, flat.split(sizes), strict=True):
        gradient.copy_(mean.reshape(gradient.shape) / dist.get_world_size())


def learn(
    rank: int, digits: Digits, sizes: Sequence[int], steps: int, *, merged: bool = True
) -> Learned:
    return descend(rank, network(merged), digits, sizes, steps, average_gradients)


def by_torch(
    rank: int, digits: Digits, sizes: Sequence[int], steps: int, *, merged: bool = True
) -> Learned:
    """The same by PyTorch's own wrapper, which averages gradients while backward still runs."""
    net = DistributedDataParallel(network(merged))
    return descend(rank, net, digits, sizes, steps, lambda net: None)


# How long an exchange takes.


def time_exchanges(rank: int, numbers: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of each of the two exchanges, of so many numbers a worker."""
    values = torch.ones(numbers, dtype=torch.float64)
    found: dict[str, list[float]] = {"gather": [], "sum": []}
    for _ in range(repeats):
        for name, exchange in (("gather", engine.gather), ("sum", engine.add_up)):
            dist.barrier()
            begun = time.perf_counter()
            exchange(values, name, None)
            found[name].append(time.perf_counter() - begun)
    return found


# Faults.

FAULTS = "killed", "stopped", "fails"
CALLS = "batch_norm", "batch_norm_backward"


def faulty(rank: int, fault: str, call: str, moment: str = os.devnull) -> None:
    """Two steps of one layer; in the second one rank 1 has this fault in this call. When that was
    is written to a file."""
    norm, calls = distributed.BatchNorm(CHANNELS), []

    def strike(when: str, now: str) -> None:
        if when == "after":
            return
        calls.append(now)
        if rank == 1 and len(calls) > 2 and now.startswith(f"{call} of"):
            Path(moment).write_text(str(time.time()), encoding="utf-8")
            if fault == "fails":
                raise RuntimeError("out of memory, say")
            os.kill(os.getpid(), signal.SIGKILL if fault == "killed" else signal.SIGSTOP)

    engine.listeners.append(strike)
    for _ in range(2):
        norm(torch.randn(rank + 2, CHANNELS)).square().sum().backward()


# What it costs.


class Network(NamedTuple):
    """How long a message takes: the latency, and its bytes over the bandwidth."""

    latency: float  # seconds
    bandwidth: float  # bytes a second

    def seconds(self, messages: Any, numbers: Any) -> Any:
        return messages * self.latency + 8 * numbers / self.bandwidth


# (R workers, n numbers of each) → messages one after the other, and numbers through one wire.
ALGORITHMS: dict[str, Callable[[Any, int], tuple[Any, Any]]] = {
    "gather, ring": lambda r, n: (r - 1, (r - 1) * n),
    "gather, doubling": lambda r, n: (np.log2(r), (r - 1) * n),
    "sum, ring": lambda r, n: (2 * (r - 1), 2 * (r - 1) / r * n),
    "sum, doubling": lambda r, n: (np.log2(r), np.log2(r) * n),
}

# The channels of the 53 batch norms of ResNet-50: the first, and those of its blocks.
RESNET50 = (
    64,
    *(
        channels
        for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3))
        for channels in (4 * width, *blocks * (width, width, 4 * width))
    ),
)


def step_seconds(workers: Any, forward: Sequence[str], backward: str, by: Network) -> Any:
    """The exchanges of one training step of ResNet-50. One gather sends 2C + 1 numbers; two sums
    send C + 1 and C. Backward sends 2C."""

    def seconds(algorithm: str, numbers: int) -> Any:
        return by.seconds(*ALGORITHMS[algorithm](workers, numbers))

    total = 0.0
    for c in RESNET50:
        counts = (2 * c + 1,) if len(forward) == 1 else (c + 1, c)
        total += sum(map(seconds, forward, counts)) + seconds(backward, 2 * c)
    return total
