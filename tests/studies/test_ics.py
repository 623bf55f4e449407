"""Definition 2.1 on a net small enough to differentiate by hand."""

import numpy as np
import torch

from normbook.lab import deep, networks, training
from normbook.studies import ics

RATE, X, Y = 0.05, 1.5, 0.4
START = {"w0": [[0.7]], "gamma0": [1.2], "beta0": [0.3], "w_out": [[-0.8]], "bias": [0.1]}


def moment_and_loss():
    """The first step of (w_out h + bias - y)², where h = gamma (x w) + beta."""
    params = {name: torch.tensor(value, dtype=torch.float64) for name, value in START.items()}
    task = deep.Task(*(torch.full((1, 1), v, dtype=torch.float64) for v in (X, Y)))
    loss = deep.squared_loss(networks.no_norm, task)
    return next(training.walk(params, deep.gradient(loss), [slice(None)], RATE)), loss


def by_hand():
    """G and G' of w_out: 2 (w_out h + bias - y) h, before and after the layer below has moved."""
    w, gamma, beta, out, bias = (np.ravel(value)[0] for value in START.values())
    gap = out * (gamma * X * w + beta) + bias - Y
    moved = [
        value - RATE * 2 * gap * out * slope
        for value, slope in ((w, gamma * X), (gamma, X * w), (beta, 1))
    ]
    units = gamma * X * w + beta, moved[1] * X * moved[0] + moved[2]
    return [2 * (out * h + bias - Y) * h for h in units]


def test_the_shift_is_that_of_definition_2_1():
    moment, loss = moment_and_loss()
    shift = ics.shift_of_gradient(moment, loss, 1)
    before, after = by_hand()
    ours = shift.before.item(), shift.after.item(), shift.difference, shift.relative, shift.cosine
    gap = abs(before - after)
    theirs = before, after, gap, gap / abs(before), np.sign(before * after)
    assert np.allclose(ours, theirs, rtol=1e-12)
