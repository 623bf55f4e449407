"""Does batch norm improve performance? Errors on new digits, with batch norm and without a norm,
each network at the rate that is best for just this on other seeds."""

import numpy as np
import torch
from torch import nn

from normbook.lab import data, networks, training
from normbook.lab.data import Split
from normbook.lab.networks import Pair
from normbook.lab.trials import Trial
from normlib.layers import batch_norm, batch_norm_backward

STEPS, SAMPLES = 300, 64
PAIRS: dict[str, Pair] = {
    "none": (networks.no_norm, networks.no_norm_backward),
    "batch": (batch_norm, batch_norm_backward),
}


def by_dense(digits: Split, depth: int, norm: str, order: list, rate: float, seed: int) -> float:
    """The share of errors of a network with hidden layers of 64 units. Batch norm has the
    statistics of all training digits; a net that is no number any more is wrong everywhere."""
    start = networks.dense((*[64] * (depth + 1), 10), np.random.default_rng([seed, 0]))
    gradient = networks.gradient(digits.x_train, digits.labels_train, PAIRS[norm])
    with np.errstate(all="ignore"):
        _, net = training.train(start, gradient, order, rate)
        if not all(np.isfinite(value).all() for value in net.values()):
            return 1.0
        by = PAIRS[norm][0]
        if norm == "batch":
            by = networks.at_inference(networks.statistics(net, digits.x_train))
        return 1 - networks.accuracy(net, digits.x_test, digits.labels_test, by)


def convolutions(depth: int, norm: str, channels: int = 8) -> nn.Sequential:
    """As in the map of `where_it_helps`: 3×3, every third one in steps of 2, weights as He et al.
    2015, the mean over places, and a linear layer."""
    modules: list[nn.Module] = [nn.Unflatten(1, (1, 8, 8))]
    for i in range(depth):
        inputs, stride = (channels if i else 1), (2 if i % 3 == 1 else 1)
        layer = nn.Conv2d(inputs, channels, 3, stride, padding=1, bias=norm == "none")
        nn.init.normal_(layer.weight, std=(2 / (9 * inputs)) ** 0.5)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
        modules += [layer, *([nn.BatchNorm2d(channels)] if norm == "batch" else []), nn.ReLU()]
    last = nn.Linear(channels, 10)
    nn.init.normal_(last.weight, std=channels**-0.5)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*modules, nn.AdaptiveAvgPool2d(1), nn.Flatten(), last).double()


def by_conv(digits: Split, depth: int, norm: str, order: list, rate: float, seed: int) -> float:
    """As `by_dense`."""
    torch.manual_seed(seed)
    net = convolutions(depth, norm)
    _ = training.train_torch(net, digits.x_train, digits.labels_train, order, rate=rate)
    for module in net:
        if isinstance(module, nn.BatchNorm2d):
            module.reset_running_stats()
            module.momentum = None  # the plain average, of one batch: all training digits
    with torch.no_grad():
        net.train()(torch.tensor(digits.x_train))
        answers = net.eval()(torch.tensor(digits.x_test)).argmax(dim=1).numpy()
    return float(np.mean(answers != digits.labels_test))


TRAIN = {"dense": by_dense, "conv": by_conv}
WORDS = {
    ("dense", 2): "2 dense layers",
    ("dense", 6): "6 dense layers",
    ("dense", 20): "20 dense layers",
    ("conv", 4): "4 convolutions",
}


def share(net: str, depth: int, norm: str, rate: float, seed: int) -> float:
    """The share of errors. Each seed splits the digits anew."""
    rng = np.random.default_rng(seed)
    digits = data.digits(rng)
    order = list(training.batches(len(digits.x_train), SAMPLES, STEPS, rng))
    return TRAIN[net](digits, depth, norm, order, rate, seed)


# By the mean share of errors on the new digits of the seeds 0 to 2, from factors of 2; no neighbour
# did better. Without a norm and with batch norm.
RATES = {
    ("dense", 2): (1 / 2, 1 / 2),
    ("dense", 6): (1 / 4, 1 / 4),
    ("dense", 20): (1 / 64, 1 / 4),
    ("conv", 4): (1.0, 2.0),
}
HALF = 50 / 360  # half an error of the 360 test digits, of a hundred


def compare(seed: int) -> dict[str, float]:
    """For each network: the errors in a hundred of both arms; how many fewer batch norm makes; and
    the logarithm of their quotient, to both of which half an error is added, since a network may
    make none."""
    found: dict[str, float] = {}
    for (net, depth), rates in RATES.items():
        name = WORDS[net, depth]
        plain, normed = (
            100 * share(net, depth, norm, rate, seed)
            for norm, rate in zip(PAIRS, rates, strict=True)
        )
        found |= {f"{name}, plain": plain, f"{name}, batch norm": normed}
        found[f"{name}, fewer"] = plain - normed
        found[f"{name}, share"] = float(np.log((plain + HALF) / (normed + HALF)))
    return found


# A tenth of the errors less, the bound of the map for a loss. The map's bound for errors, one of a
# hundred, is most of what a shallow network makes of them here; what it says is shown beside.
# Inside are twenty dense layers and four convolutions, each, as the map has them; two and six dense
# layers are shown. Outside is the map's own transformer with the norm before its branches, on its
# ten seeds, which is not trained again here.
FEWER = Trial(compare, seeds=range(32000, 32020), bounds={"001-97": 0.0953})
