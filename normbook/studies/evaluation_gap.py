"""Batch-normalized networks that evaluate worse than they train, each for one planted reason."""

import copy
from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import nn

from normbook.lab import data, training
from normlib import recipes

Digits = tuple[torch.Tensor, torch.Tensor]  # images (n, 64), labels (n,)


def digits() -> tuple[Digits, Digits]:
    """The digits to learn and those of the test, as float32 tensors."""
    split = data.digits(np.random.default_rng(0), "raw")
    train, test = (split.x_train, split.labels_train), (split.x_test, split.labels_test)
    return tuple((torch.tensor(x).float(), torch.tensor(labels)) for x, labels in (train, test))


def network(seed: int, *, dropout: float = 0.0, **options) -> nn.Sequential:
    """Three hidden layers of 64 units; the options are those of BatchNorm1d."""
    torch.manual_seed(seed)
    modules: list[nn.Module] = []
    for _ in range(3):
        modules += [nn.Linear(64, 64, bias=False), nn.BatchNorm1d(64, **options), nn.ReLU()]
        modules += [nn.Dropout(dropout)] if dropout else []
    return nn.Sequential(*modules, nn.Linear(64, 10))


def layer_normalized(net: nn.Sequential) -> nn.Sequential:
    """The same network with layer normalization in each norm's place."""
    swapped = (nn.LayerNorm(64) if isinstance(m, nn.BatchNorm1d) else m for m in net)
    return nn.Sequential(*swapped)


def order(seed: int, size: int = 64, steps: int = 300) -> Iterable[np.ndarray]:
    return training.batches(1437, size, steps, np.random.default_rng(seed))


def fit(
    net: nn.Module,
    digits: Digits,
    order: Iterable[np.ndarray],
    *,
    rate: float = 0.1,
    parts: int = 1,
    after: Callable[[], None] = lambda: None,
) -> nn.Module:
    """SGD without momentum; each batch in so many parts, whose gradients are accumulated."""
    x, labels = digits
    optimizer = torch.optim.SGD(net.train().parameters(), lr=rate)
    for batch in order:
        optimizer.zero_grad()
        for rows in np.array_split(batch, parts):
            loss = nn.functional.cross_entropy(net(x[rows]), labels[rows])
            (loss / parts).backward()
        optimizer.step()
        after()
    return net


def norms(net: nn.Module) -> list:
    kind = nn.modules.batchnorm._BatchNorm  # of images as well
    return [module for module in net.modules() if isinstance(module, kind)]


@torch.no_grad()
def accuracy(net: nn.Module, digits: tuple, *, by_batches: bool = False) -> float:
    """The share of right answers in evaluation mode, in percent. With `by_batches` every norm takes
    its statistics from batches of 64 instead, as in training; the network is left as it was."""
    x, labels = digits
    probe = copy.deepcopy(net).eval()
    for norm in norms(probe):
        norm.train(by_batches)
    mixed = torch.tensor(np.random.default_rng(0).permutation(len(x)))
    whole = mixed[: len(x) // 64 * 64]  # no short batch at the end
    batches = whole.split(64) if by_batches else [mixed]
    answers = [probe(x[rows]).argmax(dim=1) for rows in batches]
    right = torch.cat(answers) == labels[torch.cat([*batches])]
    return 100 * float(right.float().mean())


def reestimate(net: nn.Module, x: torch.Tensor) -> nn.Module:
    """The same weights, with the mean statistics of mixed batches of x, of 128 or more."""
    mixed = torch.tensor(np.random.default_rng(0).permutation(len(x)))
    return recipes.reestimate(net, x[mixed].tensor_split(max(1, len(x) // 128)))


def average_weights(seed: int, digits: Digits) -> nn.Module:
    """The mean of the weights of the last 200 steps, in a network that was never run."""
    net = network(seed)
    mean = copy.deepcopy(net)
    seen = []

    @torch.no_grad()
    def add() -> None:
        seen.append(1)
        count = len(seen) - 100
        for kept, new in zip(mean.parameters(), net.parameters(), strict=True):
            if count > 0:
                kept += (new - kept) / count

    fit(net, digits, order(seed), rate=0.5, after=add)
    return mean


def one_kind(seed: int, digits: Digits, steps: int = 300) -> Iterable[np.ndarray]:
    """Batches of 64 digits of one kind, each time another."""
    rng = np.random.default_rng(seed)
    kinds = [np.flatnonzero(digits[1].numpy() == kind) for kind in range(10)]
    for _ in range(steps):
        yield rng.choice(kinds[rng.integers(10)], 64)


def plain(
    seed: int, digits: Digits, *, size=64, steps=300, rate=0.1, parts=1, **options
) -> nn.Module:
    batches = order(seed, size, steps)
    return fit(network(seed, **options), digits, batches, rate=rate, parts=parts)


# Why evaluation can be worse, and a network with that reason alone: (seed, digits) → network.
CAUSES: dict[str, Callable[[int, Digits], nn.Module]] = {
    "none": plain,
    "slow averages": lambda seed, d: plain(seed, d, momentum=0.001),
    "another library's momentum": lambda seed, d: plain(seed, d, size=8, momentum=0.99),
    "averaged weights": average_weights,
    "batches of one kind": lambda s, d: fit(network(s), d, one_kind(s, d), rate=0.1),
    "batches of two": lambda seed, d: plain(seed, d, size=2, steps=1500, rate=0.02),
    "pairs, accumulated": lambda seed, d: plain(seed, d, size=16, parts=8),
    "dropout": lambda seed, d: plain(seed, d, dropout=0.5),
}
