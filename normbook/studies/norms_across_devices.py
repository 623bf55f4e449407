"""Norms whose tensors are cut over processes: which sums cross a cut, and what becomes of gains,
statistics and buffers. What runs in a worker takes its rank first, as `launch` calls it."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from normlib import distributed, layers
from normlib.distributed import engine
from normlib.layers.core import Array

# Which sums cross a cut. One token is a row, one feature a column.

TOKENS, FEATURES, HEADS = 4, 6, 2


class Cut(NamedTuple):
    """For every entry: who holds it, in which statistic it is, and which gain multiplies it."""

    name: str
    ranks: Array
    statistics: Array
    gains: Array


def cuts() -> tuple[Cut, ...]:
    token, feature = np.indices((TOKENS, FEATURES))
    width = FEATURES // HEADS
    head, inside = divmod(feature, width)
    first, left = token // (TOKENS // 2), head
    return (
        Cut("tokens split", first, token, feature),
        Cut("features split", left, token, feature),
        Cut("heads split, a norm each", left, HEADS * token + head, inside),
        Cut("heads split, one norm over all", left, token, feature),
        Cut("batch norm, samples split", first, feature, feature),
    )


def crosses(ranks: Array, sums: Array) -> bool:
    """Whether one of the sums has entries on several ranks. Entries of one sum share a number."""
    return any(len({*ranks[sums == one]}) > 1 for one in np.unique(sums))


# Tokens split: a gain learned from all of them.


class Lesson(NamedTuple):
    x: Array  # (tokens, features)
    wanted: Array  # as x
    steps: int = 40
    rate: float = 0.3


def lesson(seed: int = 0) -> Lesson:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((8, FEATURES))
    gains = np.repeat([[2.5], [1.0]], 4, axis=0)  # the two halves ask for different gains
    return Lesson(x, gains * x + 0.1 * rng.standard_normal(x.shape))


def learn_gain(given: Lesson, own: slice, combine: Callable[[Array], Array]) -> Array:
    """The path of gamma under plain gradient descent on the mean squared distance of all tokens.
    `combine` makes of the own share of the gradient what the step uses."""
    gamma, path = np.ones(given.x.shape[1]), []
    for _ in range(given.steps):
        path.append(gamma)
        y, cache = layers.rms_norm(given.x[own], gamma)
        dy = (y - given.wanted[own]) / len(given.x)
        _, dgamma = layers.rms_norm_backward(dy, cache)
        gamma = gamma - given.rate * combine(dgamma)
    return np.array([*path, gamma])


def summed(values: Array) -> Array:
    return engine.add_up(torch.as_tensor(values), "a sum", None).numpy()


WAYS: dict[str, Callable[[Array], Array]] = {
    "added up": summed,
    "left out": lambda dgamma: dgamma,
    "averaged": lambda dgamma: summed(dgamma) / 2,
}


def learn_in_parts(rank: int, given: Lesson) -> dict[str, Array]:
    half = len(given.x) // 2
    own = slice(rank * half, (rank + 1) * half)
    return {name: learn_gain(given, own, way) for name, way in WAYS.items()}


# Features split: before and after the exchanges, for any kind of number.


class RowCache(NamedTuple):
    xhat: Array  # as x, this worker's features
    rstd: Array  # (tokens, 1)
    gamma: Array  # of this worker's features
    count: int  # of all features


def squares(x: Array) -> Array:
    """What a worker sends forward: one number a token."""
    return (x**2).sum(-1)


def scale(
    x: Array, gamma: Array, total: Array, count: int, eps: float = 1e-6
) -> tuple[Array, RowCache]:
    rstd = ((total / count + eps) ** -0.5)[:, None]
    xhat = x * rstd
    return gamma * xhat, RowCache(xhat, rstd, gamma, count)


def along(dy: Array, cache: RowCache) -> Array:
    """What a worker sends backward: one number a token."""
    return (cache.gamma * dy * cache.xhat).sum(-1)


def pull_back(dy: Array, cache: RowCache, total: Array) -> tuple[Array, Array]:
    """dx of this worker's features, and the whole gradient of its gains."""
    mean = (total / cache.count)[:, None]
    dx = cache.rstd * (cache.gamma * dy - cache.xhat * mean)
    return dx, (dy * cache.xhat).sum(0)


