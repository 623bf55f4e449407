"""A trained network with batch norm, of torch's modules: judged and trained on in every mode."""

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import BatchNorm1d, Sequential
from torch.nn.functional import batch_norm, cross_entropy
from torch.nn.utils.fusion import fuse_linear_bn_eval
from torch.optim.swa_utils import update_bn

from normbook.lab import networks, training
from normbook.lab.data import Split, digits
from normlib.layers import update_running

RATE = 0.3
STEPS = 200
ONE_BATCH = (slice(None),)


class Trained(NamedTuple):
    digits: Split
    untrained: Sequential
    net: Sequential  # the same after STEPS batches, in evaluation mode
    order: list[np.ndarray]  # the rows of those batches, and of 100 more


def train_network(seed: int) -> Trained:
    """A net with batch norm in its two hidden layers of 64 units, trained on digits."""
    rng, split = np.random.default_rng(seed), digits(np.random.default_rng(0), "raw")
    untrained = networks.torch_twin(networks.dense((64, 64, 64, 10), rng))
    order = list(training.batches(len(split.x_train), 64, STEPS + 100, rng))
    net = copy.deepcopy(untrained)
    train(net, split, order[:STEPS])
    return Trained(split, untrained, net.eval(), order)


def train(net: Sequential, split: Split, order: Sequence, rate: float = RATE) -> list[float]:
    """In place, in the mode that the net is in; returns the losses."""
    return training.train_torch(net, split.x_train, split.labels_train, order, rate=rate)


def accuracy(
    net: Callable, x: np.ndarray, labels: np.ndarray, batches: Iterable = ONE_BATCH
) -> float:
    """The share of right answers if these rows are asked together, in the mode that the net is in.

    A copy answers: in training mode answers move the statistics.
    """
    net, right = copy.deepcopy(net), []
    with torch.no_grad():
        for rows in batches:
            right.append(net(torch.tensor(x[rows])).argmax(dim=1).numpy() == labels[rows])
    return float(np.mean(np.concatenate(right)))


def split(rows: np.ndarray, size: int) -> list[np.ndarray]:
    """These rows in batches of this size, or a little more."""
    return np.array_split(rows, max(1, len(rows) // size))


def alike(labels: np.ndarray, size: int) -> list[np.ndarray]:
    """All rows in such batches, each of a single label."""
    return [rows for label in set(labels) for rows in split(np.flatnonzero(labels == label), size)]


def norms(net: Sequential) -> list[BatchNorm1d]:
    return [module for module in net if isinstance(module, BatchNorm1d)]


def fresh(net: Sequential) -> Sequential:
    """A copy with the statistics of a new net, 0 and 1."""
    net = copy.deepcopy(net)
    for norm in norms(net):
        norm.reset_running_stats()
    return net


def with_statistics_of(net: Sequential, x: np.ndarray) -> Sequential:
    """A copy with the statistics of these samples."""
    net = copy.deepcopy(net)
    update_bn([torch.tensor(x)], net)
    return net


def elsewhere(net: Sequential, split: Split) -> dict[str, Sequential]:
    """Copies with statistics that are not those of the training data."""
    x, zeros = split.x_train, split.labels_train == 0
    return {
        "fresh (μ = 0, σ² = 1)": fresh(net),
        "from images of '0' only": with_statistics_of(net, x[zeros]),
        "from 8 images": with_statistics_of(net, x[:8]),
    }


def fold(net: Sequential) -> Sequential:
    """A copy with each batch norm put into the linear layer before it."""
    modules: list[torch.nn.Module] = []
    for module in copy.deepcopy(net).eval():
        if isinstance(module, BatchNorm1d):
            module = fuse_linear_bn_eval(modules.pop(), module)
        modules.append(module)
    return Sequential(*modules)


def stretch(net: Sequential) -> list[float]:
    """(γ r)² of each norm, averaged over its units: by how much more a step of the weights before
    it moves the folded weights, than a step of these would."""
    pairs = ((norm.weight**2, norm.running_var + norm.eps) for norm in norms(net))
    return [(square / var).mean().item() for square, var in pairs]


def with_batch(net: Sequential, statistic: str, x: torch.Tensor) -> torch.Tensor:
    """The answers if each norm takes one statistic, "mean" or "var", from the batch."""
    for module in net:
        if isinstance(module, BatchNorm1d):
            stored = {"mean": module.running_mean, "var": module.running_var}
            batch = {"mean": x.mean(dim=0), "var": x.var(dim=0, correction=0)}
            given = stored | {statistic: batch[statistic]}
            affine = module.weight, module.bias
            x = batch_norm(x, given["mean"], given["var"], *affine, eps=module.eps)
        else:
            x = module(x)
    return x


def refuses(layer: torch.nn.Module, x: torch.Tensor) -> bool:
    """Whether torch finds too few values in x to normalize it."""
    try:
        layer(x)
    except ValueError as error:
        return "more than 1 value per channel" in str(error)
    return False


def records_batch_norm(layer: torch.nn.Module, x: torch.Tensor) -> bool:
    """Whether the graph that torch exports normalizes by the batch."""
    nodes = torch.export.export(layer, (x.detach(),)).graph.nodes
    (norm,) = (node for node in nodes if "batch_norm" in str(node.target))
    return norm.args[5]


def running_means(batches: Sequence[np.ndarray], momentum: float) -> np.ndarray:
    """The running mean after each batch, started at 0."""
    channels, path = batches[0].shape[1], []
    pair = np.zeros(channels), np.ones(channels)
    for batch in batches:
        pair = update_running(*pair, batch, momentum=momentum)
        path.append(pair[0])
    return np.array(path)


def follow_accuracy(net: Sequential, split: Split, order: Sequence, momentum: float) -> list[float]:
    """The accuracy after every five steps of training, by the running statistics so far."""
    net, found = copy.deepcopy(net), []
    for norm in norms(net):
        norm.momentum = momentum
    for first in range(0, len(order), 5):
        train(net.train(), split, order[first : first + 5])
        found.append(accuracy(net.eval(), split.x_test, split.labels_test))
    return found


def accumulate_gradient(net: Sequential, split: Split, rows: np.ndarray, parts: int) -> np.ndarray:
    """The gradient of the first weights, accumulated over equal parts of a batch."""
    net = copy.deepcopy(net)
    for part in np.split(rows, parts):
        x, labels = torch.tensor(split.x_train[part]), torch.tensor(split.labels_train[part])
        (cross_entropy(net(x), labels) / parts).backward()
    return net[0].weight.grad.numpy()


def unlike_the_whole(net: Sequential, split: Split, rows: np.ndarray, parts: int) -> float:
    """The distance of that gradient from the one of the whole batch, relative to it."""
    whole, summed = (accumulate_gradient(net, split, rows, count) for count in (1, parts))
    return float(np.abs(summed - whole).max() / np.abs(whole).max())


def fine_tune(
    net: Sequential, split: Split, order: Sequence, rates: Sequence[float]
) -> dict[str, list[float]]:
    """The mean loss of the last ten steps of training on, at each rate: with batch norm in training
    mode, with frozen statistics, and folded."""
    in_training, frozen = copy.deepcopy(net).train(), copy.deepcopy(net).eval()
    starts = {"training mode": in_training, "frozen statistics": frozen, "folded": fold(net)}
    return {
        name: [np.mean(train(copy.deepcopy(start), split, order, r)[-10:]) for r in rates]
        for name, start in starts.items()
    }


def refusal(call: Callable, x: torch.Tensor) -> str:
    """What torch says when it refuses, or nothing."""
    try:
        call(x)
    except RuntimeError as error:
        return str(error)
    return ""
