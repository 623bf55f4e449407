"""The training loop, one for all nets of this book.

All that `walk` asks for is a gradient: a function (params, rows) → loss, gradients. Which layer
normalizes is decided there. `networks.gradient` goes through this book's backward, in NumPy;
`deep.gradient` through torch's autograd. Parameters and their gradients are dictionaries with the
same names, of arrays or of tensors. Nothing is changed in place.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch

Params = dict[str, Any]
Gradient = Callable[[Params, Any], tuple[float, Params]]
Stretch = tuple[int, list[int]]  # the steps that a training takes, and those that it was to take
STRETCH: ContextVar[Stretch | None] = ContextVar("STRETCH", default=None)


@contextmanager
def stretch(steps: int) -> Iterator[list[int]]:
    """Within it every training ends after so many steps. Yields how many each was to take.

    Training is chaotic: processors that round differently agree on its beginning, not on its end.
    """
    asked: list[int] = []
    token = STRETCH.set((steps, asked))
    try:
        yield asked
    finally:
        STRETCH.reset(token)


def cut_to_stretch(order: Iterable) -> Iterable:
    """The batches that a training takes: all of them, or within a `stretch` the first few."""
    if (within := STRETCH.get()) is None:
        return order
    steps, asked = within
    everything = list(order)
    asked.append(len(everything))
    return islice(everything, steps)


def batches(samples: int, size: int, steps: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Indices of `steps` batches: shuffled anew each time the data is used up."""
    order = rng.permutation(samples)
    for _ in range(steps):
        if len(order) < size:
            order = rng.permutation(samples)
        batch, order = order[:size], order[size:]
        yield batch


def sgd(
    params: Params, slopes: Params, rate: float, state: None = None, *, decay: float = 0.0
) -> tuple[Params, None]:
    """One step of SGD without momentum, with weight decay. It has no state."""
    keep = 1 - rate * decay
    return {name: keep * value - rate * slopes[name] for name, value in params.items()}, None


def momentum(
    params: Params, slopes: Params, rate: float, state: Params | None, *, decay: float = 0.0
) -> tuple[Params, Params]:
    """One step of SGD with momentum 0.9. As in PyTorch, the decay goes through the momentum."""
    old = state or dict.fromkeys(params, 0.0)
    speed = {n: 0.9 * old[n] + slopes[n] + decay * value for n, value in params.items()}
    return sgd(params, speed, rate)[0], speed


def adam(
    params: Params, slopes: Params, rate: float, state: tuple | None, *, decay: float = 0.0
) -> tuple[Params, tuple]:
    """One step of Adam (Kingma and Ba 2015) with its usual constants; with a decay, of AdamW
    (Loshchilov and Hutter 2019), whose decay goes past the moments."""
    step, m, v = state or (0, dict.fromkeys(params, 0.0), dict.fromkeys(params, 0.0))
    step += 1
    m = {name: 0.9 * m[name] + 0.1 * slopes[name] for name in params}
    v = {name: 0.999 * v[name] + 0.001 * slopes[name] * slopes[name] for name in params}
    unbiased = {n: (m[n] / (1 - 0.9**step), (v[n] / (1 - 0.999**step)) ** 0.5) for n in params}
    moves = {name: mean / (root + 1e-8) for name, (mean, root) in unbiased.items()}
    return sgd(params, moves, rate, decay=decay)[0], (step, m, v)


class Moment(NamedTuple):
    """One step of training."""

    rows: Any  # the batch
    loss: float  # before the step
    before: Params
    slopes: Params
    after: Params


def walk(
    params: Params,
    gradient: Gradient,
    order: Iterable,
    rate: float,
    *,
    update: Callable = sgd,
    frozen: Collection[str] = (),
) -> Iterator[Moment]:
    """Every step of training, for whoever wants to look at it. The parameters named in `frozen`
    stay. `order` holds the batches; wrap it in tqdm for a progress bar."""
    state = None
    for rows in cut_to_stretch(order):
        loss, slopes = gradient(params, rows)
        moving = {name: value for name, value in params.items() if name not in frozen}
        moved, state = update(moving, slopes, rate, state)
        after = params | moved
        yield Moment(rows, loss, params, slopes, after)
        params = after


def train(
    params: Params, gradient: Gradient, order: Iterable, rate: float, **options
) -> tuple[np.ndarray, Params]:
    """The loss before each step of `walk`, and the parameters after the last."""
    losses = []
    for moment in walk(params, gradient, order, rate, **options):
        losses.append(moment.loss)
        params = moment.after
    return np.array(losses), params


def train_torch(
    net: torch.nn.Module, x: np.ndarray, labels: np.ndarray, order: Iterable, *, rate: float
) -> list[float]:
    """Train a torch module in place; returns the losses.

    A witness of `train`, and so it shares nothing with it: modules, loss, gradients and optimizer
    are torch's own.
    """
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    losses = []
    for rows in cut_to_stretch(order):
        loss = torch.nn.functional.cross_entropy(
            net(torch.tensor(x[rows])), torch.tensor(labels[rows])
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