def halves(x: Array) -> list[Array]:
    """Two uneven parts of the features."""
    cut = max(1, x.shape[-1] // 3)
    return [x[..., :cut], x[..., cut:]]


def join(parts: Sequence[Array]) -> Array:
    return torch.cat([*parts], -1) if isinstance(parts[0], Tensor) else np.concatenate(parts, -1)


def split_rms_norm(x: Array, gamma: Array) -> tuple[Array, Any]:
    """Both workers in one process; only the exchange itself is missing."""
    xs = halves(x)
    total = sum(map(squares, xs))
    pairs = zip(xs, halves(gamma), strict=True)
    ys, caches = zip(*(scale(*pair, total, x.shape[-1]) for pair in pairs), strict=True)
    return join(ys), caches


def split_rms_norm_backward(dy: Array, caches: Any) -> tuple[Array, Array]:
    dys = halves(dy)
    total = sum(map(along, dys, caches))
    found = [pull_back(*pair, total) for pair in zip(dys, caches, strict=True)]
    dx, dgamma = (join([*parts]) for parts in zip(*found, strict=True))
    return dx, dgamma


class Rows(NamedTuple):
    """Tokens of several heads, with an upstream gradient and gains."""

    x: Array
    dy: Array
    gamma: Array


def rows(seed: int = 0, heads: int = 4, width: int = 8, tokens: int = 16) -> Rows:
    """Some heads are larger than others."""
    rng = np.random.default_rng(seed)
    shape = tokens, heads * width
    sizes = np.repeat(2.0 ** np.arange(heads), width)
    x, dy = sizes * rng.standard_normal(shape), rng.standard_normal(shape)
    return Rows(x, dy, rng.uniform(0.5, 2, heads * width))


def features_in_parts(rank: int, given: Rows) -> dict[str, Array]:
    """What one of two workers returns, with the exchanges and without, and layer norm."""
    x, dy, gamma = (np.split(a, 2, axis=-1)[rank] for a in given)
    y, cache = scale(x, gamma, summed(squares(x)), given.x.shape[1])
    dx, dgamma = pull_back(dy, cache, summed(along(dy, cache)))
    local, _ = layers.rms_norm(x, gamma)
    tokens = len(x)
    centred, _ = distributed.batch_norm(  # its channels are our tokens
        torch.tensor(x.T), *torch.tensor([[1.0] * tokens, [0.0] * tokens], dtype=torch.float64)
    )
    return {"y": y, "dx": dx, "dgamma": dgamma, "local": local, "layer norm": centred.numpy().T}


def heads_in_parts(rank: int, given: Rows, width: int) -> dict[str, Array]:
    """A norm for each head, all with the first gains; this worker has half of the heads."""
    x, dy = (np.split(a, 2, axis=-1)[rank].reshape(-1, width) for a in given[:2])
    y, cache = layers.rms_norm(x, given.gamma[:width])
    dx, own = layers.rms_norm_backward(dy, cache)
    return {"y": y, "dx": dx, "own": own, "added up": summed(own)}


def by_placement(rank: int, given: Lesson) -> dict[str, Any]:
    """The gain's gradient under PyTorch's own sequence parallelism: where it says that it lies."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module

    x, dy = (torch.tensor(a)[None] for a in given[:2])
    norm = nn.RMSNorm(FEATURES, eps=1e-6).double()
    plan = {"0": SequenceParallel(use_local_output=True)}
    net = parallelize_module(nn.Sequential(norm), init_device_mesh("cpu", (2,)), plan)
    net(x.chunk(2, 1)[rank]).backward(dy.chunk(2, 1)[rank])
    gradient = net[0].weight.grad
    return {
        "placement": repr(gradient.placements[0]),
        "own": gradient.to_local().numpy(),
        "added up": gradient.full_tensor().numpy(),
    }


# PyTorch's wrappers, on a CPU.


def said(call: Callable[[], Any]) -> str:
    """The error of a call, or nothing."""
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return str(error).strip()
    return ""


def follow(net: nn.Module, x: Tensor, steps: int) -> list[float]:
    """The running mean at the start and after every step."""
    norm = getattr(net, "module", net)  # without its wrapper
    path = [float(norm.running_mean)]
    for _ in range(steps):
        net(x).square().sum().backward()
        path.append(float(norm.running_mean))
    return path


def twice(net: nn.Module, x: Tensor) -> str:
    """Two forward passes and one backward pass."""
    both = net(x).square().sum() + net(x + 1).square().sum()
    return said(both.backward)


def at_start(rank: int, wrap: Callable, **flag: bool) -> tuple[float, list[str]]:
    """The buffer of a worker after wrapping, when it was the rank before; and the warnings."""
    norm = nn.BatchNorm1d(1)
    norm.running_mean.fill_(rank)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        net = wrap(norm, **flag)
    told = [f"{w.category.__name__}: {w.message}" for w in caught if "buffers" in str(w.message)]
    return float(net.module.running_mean), told


def merge_statistics(net: nn.Module) -> None:
    """Running statistics of all ranks together, if all have seen equally many values."""
    for layer in net.modules():
        if isinstance(layer, _BatchNorm) and layer.track_running_stats:
            mean, var = layer.running_mean.double(), layer.running_var.double()
            both = torch.stack([mean, var + mean**2])
            torch.distributed.all_reduce(both)  # the sum over the ranks
            mean, square = both / torch.distributed.get_world_size()
            layer.running_mean.copy_(mean)
            layer.running_var.copy_(square - mean**2)


def running(norm: nn.Module) -> list[float]:
    return [float(norm.running_mean), float(norm.running_var)]


def part_of(rank: int) -> Tensor:
    """Two samples with the mean 10 · rank."""
    return 10.0 * rank + torch.tensor([[-1.0], [1.0]])


def wrapped(rank: int, steps: int) -> dict[str, Any]:
    """What DistributedDataParallel does to a plain batch norm. One call, as making the first of
    these wrappers imports torch's compiler, for seconds in every worker."""
    from torch.nn.parallel import DistributedDataParallel as Wrapper

    x, found = part_of(rank), {}
    for name, sync in (("not sent", False), ("default", None)):
        net = Wrapper(nn.BatchNorm1d(1), forward_sync_buffers=sync)
        found[name] = follow(net, x, steps)
        if name == "not sent":
            found["own"] = running(net.module)
            merge_statistics(net)
            found["merged"] = running(net.module)
    net.eval()(x)
    found["default, evaluated"] = float(net.module.running_mean)
    found["twice"] = twice(Wrapper(nn.BatchNorm1d(1)), x)
    with mock.patch.object(
        torch.autograd, "_unsafe_preserve_version_counter", lambda _: nullcontext()
    ):
        found["twice, unguarded"] = twice(Wrapper(nn.BatchNorm1d(1)), x)
    found["old flag"] = at_start(rank, Wrapper, broadcast_buffers=False)
    found["new flag"] = at_start(rank, Wrapper, forward_sync_buffers=False)
    found["wrapping"] = said(lambda: Wrapper(nn.SyncBatchNorm(1)))
    found["training"] = said(lambda: nn.SyncBatchNorm(1)(x))
    found["evaluation"] = said(lambda: nn.SyncBatchNorm(1).eval()(x))
    return found


class Doubling(nn.BatchNorm1d):
    """A batch norm with a forward of its own."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


# Parameters cut over processes: FSDP2.


def sharded_net(kind: Callable[[int], nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, FEATURES), kind(FEATURES))


def share(rank: int) -> Tensor:
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(rank)) + rank


def held(gain: Tensor) -> str:
    return f"{len(gain)} of {FEATURES}, {str(gain.dtype).removeprefix('torch.')}"


def sharded(rank: int) -> dict[str, Any]:
    """How a gain is stored and how it is used under fully_shard, for three policies; and what
    becomes of a batch norm."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh, x, found = init_device_mesh("cpu", (2,)), share(rank), {}
    low = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    exact = MixedPrecisionPolicy(param_dtype=torch.float32, output_dtype=torch.bfloat16)

    def cut(kind: Callable, policy: Any = None, own: Any = None) -> tuple[nn.Module, list[str]]:
        net, used = sharded_net(kind), []
        net[1].register_forward_pre_hook(lambda norm, _: used.append(held(norm.weight)))
        for part, rule in ((net[1], own), (net, policy or MixedPrecisionPolicy())):
            if rule is not None:
                fully_shard(part, mesh=mesh, mp_policy=rule)
        return net, used

    policies = {"none": (), "for all": (low,), "for all, float32 for the norm": (low, exact)}
    for name, rules in policies.items():
        net, used = cut(nn.LayerNorm, *rules)
        stored = held(net[1].weight.to_local())
        y = net(x)
        found[name] = [stored, *used]
        if name == "none":
            found["output"] = y.detach().numpy()
    found["batch norm, for all"] = said(lambda: cut(nn.BatchNorm1d, low)[0](x))
    net, _ = cut(nn.BatchNorm1d)
    net(x)
    found["running mean"] = net[1].running_mean.numpy()
    return found


# Micro-batches.


def weight_of_old(parts: int, momentum: float | None, *, recomputed: bool = False) -> float:
    """How much of the running mean is left after one step of so many micro-batches."""
    from torch.utils.checkpoint import checkpoint

    norm = nn.BatchNorm1d(1, momentum=momentum).double()
    norm.running_mean.fill_(1.0)
    for _ in range(parts):
        x = torch.tensor([[-1.0], [1.0]], dtype=torch.float64, requires_grad=True)
        y = checkpoint(norm, x, use_reentrant=False) if recomputed else norm(x)
        y.sum().backward()
    return float(norm.running_mean)


def accumulated(norm: nn.Module, x: Tensor, wanted: Tensor, parts: int) -> Tensor:
    """The gradient of the gain, added up over so many micro-batches."""
    norm.zero_grad()
    for a, b in zip(x.chunk(parts), wanted.chunk(parts), strict=True):
        ((norm(a) - b).square().sum() / len(x)).backward()
    return norm.weight.grad.clone()
