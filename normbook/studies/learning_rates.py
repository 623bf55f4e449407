"""Measure the loss after 100 steps on digits, by learning rate and size of the initial weights."""

import numpy as np

from normbook.lab import deep, training
from normbook.lab.data import Split
from normbook.lab.networks import Norm, Params
from normbook.studies import landscape

RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
FACTORS = (0.1, 0.2, 0.41, 1.0, 2.0, 4.0, 10.0)
NETS = ("without", "layer norm", "batch norm")


def resize(params: Params, factor: float) -> Params:
    """All matrices times a factor, that of the output too."""
    return {n: factor * v if n[0] == "w" else v for n, v in params.items()}


def end(digits: Split, norm: Norm, rate: float, factor: float, seed: int) -> float:
    """The mean loss of the last 20 of 100 steps, or no number if training broke off."""
    params, loss, batches = landscape.digits_problem(digits, norm, seed, 100)
    start, gradient = resize(params, factor), deep.gradient(loss)
    losses, _ = training.train(start, gradient, batches, rate)
    return float(np.mean(losses[-20:]))
