"""What tests have workers do; a module of its own, without pytest, so that they start quickly."""

import os
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

from normbook.studies import distributed_batch_norm as over
from normlib import distributed


def rank_and_group(rank):
    return rank, dist.get_rank(), dist.get_world_size(), dist.get_backend()


PARTS = (3, 0, 2, 4)


def modules(rank):
    return [as_a_module(rank, form) for form in (nn.BatchNorm1d, nn.BatchNorm2d)]


def as_a_module(rank, form):
    """Our module on parts, and PyTorch's on the whole batch, for three steps of training and one of
    evaluation: outputs, gradients and what a state_dict holds, each with its counterpart."""
    torch.manual_seed(0)
    ours, theirs = distributed.BatchNorm(4).double(), form(4).double()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter += torch.randn(4)
    ours.load_state_dict(theirs.state_dict())
    pairs, spatial = [], (2, 3) if form is nn.BatchNorm2d else ()
    for step in range(4):
        for module in (ours, theirs):
            module.train(step < 3)
        x, dy = torch.randn(2, sum(PARTS), 4, *spatial, dtype=torch.float64)
        whole = ((1 + step) * x + 5).requires_grad_()
        part = over.own(rank, PARTS, whole.detach()).clone().requires_grad_()
        y, expected = ours(part), theirs(whole)
        y.backward(over.own(rank, PARTS, dy))
        expected.backward(dy)
        pairs += [(y, over.own(rank, PARTS, expected))]
        pairs += [(part.grad, over.own(rank, PARTS, whole.grad))]
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        dist.all_reduce(mine.grad)
        pairs.append((mine.grad, other.grad))
    theirs.load_state_dict(ours.state_dict(), strict=True)  # fits, and replaces theirs: so compare
    state = [(a, b) for a, b in zip(ours.state_dict(), theirs.state_dict(), strict=True)]
    return [float((a - b).detach().abs().max()) if a.numel() else 0.0 for a, b in pairs], state


def in_pairs(rank):
    """Ranks 0 and 1 normalize one batch, ranks 2 and 3 another."""
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    x = torch.arange(12.0, dtype=torch.float64).reshape(4, 3) ** 2
    one, zero = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    y, _ = distributed.batch_norm(x[rank : rank + 1], one, zero, group=groups[rank // 2])
    first = rank // 2 * 2
    expected = over.layers.batch_norm(x[first : first + 2], one, zero)[0][rank % 2]
    return float((y[0] - expected).abs().max())


def call_in_vain(norm, x):
    """What a call is answered with, and whether the buffers are as they were."""
    before = {name: a.clone() for name, a in norm.state_dict().items()}
    try:
        norm(x)
    except (ValueError, distributed.PeerError) as error:
        same = all(torch.equal(a, before[name]) for name, a in norm.state_dict().items())
        return str(error), same


def empty_everywhere(rank):
    """Of a batch without any value, and of one with a single one."""
    norm = distributed.BatchNorm(3)
    return [call_in_vain(norm, torch.randn(count if rank == 1 else 0, 3)) for count in (0, 1)]


def left_alone(rank, folder):
    """Rank 0 calls forward in a group with a time limit; rank 1 does not."""
    group = dist.new_group([0, 1], timeout=timedelta(seconds=2))
    done = Path(folder, "done")
    if rank == 0:
        try:
            return call_in_vain(distributed.BatchNorm(3, group=group), torch.randn(2, 3))
        finally:
            done.touch()
    while not done.exists():
        time.sleep(0.05)


def with_other_channels(rank):
    distributed.BatchNorm(2 + rank)(torch.randn(4, 2 + rank))


def with_integers(rank):
    x = torch.ones(4, 3)
    distributed.BatchNorm(3)(x.long() if rank == 1 else x)


def leaves_early(rank):
    norm = distributed.BatchNorm(3)
    norm(torch.randn(4, 3))
    if rank == 0:
        norm(torch.randn(4, 3))


def exits(rank):
    if rank == 1:
        os._exit(3)
    distributed.BatchNorm(3)(torch.randn(4, 3))


def trains_for_ever(rank, folder):
    Path(folder, f"{rank}.tmp").write_text(str(os.getpid()))
    Path(folder, f"{rank}.tmp").rename(Path(folder, f"{rank}.pid"))
    norm = distributed.BatchNorm(3)
    while True:
        norm(torch.randn(4, 3)).square().sum().backward()
