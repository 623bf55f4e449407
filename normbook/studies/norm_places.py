"""A small transformer on real text; its norm, the place of the norm and the norm of queries and
keys are arguments. How much does the learning rate matter to it?

All rates of a grid of factor 2 are trained at once, as one stack of parameters (see
where_it_helps.py), by Adam with a warm-up. The sensitivity is that of Wortsman et al. (2023): the
mean over the grid of the loss less the best loss, where no loss counts as more than the first one.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from normbook.lab import training
from normbook.lab.data import Split
from normbook.lab.networks import Params
from normbook.lab.trials import Trial
from normbook.studies import where_it_helps as where
from normbook.studies.norms_in_language_models import PLACES
from normlib.layers import layer_norm, rms_norm

RATES = 2.0 ** np.arange(-10, 0)  # 0.001 to 0.5
WARM_UP, LAST = 30, 20  # steps: the rate grows over the first, the loss is the mean of the last
DEPTH, WIDTH = 4, where.WIDTH


class Arm(NamedTuple):
    """What differs between two transformers."""

    place: str = "pre"  # one of PLACES
    qk: bool = False  # whether queries and keys are normalized, each with a gain
    norm: str = "RMS"  # or "layer"


def normalize(kind: str, x: Tensor, gain: Tensor) -> Tensor:
    return rms_norm(x, gain)[0] if kind == "RMS" else layer_norm(x, gain, 0 * gain)[0]


def attention(params: Params, i: int, x: Tensor, arm: Arm) -> Tensor:
    """Each character attends to itself and those before it, in one head."""
    q, k, v = (x @ params[f"{name}{i}"] for name in ("q", "k", "v"))
    if arm.qk:
        q, k = (normalize(arm.norm, a, params[f"gain_{n}{i}"]) for n, a in (("q", q), ("k", k)))
    ahead = torch.ones(where.LENGTH, where.LENGTH, dtype=torch.bool).triu(1)
    scores = (q @ k.mT / WIDTH**0.5).masked_fill(ahead, -torch.inf)
    return scores.softmax(dim=-1) @ v @ params[f"o{i}"]


def logits(params: Params, x: Tensor, arm: Arm) -> Tensor:
    """The stream passes 2 · DEPTH branches; without a norm behind them they are divided by the
    root of their number, as in the map of where_it_helps.py."""
    place, x = PLACES[arm.place], params["embed"][x] + params["place"]
    shrink = 1.0 if arm.place in ("branch output", "both sides") else (2 * DEPTH) ** -0.5
    for j in range(2 * DEPTH):

        def branch(h: Tensor, j: int = j) -> Tensor:
            out = (
                where.two_layers(params, j // 2, h) if j % 2 else attention(params, j // 2, h, arm)
            )
            return shrink * out

        norms = [
            lambda h, n=n, j=j: normalize(arm.norm, h, params[f"{n}{j}"])
            for n in ("gamma", "behind")[: 1 + (arm.place == "both sides")]
        ]
        x = place(x, branch, *norms)
    if arm.place != "post":
        x = normalize(arm.norm, x, params[f"gamma{2 * DEPTH}"])
    return x @ params["w_out"]


def weights(seed: int, arm: Arm) -> Params:
    """The same for all arms, but for the gains that only some have. Gains behind a branch start at
    the factor by which the others divide it, so that all arms start with branches of one size."""
    params = where.transformer_weights(DEPTH, np.random.default_rng(seed))
    params = {name: p for name, p in params.items() if not name.startswith("beta")}
    if arm.place == "post":
        del params[f"gamma{2 * DEPTH}"]
    small = np.full(WIDTH, (2 * DEPTH) ** -0.5)
    if arm.place == "branch output":
        params |= {f"gamma{j}": small for j in range(2 * DEPTH)}
    if arm.place == "both sides":
        params |= {f"behind{j}": small for j in range(2 * DEPTH)}
    if arm.qk:
        params |= {f"gain_{n}{i}": np.ones(WIDTH) for n in "qk" for i in range(DEPTH)}
    return params


def gradient(split: Split, arm: Arm) -> Callable:
    """The losses of all nets on one batch, and their gradients."""
    x, labels = torch.tensor(split.x_train), torch.tensor(split.labels_train)
    forward = vmap(lambda params, batch: logits(params, batch, arm), in_dims=(0, None))

    def by_autograd(params: Params, rows: np.ndarray) -> tuple[Tensor, Params]:
        free = {name: value.detach().requires_grad_() for name, value in params.items()}
        losses = where.cross_entropies(
            forward(free, x[rows]), labels[rows].expand(len(RATES), -1, -1)
        )
        slopes = torch.autograd.grad(losses.sum(), [*free.values()])
        return losses.detach(), dict(zip(free, slopes, strict=True))

    return by_autograd


def warmed_up(params: Params, slopes: Params, _: Any, state: Any) -> tuple[Params, Any]:
    """A step of Adam in which every net has its own rate."""
    step = 1 + (state[0] if state else 0)
    rates = torch.tensor(RATES * min(1, step / WARM_UP))
    return where.one_rate_each(training.adam, rates)(params, slopes, None, state)


def losses(seed: int, arm: Arm) -> np.ndarray:
    """How training ends at each rate; what broke off, or is above the first loss, counts as it."""
    split = where.load(where.Setting("text", "pre", DEPTH, "", "adam", "RMS"))
    params = where.stack([weights(seed, arm)] * len(RATES), torch.float64)
    order = training.batches(len(split.x_train), 8, where.STEPS, np.random.default_rng([seed, 1]))
    walk = training.walk(params, gradient(split, arm), order, 0.0, update=warmed_up)
    history = np.array([moment.loss.numpy() for moment in walk])
    return np.fmin(history[-LAST:].mean(axis=0), history[0])


def sensitivity(ends: np.ndarray) -> np.ndarray:
    """Of losses (…, rates)."""
    return (ends - ends.min(axis=-1, keepdims=True)).mean(axis=-1)


ARMS = {
    "pre": Arm(),
    "pre, QK-norm": Arm(qk=True),
    "branch output": Arm("branch output"),
    "both sides": Arm("both sides"),
    "post": Arm("post"),
    "pre, layer norm": Arm(norm="layer"),
    "pre, layer norm, QK-norm": Arm(qk=True, norm="layer"),  # as in the paper
}
OTHER = 10**6  # added to a seed, for the control


def every_arm(seed: int) -> dict[str, float]:
    """The losses of all arms at all rates; as a control, the first arm with other weights and
    batches."""
    found = {name: losses(seed, arm) for name, arm in ARMS.items()}
    found["control"] = losses(seed + OTHER, ARMS["pre"])
    return {
        f"{name} {k}": float(ends[k]) for name, ends in found.items() for k in range(len(RATES))
    }


def ends_of(results: dict[str, np.ndarray], name: str) -> np.ndarray:
    """The losses of an arm, (seeds, rates)."""
    return np.stack([results[f"{name} {k}"] for k in range(len(RATES))], axis=1)


def less_sensitive(results: dict[str, np.ndarray], name: str, beside: str = "pre") -> np.ndarray:
    """The logarithm of the quotient of the sensitivities, seed by seed."""
    return np.log(sensitivity(ends_of(results, beside)) / sensitivity(ends_of(results, name)))


# A difference matters from a tenth on, as on the other pages.
SENSITIVE = Trial(
    every_arm,
    seeds=range(9400, 9410),
    bounds={"wortsman2023-1": 0.0953},
)
