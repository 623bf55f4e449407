"""Is a deep net easier to set up with batch norm? Dense ReLU nets on digits, at nine settings."""

import numpy as np

from normbook.lab import data, networks, training
from normbook.lab.data import Split
from normbook.lab.networks import Pair
from normbook.lab.trials import Trial
from normlib.layers import batch_norm, batch_norm_backward

BATCH: Pair = batch_norm, batch_norm_backward
NONE: Pair = networks.no_norm, networks.no_norm_backward
# Batch norm without its division: the same shift, no normalized scale.
CENTRE: Pair = (
    lambda z, gamma, beta: networks.no_norm(z - z.mean(axis=0), gamma, beta),
    lambda dy, cache: (
        gamma_part(dy, cache) - gamma_part(dy, cache).mean(axis=0),
        *networks.no_norm_backward(dy, cache)[1:],
    ),
)
GAINS, RATES = (0.5, 1.0, 2.0), (0.01, 0.1, 1.0)  # of the weights, times He's; of the descent


def gamma_part(dy: np.ndarray, cache: tuple) -> np.ndarray:
    return networks.no_norm_backward(dy, cache)[0]


def last_loss(
    digits: Split, norm: Pair, depth: int, gain: float, rate: float, seed: int, steps: int = 100
) -> float:
    """The mean loss of the last 10 steps; inf for a net that broke down."""
    rng = np.random.default_rng(seed)
    net = networks.dense((64, *[32] * depth, 10), rng)
    net = {name: gain * value if name[0] == "w" else value for name, value in net.items()}
    order = training.batches(len(digits.x_train), 64, steps, rng)
    gradient = networks.gradient(digits.x_train, digits.labels_train, norm)
    with np.errstate(all="ignore"):
        losses, _ = training.train(net, gradient, order, rate)
    last = losses[-10:].mean()
    return float(last) if np.isfinite(last) else np.inf


def share(
    digits: Split, norm: Pair, depth: int, seed: int, rates: tuple = RATES, steps: int = 100
) -> float:
    """The share of the settings at which a net learns: below half the loss of guessing."""
    settings = [(gain, rate) for gain in GAINS for rate in rates]
    found = [last_loss(digits, norm, depth, *each, seed, steps) for each in settings]
    return float(np.mean([loss < np.log(10) / 2 for loss in found]))


def shares(seed: int) -> dict[str, float]:
    """How many more of the nine settings work at 12 layers than without a norm, and of the three
    rates at 60 layers."""
    digits = data.digits(np.random.default_rng(seed))
    alone = share(digits, NONE, 12, seed)
    deep = [
        np.mean([last_loss(digits, norm, 60, 1.0, rate, seed) < np.log(10) / 2 for rate in RATES])
        for norm in (BATCH, NONE)
    ]
    return {
        "no norm": alone,
        "batch norm": share(digits, BATCH, 12, seed) - alone,
        "centred only": share(digits, CENTRE, 12, seed) - alone,
        "batch norm, 60 layers": float(deep[0] - deep[1]),
    }


# What would matter: a third of the settings more, one learning rate or one size of the weights.
DEEPER = Trial(shares, seeds=range(8140, 8150), bounds={"003-90": 0.333})


FINER = tuple(0.01 * 2.0 ** np.arange(8))  # to 1.28


def shares_of_more(seed: int) -> dict[str, float]:
    """The same at 12 layers with four times the steps, at rates that double."""
    digits = data.digits(np.random.default_rng(seed))
    alone, normed = (share(digits, norm, 12, seed, FINER, 400) for norm in (NONE, BATCH))
    return {"no norm": alone, "batch norm": normed - alone}


# In 100 steps what works is what is fast, and factors of ten between rates can miss the one that
# works: in DEEPER hardly any setting works without a norm. The bound is that of DEEPER, which
# decides; if this trial says otherwise, the claim is not decided.
LONGER = Trial(shares_of_more, seeds=range(10700, 10710), bounds={"003-90": 0.333})
