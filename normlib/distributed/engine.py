"""Where a worker meets the others: the only calls into torch.distributed that the layer makes.

What is sent is float64, whatever the layer computes in. A count is then exact, a mean far from zero
keeps the digits that its deviation needs, and a vector has the same size on every worker.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor


class PeerError(RuntimeError):
    """Another worker is gone, stopped, or in another call."""


listeners: list[Callable[[str, str], None]] = []  # the launcher's


def tell(moment: str, call: str) -> None:
    """Tell of a call when it begins, that the worker is "in" it, and of its end with "after"."""
    for listener in listeners:
        listener(moment, call)


def gather(values: Tensor, call: str, group: dist.ProcessGroup | None) -> list[Tensor]:
    """The values of all workers, in the order of their ranks."""
    check_group(group)
    values = values.double()
    parts = [torch.empty_like(values) for _ in range(dist.get_world_size(group))]
    return exchange(lambda: dist.all_gather(parts, values, group=group), parts, call, group)


def add_up(values: Tensor, call: str, group: dist.ProcessGroup | None) -> Tensor:
    """The sum over all workers, the same to the last bit on each."""
    check_group(group)
    total = values.double().clone()
    return exchange(lambda: dist.all_reduce(total, group=group), total, call, group)


def check_group(group: dist.ProcessGroup | None) -> None:
    if group is None and not dist.is_initialized():
        raise ValueError(
            "expected a group of processes, but torch.distributed has not been initialized; start "
            "the workers with normlib.distributed.launch, or call init_process_group in each"
        )


def exchange(collective: Callable, result, call: str, group: dist.ProcessGroup | None):
    """The result of a collective; an error in it says in which call of which worker it came."""
    try:
        collective()
    except RuntimeError as error:
        raise PeerError(
            f"rank {dist.get_rank(group)} of {dist.get_world_size(group)} expected all others in "
            f"{call}, but at least one is gone, stopped, or elsewhere ({short(error)}); find the "
            f"first that failed, and start all of them again"
        ) from error
    return result


def short(error: Exception) -> str:
    """What gloo says, without the place in its source and its advice."""
    text = str(error).rpartition("] ")[2] if "] " in str(error) else str(error)
    return text.partition(". This is")[0].strip()
