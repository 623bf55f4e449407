"""Algorithms that need the samples of a batch apart, and what batch normalization does to them."""

import copy
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from normbook.studies.evaluation_gap import norms

Batch = Callable[[Tensor], Tensor]  # from samples (N, ...) to outputs (N, ...)


def network(norm: nn.Module, *, bend: nn.Module | None = None, seed: int = 0) -> nn.Sequential:
    """Four inputs, eight hidden units behind the norm, one output, in float64."""
    torch.manual_seed(seed)
    first, last = nn.Linear(4, 8), nn.Linear(8, 1)
    return nn.Sequential(first, norm, bend or nn.Tanh(), last).double()


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


class Ghost(nn.Module):
    """Batch normalization of each of so many parts of the batch by itself."""

    def __init__(self, norm: nn.Module, parts: int):
        super().__init__()
        self.norm, self.parts = norm, parts

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.norm(part) for part in x.chunk(self.parts)])


def slopes(f: Batch, x: Tensor) -> Tensor:
    """(N, N, features): the slope of output i along input j, for one output a sample."""
    return torch.autograd.functional.jacobian(lambda x: f(x)[:, 0], x)


def influence(f: Batch, x: Tensor) -> Tensor:
    """(N, N): how strongly input j moves output i, the largest slope of any feature."""
    return slopes(f, x).abs().amax(dim=-1)


# Contrastive learning


def shared(h: Tensor, parts: Sequence[Sequence[int]], norm: Batch) -> Tensor:
    """The outputs, each part normalized by itself and put back to its place."""
    out = torch.empty_like(h)
    for rows in parts:
        out[rows] = norm(h[rows])
    return out


def views(images: Tensor, rng: np.random.Generator) -> Tensor:
    """A window of five columns of each image (..., 8, 8), left or right, and noise."""
    columns, left = torch.arange(8), torch.from_numpy(rng.random((*images.shape[:-2], 1, 1)) < 0.5)
    seen = images * torch.where(left, columns < 5, columns >= 3)
    return seen + 0.1 * torch.from_numpy(rng.standard_normal(images.shape))


def blanks_found(
    images: Tensor, norm: Batch, *, shuffle: bool = False, seed: int = 0
) -> tuple[float, bool]:
    """Eight parts of eight images and one blank one, in two views. Each blank of the first view
    looks for the nearest blank of the second: how many find that of their own part, from 0 to 1,
    and whether the blanks differ at all. Shuffled, the second view is split into other parts."""
    rng = np.random.default_rng(seed)
    w = torch.from_numpy(rng.standard_normal((64, 256)) / 8)
    content = images[rng.permutation(len(images))[:64]].double().reshape(8, 8, 8, 8)
    parts = np.arange(72).reshape(8, 9)
    others = rng.permutation(72).reshape(8, 9) if shuffle else parts
    blank, found = torch.zeros(8, 1, 64).double(), []
    for split in (parts, others):
        whole = torch.cat([views(content, rng).flatten(-2), blank], dim=1).flatten(0, 1)
        found.append(shared(torch.relu(whole @ w), split, norm)[parts[:, -1]])
    nearest = torch.cdist(*found).argmin(dim=1)
    differ = float((found[1] - found[1][0]).abs().max()) > 1e-9
    return float((nearest == torch.arange(8)).double().mean()), differ


# Clipped gradients


def losses(net: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    """One loss a sample, from a forward pass of the whole batch."""
    return (net(x) - target).square().sum(dim=1)


def clipped_sum(net: nn.Module, x: Tensor, target: Tensor, bound: float) -> Tensor:
    """The gradients of all losses, each cut to the length of the bound, added up."""
    total = 0
    for loss in losses(net, x, target):
        found = torch.autograd.grad(loss, [*net.parameters()], retain_graph=True)
        g = torch.cat([part.flatten() for part in found])
        total = total + g * min(1, bound / float(g.norm()))
    return total


def sensitivity(net: nn.Module, x: Tensor, target: Tensor, bound: float = 1e-2) -> float:
    """How far the clipped sum moves, in bounds, when the one sample leaves for which that is
    farthest."""
    whole = clipped_sum(net, x, target, bound)
    kept = [[j for j in range(len(x)) if j != i] for i in range(len(x))]
    moved = [(whole - clipped_sum(net, x[k], target[k], bound)).norm() for k in kept]
    return float(max(moved)) / bound


def by_vmap(net: nn.Module, x: Tensor, target: Tensor) -> dict[str, Tensor]:
    """The gradient of each sample's loss, as PyTorch's tutorials get it."""
    buffers = dict(net.named_buffers())

    def loss(params, one, wanted):
        out = functional_call(net, (params, buffers), (one[None],))
        return (out - wanted).square().sum()

    return vmap(grad(loss), in_dims=(None, 0, 0))(dict(net.named_parameters()), x, target)


def summed(net: nn.Module, x: Tensor, target: Tensor) -> dict[str, Tensor]:
    """The gradient of the sum of all losses, by one backward pass of the batch."""
    names, params = zip(*net.named_parameters(), strict=True)
    found = torch.autograd.grad(losses(net, x, target).sum(), params)
    return dict(zip(names, found, strict=True))


def agree(each: dict[str, Tensor], whole: dict[str, Tensor]) -> bool:
    """Whether the gradients of single samples add up to that of the batch."""
    return all(torch.allclose(each[n].sum(0), g, rtol=1e-9, atol=1e-12) for n, g in whole.items())


# A stream of tests


def adapted(
    net: nn.Module, digits: tuple[Tensor, Tensor], order: Tensor, *, tent: float = 0.0, size=36
) -> float:
    """The share of right answers in percent, every norm with the statistics of the batch at hand.
    With `tent`, that rate of Adam, each batch then moves γ and β towards a smaller entropy."""
    (x, labels), probe = digits, copy.deepcopy(net).train()
    params = [p for norm in norms(probe) for p in norm.parameters()]
    optimizer, right = torch.optim.Adam(params, lr=tent), []
    for rows in order.split(size):
        out = probe(x[rows])
        right.append(out.argmax(dim=1) == labels[rows])
        entropy = -(out.softmax(1) * out.log_softmax(1)).sum(dim=1).mean()
        optimizer.zero_grad()
        entropy.backward()
        optimizer.step()
    return 100 * float(torch.cat(right).float().mean())
