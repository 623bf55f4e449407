"""Where normalization helps: small nets of several kinds, with a norm and without, each trained at
its own best rate.

A cell of the map is a `Setting`. All of its nets are trained at once, as one stack of parameters
under `torch.func.vmap`; a net in the stack does not feel the others. First every rate of a grid of
factor 2 is tried on the seeds CHOOSING; then fresh seeds are trained at the best of these rates,
and only they are reported. What differs between two cells of a column is the norm alone: weights,
batches and data of a seed are the same.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap
from torch.nn import functional

from normbook.lab import data, networks, training
from normbook.lab.data import Split
from normbook.lab.networks import Norm, Params
from normbook.lab.trials import FOLDER, Trial, digest
from normlib.layers import batch_norm, group_norm, layer_norm, rms_norm

STEPS, SAMPLES = 300, 64
CHOOSING, SEEDS = range(3), range(8000, 8010)
RATES = {  # SGD from 0.008 to 4, with momentum a quarter of that, Adam from 0.0001 to 0.06
    "sgd": 2.0 ** np.arange(-7, 3),
    "momentum": 2.0 ** np.arange(-9, 1),
    "adam": 2.0 ** np.arange(-13, -3),
}
UPDATES = {"sgd": training.sgd, "momentum": training.momentum, "adam": training.adam}


class Setting(NamedTuple):
    """A cell of the map."""

    task: str  # "digits", "fashion" or "text"
    net: str  # "dense", "skip", "conv", "pre" or "post"
    depth: int  # hidden layers, convolutions, or blocks of a transformer
    inputs: str  # "raw", "centred" or "standardized"; "" for text
    optimizer: str
    norm: str


# Norms: functions (z, gamma, beta) → y, cache. The features of z are its axis 1. Those that look
# over the batch take the statistics of the first `known` samples, of all if it is None.


def affine(z: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    shape = (1, -1, *[1] * (z.ndim - 2))
    return gamma.reshape(shape) * z + beta.reshape(shape)


def over_batch(centre: bool, divide: bool, known: int | None) -> Norm:
    """Batch norm, or one half of it: its centring or its division."""

    def norm(z: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, None]:
        if centre and divide and known is None:
            return batch_norm(z, gamma, beta)[0], None
        axes = (0, *range(2, z.ndim))
        var, mean = torch.var_mean(z[:known], axes, correction=0, keepdim=True)
        moved = z - mean if centre else z
        scaled = moved / (var + 1e-5).sqrt() if divide else moved
        return affine(scaled, gamma, beta), None

    return norm


def over_features(z: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, None]:
    """Layer norm; of a convolution over all channels and places, as is usual."""
    if z.ndim > 2:
        return group_norm(z, gamma, beta, groups=1)[0], None
    return layer_norm(z, gamma, beta)[0], None


def norm_of(kind: str, known: int | None = None) -> Norm:
    """A norm by its name, in training or with the statistics of the first `known` samples."""
    return {
        "none": lambda z, gamma, beta: (affine(z, gamma, beta), None),
        "centring": over_batch(True, False, known),
        "dividing": over_batch(False, True, known),
        "batch": over_batch(True, True, known),
        "layer": over_features,
        "RMS": lambda z, gamma, beta: (rms_norm(z, gamma)[0] + beta, None),
        "group": lambda z, gamma, beta: (group_norm(z, gamma, beta, groups=4)[0], None),
    }[kind]


# Nets: functions (params, x, norm) → logits, and their weights, of variance 2 / inputs (He et al.
# 2015) before a ReLU and 1 / inputs elsewhere.


def dense(params: Params, x: Tensor, norm: Norm) -> Tensor:
    return networks.forward(params, x, norm)[0]


def skip(params: Params, x: Tensor, norm: Norm) -> Tensor:
    """Dense layers that are added to their inputs, divided by the root of their number: the usual
    remedy without a norm, given to all."""
    depth = networks.depth(params)
    for i in range(depth):
        z = x @ params[f"w{i}"]
        y = torch.relu(norm(z, params[f"gamma{i}"], params[f"beta{i}"])[0])
        x = x + y / depth**0.5 if i else y
    return x @ params["w_out"] + params["bias"]


def conv(params: Params, x: Tensor, norm: Norm) -> Tensor:
    """Convolutions 3×3 on 14×14 pixels, every third one in steps of 2, and the mean over places."""
    x = x.reshape(-1, 1, 14, 14)
    for i in range(networks.depth(params)):
        z = functional.conv2d(x, params[f"w{i}"], stride=2 if i % 3 == 1 else 1, padding=1)
        x = torch.relu(norm(z, params[f"gamma{i}"], params[f"beta{i}"])[0])
    return x.mean(dim=(2, 3)) @ params["w_out"] + params["bias"]


def conv_weights(depth: int, rng: np.random.Generator, channels: int = 8) -> Params:
    params: Params = {}
    for i in range(depth):
        inputs = channels if i else 1
        w = rng.standard_normal((channels, inputs, 3, 3)) * np.sqrt(2 / (9 * inputs))
        params |= {f"w{i}": w, f"gamma{i}": np.ones(channels), f"beta{i}": np.zeros(channels)}
    out = rng.standard_normal((channels, 10)) / np.sqrt(channels)
    return params | {"w_out": out, "bias": np.zeros(10)}


WIDTH, LENGTH, LETTERS = 32, 32, 91


def attention(params: Params, i: int, x: Tensor) -> Tensor:
    """Each character attends to itself and those before it, in one head."""
    q, k, v = (x @ params[f"{name}{i}"] for name in ("q", "k", "v"))
    ahead = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    scores = (q @ k.mT / WIDTH**0.5).masked_fill(ahead, -torch.inf)
    return scores.softmax(dim=-1) @ v @ params[f"o{i}"]


def two_layers(params: Params, i: int, x: Tensor) -> Tensor:
    return torch.relu(x @ params[f"in{i}"]) @ params[f"out{i}"]


def transformer(params: Params, x: Tensor, norm: Norm, *, post: bool) -> Tensor:
    """Blocks of attention and two dense layers, with the norm before each branch, or after the
    sum. The branches are divided by the root of their number, with a norm and without."""
    branches = 2 * sum(name.startswith("q") for name in params)

    def normed(j: int, x: Tensor) -> Tensor:
        z = x.reshape(-1, WIDTH)  # every character is a sample
        return norm(z, params[f"gamma{j}"], params[f"beta{j}"])[0].reshape(x.shape)

    x = params["embed"][x] + params["place"]
    for j in range(branches):
        branch = (attention, two_layers)[j % 2]
        if post:
            x = normed(j, x + branch(params, j // 2, x) / branches**0.5)
        else:
            x = x + branch(params, j // 2, normed(j, x)) / branches**0.5
    return (x if post else normed(branches, x)) @ params["w_out"]


def transformer_weights(depth: int, rng: np.random.Generator) -> Params:
    def matrix(inputs: int, outputs: int, gain: float = 1.0) -> np.ndarray:
        return rng.standard_normal((inputs, outputs)) * np.sqrt(gain / inputs)

    params: Params = {
        "embed": rng.standard_normal((LETTERS, WIDTH)) / 2,
        "place": rng.standard_normal((LENGTH, WIDTH)) / 2,
        "w_out": matrix(WIDTH, LETTERS),
    }
    for i in range(depth):
        params |= {f"{name}{i}": matrix(WIDTH, WIDTH) for name in ("q", "k", "v", "o")}
        params |= {f"in{i}": matrix(WIDTH, 4 * WIDTH), f"out{i}": matrix(4 * WIDTH, WIDTH, 2.0)}
    for j in range(2 * depth + 1):
        params |= {f"gamma{j}": np.ones(WIDTH), f"beta{j}": np.zeros(WIDTH)}
    return params


NETS: dict[str, Callable] = {
    "dense": dense,
    "skip": skip,
    "conv": conv,
    "pre": lambda params, x, norm: transformer(params, x, norm, post=False),
    "post": lambda params, x, norm: transformer(params, x, norm, post=True),
}


def load(setting: Setting) -> Split:
    """The data, the same for all seeds."""
    rng = np.random.default_rng(0)
    if setting.task == "text":
        return data.text(rng, length=LENGTH)
    return {"digits": data.digits, "fashion": data.fashion}[setting.task](rng, setting.inputs)


def weights(setting: Setting, split: Split, seed: int) -> Params:
    rng = np.random.default_rng(seed)
    if setting.net == "conv":
        return conv_weights(setting.depth, rng)
    if setting.net in ("pre", "post"):
        return transformer_weights(setting.depth, rng)
    return networks.dense((split.x_train.shape[1], *[64] * setting.depth, 10), rng)


# Many nets at once.


def kind_of(net: str) -> torch.dtype:
    """Float32 for convolutions and attention, which are slow in float64."""
    return torch.float64 if net in ("dense", "skip") else torch.float32


def stack(nets: list[Params], dtype: torch.dtype) -> Params:
    both = {name: np.array([net[name] for net in nets]) for name in nets[0]}
    return {name: torch.tensor(value, dtype=dtype) for name, value in both.items()}


def tensor(x: np.ndarray, net: str) -> Tensor:
    """Inputs; characters stay whole numbers."""
    return torch.tensor(x, dtype=kind_of(net) if x.dtype == float else None)


def cross_entropies(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean of each net, (nets,); logits (nets, …, classes)."""
    each = functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="none")
    return each.reshape(len(logits), -1).mean(dim=1)


def orders(split: Split, seeds: list[int], steps: int = STEPS) -> Iterator[np.ndarray]:
    """The batches of all nets, (nets, samples) a step."""
    samples = SAMPLES if split.x_train.dtype == float else 8  # pieces of text
    each = [
        training.batches(len(split.x_train), samples, steps, np.random.default_rng([seed, 1]))
        for seed in seeds
    ]
    return map(np.array, zip(*each, strict=True))


def gradient(setting: Setting, split: Split) -> Callable:
    """The losses of all nets, each on its own batch, and their gradients."""
    net, norm = NETS[setting.net], norm_of(setting.norm)
    x, labels = tensor(split.x_train, setting.net), torch.tensor(split.labels_train)
    forward = vmap(lambda params, batch: net(params, batch, norm))

    def by_autograd(params: Params, rows: np.ndarray) -> tuple[Tensor, Params]:
        free = {name: value.detach().requires_grad_() for name, value in params.items()}
        losses = cross_entropies(forward(free, x[rows]), labels[rows])
        slopes = torch.autograd.grad(losses.sum(), [*free.values()], allow_unused=True)
        found = zip(free, slopes, strict=True)
        return losses.detach(), {n: torch.zeros_like(free[n]) if s is None else s for n, s in found}

    return by_autograd


def one_rate_each(update: Callable, rates: Tensor) -> Callable:
    """A rule of descent in which every net has its own rate."""

    def step(params: Params, slopes: Params, _: Any, state: Any) -> tuple[Params, Any]:
        moved, state = update(params, slopes, 1.0, state)
        shaped = {n: rates.reshape(-1, *[1] * (value.ndim - 1)) for n, value in params.items()}
        return {n: value + shaped[n] * (moved[n] - value) for n, value in params.items()}, state

    return step


class Ends(NamedTuple):
    """How the trainings of a stack of nets ended, each (nets,)."""

    loss: np.ndarray  # on all training data, with their statistics
    errors: np.ndarray  # on the test data, with the statistics of the training data: in a hundred
    steps: np.ndarray  # until the mean of 20 losses is below half of that of guessing


def judge(setting: Setting, split: Split, params: Params) -> tuple[np.ndarray, np.ndarray]:
    """The loss and the errors of each net, without a gradient. Training and test data go through
    the nets together, and what looks over the batch takes its statistics from the former."""
    count, characters = len(split.x_train), LENGTH if setting.task == "text" else 1
    net, norm = NETS[setting.net], norm_of(setting.norm, count * characters)
    x = tensor(np.concatenate([split.x_train, split.x_test]), setting.net)
    known, asked = torch.tensor(split.labels_train), torch.tensor(split.labels_test)
    losses, errors = [], []
    with torch.no_grad():
        for i in range(len(params["w_out"])):
            logits = net({name: value[i] for name, value in params.items()}, x, norm)
            losses.append(cross_entropies(logits[None, :count], known).item())
            errors.append((logits[count:].argmax(dim=-1) != asked).double().mean().item())
    return np.array(losses), 100 * np.array(errors)


def train(setting: Setting, split: Split, seeds: list[int], rates: np.ndarray) -> Ends:
    """Train a net for each pair of a seed and a rate."""
    dtype = kind_of(setting.net)
    params = stack([weights(setting, split, seed) for seed in seeds], dtype)
    update = one_rate_each(UPDATES[setting.optimizer], torch.tensor(rates, dtype=dtype))
    order, history = orders(split, seeds), []
    for moment in training.walk(params, gradient(setting, split), order, 0.0, update=update):
        history.append(moment.loss.numpy())
        params = moment.after
    guess = np.log(params["w_out"].shape[-1])
    window = min(20, len(history))
    sums = np.cumsum(np.vstack([np.zeros(len(seeds)), *history]), axis=0)
    low = (sums[window:] - sums[:-window]) / window < guess / 2
    first = np.where(low.any(axis=0), low.argmax(axis=0) + window, np.inf)
    loss, errors = judge(setting, split, params)
    return Ends(loss, errors, first)


def measure(setting: Setting, seeds: range = SEEDS) -> dict[str, Any]:
    """A cell of the map: which rates learn on the seeds CHOOSING, the best of them, and what the
    fresh seeds give there.

    A loss above that of guessing, or none, counts as guessing. tried: the mean logarithm of the
    loss at each rate of the grid. learns: at how many of them a net gets below half of the loss of
    guessing on most of the seeds.
    """
    split, rates = load(setting), RATES[setting.optimizer]
    pairs = [(seed, rate) for rate in rates for seed in CHOOSING]
    tried_seeds, tried_rates = zip(*pairs, strict=True)
    ends = train(setting, split, [*tried_seeds], np.array(tried_rates))
    guess = np.log(LETTERS if setting.task == "text" else 10)
    losses = np.fmin(ends.loss, guess).reshape(len(rates), -1)
    tried = np.log(losses).mean(axis=1)
    best = float(rates[tried.argmin()])
    found = train(setting, split, [*seeds], np.full(len(seeds), best))
    return {
        "tried": tried.tolist(),
        "learns": int((np.median(losses, axis=1) < guess / 2).sum()),
        "rate": best,
        "log loss": np.log(np.fmin(found.loss, guess)).tolist(),
        "errors": found.errors.tolist(),
        "steps": [float(n) if np.isfinite(n) else None for n in found.steps],
    }


NORMS = "none", "centring", "dividing", "batch", "layer", "RMS"
CONV_NORMS = "none", "centring", "dividing", "batch", "layer", "group"


def settings() -> list[Setting]:
    """All cells, those that most depends on first."""
    dense = [("digits", "dense", d, i, "sgd") for d in (2, 6, 12, 20) for i in ("raw", "centred")]
    rest = [("digits", "skip", 20, "centred", "sgd")]
    rest += [("fashion", "dense", 6, inputs, "sgd") for inputs in ("centred", "raw")]
    rest += [("digits", "dense", 6, "centred", "adam")]
    text = [("text", net, 4, "", "adam") for net in ("pre", "post")]
    every = [Setting(*column, norm) for column in dense for norm in NORMS]
    conv = [("fashion", "conv", 4, inputs, "sgd") for inputs in ("centred", "raw")]
    every += [Setting(*column, norm) for column in conv for norm in CONV_NORMS]
    every += [Setting(*column, norm) for column in rest for norm in NORMS]
    every += [
        Setting(*column, norm) for column in text for norm in ("none", "batch", "layer", "RMS")
    ]
    more = [(task, "dense", 6, "standardized", "sgd") for task in ("digits", "fashion")]
    more += [("digits", "dense", depth, "centred", "momentum") for depth in (6, 20)]
    every += [Setting(*column, norm) for column in more for norm in NORMS]
    conv = [("fashion", "conv", 4, "centred", "momentum"), ("fashion", "conv", 8, "centred", "sgd")]
    every += [Setting(*column, norm) for column in conv for norm in CONV_NORMS]
    deep = [
        ("digits", "skip", 20, "centred", "momentum"),
        ("digits", "dense", 20, "centred", "adam"),
    ]
    return every + [Setting(*column, norm) for column in deep for norm in NORMS]


# A norm helps in a cell, or does harm, if the interval of its lead over the same net without one
# lies beyond a tenth, as on the other pages: the logarithm of the quotient of the losses, and one
# error in a hundred.
MATTERS = {"log loss": 0.0953, "errors": 1.0}
# What is begun again with one seed: a column of each net that float64 and shipped data allow.
BEGUN = [
    Setting("digits", net, depth, "centred", "sgd", norm)
    for net, depth in (("dense", 6), ("skip", 20))
    for norm in NORMS
]


def begin() -> dict[str, float]:
    """The losses of these cells after six steps with the first seed, at the rate 0.125."""
    with training.stretch(6):
        found = {s: train(s, load(s), [SEEDS[0]], np.array([0.125])).loss for s in BEGUN}
    return {" ".join(map(str, setting)): float(loss[0]) for setting, loss in found.items()}


def load_map() -> dict[str, Any]:
    """The map as tools/trials.py wrote it.

    Errors: ValueError if it is not what was written, or was run with other seeds.
    """
    kept = json.loads((FOLDER / "MAP.json").read_text("utf-8"))
    if kept["digest"] != digest(kept) or kept["found"]["seed"] != [*SEEDS]:
        raise ValueError(
            "MAP: expected the numbers that tools/trials.py wrote, got others; restore the file, "
            "or run python tools/trials.py MAP"
        )
    return kept


def cells() -> dict[Setting, dict[str, Any]]:
    return {Setting(*setting): cell for setting, cell in load_map()["found"]["cells"]}


def lead(cell: dict, without: dict, what: str = "log loss") -> np.ndarray:
    """By how much a cell is better than the same without a norm, seed by seed."""
    return np.subtract(without[what], cell[what])


# Does batch norm let networks train faster? The loss after the same number of steps says so, of
# each net at the rate that is its best one in the map, which was chosen on other seeds. As there, a
# loss above that of guessing, or none, counts as guessing.


def log_loss(cell: Setting, seed: int, rate: float) -> float:
    ends = train(cell, load(cell), [seed], np.array([rate]))
    return float(np.log(np.fmin(ends.loss[0], np.log(10))))


def faster(seed: int) -> dict[str, float]:
    """By how much batch norm lowers the logarithm of the loss, in three columns of the map."""
    known, found = cells(), {}
    for depth, inputs in ((6, "raw"), (2, "centred"), (6, "centred")):
        pair = [Setting("digits", "dense", depth, inputs, "sgd", n) for n in ("none", "batch")]
        plain, normed = (log_loss(cell, seed, known[cell]["rate"]) for cell in pair)
        found[f"{depth} layers, {inputs}"] = plain - normed
    return found


FASTER = Trial(faster, seeds=range(9360, 9372), bounds={"003-85": MATTERS["log loss"]})


# And is it the larger rate by which they do? Two things have to be so: that batch norm leads, each
# net at its own best rate of the map, and that it is slower at the best rate of the plain net.


def by_larger_rates(seed: int) -> dict[str, float]:
    """In four columns of the map, by how much the logarithm of the loss is lower with batch norm at
    its best rate than without at its own (lead), and than with batch norm at the best rate of the
    plain net (added). both: the smaller of the two."""
    known, found = cells(), {}
    for depth, inputs in ((6, "raw"), (6, "centred"), (12, "centred"), (20, "centred")):
        none, batch = (
            Setting("digits", "dense", depth, inputs, "sgd", n) for n in ("none", "batch")
        )
        rates = {cell: known[cell]["rate"] for cell in (none, batch)}
        plain, held = (log_loss(cell, seed, rates[none]) for cell in (none, batch))
        normed = log_loss(batch, seed, rates[batch])
        column = f"{depth} layers, {inputs}"
        found |= {f"lead, {column}": plain - normed, f"added, {column}": held - normed}
        found[f"both, {column}"] = min(plain, held) - normed
    return found


# What the map lets expect: both in twenty layers, where the plain net breaks off early, and neither
# in six on centred inputs, where the two best rates are the same. The bound is that of the map.
LARGER = Trial(by_larger_rates, seeds=range(9940, 9956), bounds={"001-15": MATTERS["log loss"]})


# What carries the lead, network by network? One set of seeds for all that "Why batch normalization
# works" says: its nets at all ten rates. What is compared are the ends at the best rates of the
# map, and those of batch norm at the best rate of the plain net.

COMPARED = {
    ("dense", 6, "raw", "sgd"): ("none", "centring", "dividing", "batch"),
    ("dense", 6, "centred", "sgd"): ("none", "batch"),
    ("dense", 20, "centred", "sgd"): ("none", "centring", "dividing", "batch", "RMS"),
    ("skip", 20, "centred", "sgd"): ("none", "centring", "dividing", "batch", "RMS"),
    ("dense", 20, "centred", "momentum"): ("none", "batch"),
    ("dense", 20, "centred", "adam"): ("none", "batch"),
}


def at_each_rate(seed: int) -> dict[str, float]:
    """The logarithm of the loss at each rate, and the errors at the best one of the map, of the
    nets COMPARED."""
    found = {}
    for column, norms in COMPARED.items():
        rates = RATES[column[-1]]
        for norm in norms:
            cell = Setting("digits", *column, norm)
            name = f"{row_of(column)}, {norm}"
            ends = train(cell, load(cell), [seed] * len(rates), rates)
            losses = np.log(np.fmin(ends.loss, np.log(10)))
            found |= {f"{name}, {k}": float(loss) for k, loss in enumerate(losses)}
            found[f"errors, {name}"] = float(ends.errors[best_rate(column, norm)])
    return found


# Ten seeds, fresh ones. Expected from the map: in six layers on raw pixels batch norm and its
# centring lead, and no less does the plain net on centred ones. In twenty layers batch norm leads
# at its own rate and not at the plain net's, and each half leads. With skip connections it leads at
# one rate for both; its centring and RMSNorm lead, its division does not. With momentum or Adam it
# does not. The bound is that of the map.
COMPARISON = Trial(at_each_rate, seeds=range(25360, 25370), bounds={"control": MATTERS["log loss"]})


def best_rate(column: tuple, norm: str) -> int:
    """Where the best rate of the map stands among the ten."""
    rate = cells()[Setting("digits", *column, norm)]["rate"]
    return int(abs(np.log(RATES[column[-1]] / rate)).argmin())


def ends_at(column: tuple, norm: str) -> np.ndarray:
    """What COMPARISON found: the logarithm of the loss, (rates, seeds)."""
    name, found = f"{row_of(column)}, {norm}", COMPARISON.results
    return np.array([found[f"{name}, {k}"] for k in range(len(RATES[column[-1]]))])


def end_of(column: tuple, norm: str, rate_of: str | None = None) -> np.ndarray:
    """The same at the best rate of the norm, or of the norm `rate_of`: (seeds,)."""
    return ends_at(column, norm)[best_rate(column, rate_of or norm)]


def shared(column: tuple, norm: str, seed: int) -> np.ndarray:
    """What all samples share of the inputs of each norm, before training: the squares of the means
    over the samples, summed over the units, divided by the mean squares, (layers,)."""
    cell, found = Setting("digits", *column, norm), []

    def seen(z: Tensor, gamma: Tensor, beta: Tensor) -> tuple:
        found.append((z.mean(dim=0).square().sum() / z.square().mean(dim=0).sum()).item())
        return norm_of(norm)(z, gamma, beta)

    split = load(cell)
    start = {n: torch.tensor(value) for n, value in weights(cell, split, seed).items()}
    NETS[cell.net](start, tensor(split.x_train, cell.net), seen)
    return np.array(found)


# Is the loss less steep with batch norm? The largest curvature on all training digits, of nets on
# their way: all of a column are trained at the best rate of its plain net, since the curvature
# follows the rate, until the loss is near 1. Seen before, with one seed: 24 for six plain layers on
# raw pixels, 2.1 for the centring and 2.3 for batch norm; 66, 33 and 29 in twenty layers, and 96
# for RMSNorm; with skip connections 3, 6, 15 and 6.
STEEP = dict([*COMPARED.items()][:4])  # those by plain SGD


def on_its_way(cell: Setting, split: Split, seed: int) -> Params:
    """The parameters of a net, at the plain net's best rate, when the mean of ten losses is first
    below 1."""
    plain = cells()[cell._replace(norm="none")]["rate"]
    rate = torch.tensor([plain], dtype=kind_of(cell.net))
    params = stack([weights(cell, split, seed)], kind_of(cell.net))
    way = training.walk(
        params,
        gradient(cell, split),
        orders(split, [seed], PATIENCE),
        0.0,
        update=one_rate_each(training.sgd, rate),
    )
    last = deque[float](maxlen=10)
    for moment in way:
        last.append(float(moment.loss[0]))
        params = moment.after
        if len(last) == 10 and np.mean(last) < 1:
            break
    return {name: value[0] for name, value in params.items()}


def largest_curvature(cell: Setting, split: Split, params: Params, times: int = 30) -> float:
    """The eigenvalue of the Hessian that is largest in size, by power iteration."""
    net, norm = NETS[cell.net], norm_of(cell.norm)
    x, labels = tensor(split.x_train, cell.net), torch.tensor(split.labels_train)
    free = {name: value.detach().requires_grad_() for name, value in params.items()}
    loss = functional.cross_entropy(net(free, x, norm), labels)
    options = {"allow_unused": True, "materialize_grads": True}
    slopes = torch.autograd.grad(loss, [*free.values()], create_graph=True, **options)
    direction, found = [torch.ones_like(slope) for slope in slopes], 0.0
    for _ in training.cut_to_stretch(range(times)):
        length = sum((d * d).sum() for d in direction) ** 0.5
        direction = [d / length for d in direction]
        along = sum((s * d).sum() for s, d in zip(slopes, direction, strict=True))
        bent = torch.autograd.grad(along, [*free.values()], retain_graph=True, **options)
        found = sum((b * d).sum() for b, d in zip(bent, direction, strict=True)).item()
        direction = [b.detach() for b in bent]
    return found


def steepest(seed: int) -> dict[str, float]:
    """The largest curvature of the nets of STEEP, and the loss on all training digits there."""
    found = {}
    for column, norms in STEEP.items():
        for norm in norms:
            cell = Setting("digits", *column, norm)
            split, name = load(cell), f"{row_of(column)}, {norm}"
            params = on_its_way(cell, split, seed)
            found[f"curvature, {name}"] = largest_curvature(cell, split, params)
            batch = {n: value[None] for n, value in params.items()}
            rows = np.arange(len(split.x_train))[None]
            found[f"loss, {name}"] = float(gradient(cell, split)(batch, rows)[0][0])
    return found


# Ten seeds, fresh ones. A tenth would be seen. The division was added after the rest had been seen.
STEEPEST = Trial(steepest, seeds=range(25400, 25410), bounds={"control": MATTERS["log loss"]})


# How soon has a network learned? That is another question: batch norm can be there sooner and yet
# end with the higher loss. Counted are the steps until the mean of ten losses is below a half of
# the loss of guessing, and below a tenth. A rate that is the best for one need not be it for the
# other, so each network has a rate for each level: of the ten of the map the quickest on the seeds
# CHOOSING, by the mean logarithm of the steps, where 300 are the most.

LEVELS, WINDOW, PATIENCE = (2, 10), 10, 1000
QUICKEST = {  # its rates to a half and to a tenth, without a norm and with batch norm
    ("dense", 2, "centred", "sgd"): ((1.0, 1.0), (0.5, 2.0)),
    ("dense", 6, "centred", "sgd"): ((0.25, 0.25), (1.0, 0.5)),
    ("dense", 6, "raw", "sgd"): ((0.125, 0.125), (1.0, 0.5)),
    ("skip", 20, "centred", "sgd"): ((0.125, 0.125), (0.25, 0.25)),
    ("dense", 6, "centred", "momentum"): ((2**-4, 2**-5), (0.25, 0.125)),
    ("dense", 6, "centred", "adam"): ((2**-6, 2**-7), (2**-5, 2**-6)),
    ("dense", 20, "centred", "adam"): ((2**-9, 2**-9), (2**-6, 2**-6)),
}


def steps_to(
    cell: Setting,
    split: Split,
    seeds: list[int],
    rates: np.ndarray,
    levels: np.ndarray,
    patience: int = PATIENCE,
) -> np.ndarray:
    """The steps of each net to a level of its own, (nets,); of one that is not there when patience
    ends, twice that."""
    dtype = kind_of(cell.net)
    params = stack([weights(cell, split, seed) for seed in seeds], dtype)
    update = one_rate_each(UPDATES[cell.optimizer], torch.tensor(rates, dtype=dtype))
    order = orders(split, seeds, patience)
    steps, last = np.full(len(seeds), 2.0 * patience), deque[np.ndarray](maxlen=WINDOW)
    way = training.walk(params, gradient(cell, split), order, 0.0, update=update)
    for count, moment in enumerate(way, 1):
        last.append(moment.loss.numpy())
        low = np.mean(last, axis=0) < np.log(10) / levels
        steps = np.where(low & (count >= WINDOW), np.minimum(steps, count), steps)
        if (steps <= patience).all():
            break
    return steps


def quickest(cell: Setting) -> list[float]:
    """A rate for each of LEVELS, as in QUICKEST."""
    rates, split = RATES[cell.optimizer], load(cell)
    seeds, each = zip(*[(seed, rate) for rate in rates for seed in CHOOSING], strict=True)
    found = []
    for level in LEVELS:
        levels = np.full(len(each), level)
        steps = steps_to(cell, split, [*seeds], np.array(each), levels, STEPS)
        found.append(float(rates[np.log(steps).reshape(len(rates), -1).mean(axis=1).argmin()]))
    return found


def learned(seed: int) -> dict[str, float]:
    """In each column of QUICKEST, and for each level: the steps without a norm and with batch norm,
    and two logarithms: of how many times as many steps the plain net takes (lead), and batch norm
    at the rate of the plain net (added). both: the smaller of the two."""
    found: dict[str, float] = {}
    for column, (plain_rates, rates) in QUICKEST.items():
        none, batch = (Setting("digits", *column, norm) for norm in ("none", "batch"))
        split, levels = load(none), np.array(LEVELS)
        plain = steps_to(none, split, [seed] * 2, np.array(plain_rates), levels)
        each = np.array([*rates, *plain_rates])
        normed, held = steps_to(batch, split, [seed] * 4, each, np.tile(levels, 2)).reshape(2, 2)
        for i, level in enumerate(LEVELS):
            name = f"{row_of(column)}, 1/{level}"
            lead, added = (float(np.log(n[i] / normed[i])) for n in (plain, held))
            found |= {f"plain, {name}": float(plain[i]), f"batch, {name}": float(normed[i])}
            found |= {f"lead, {name}": lead, f"added, {name}": added}
            found[f"both, {name}"] = min(lead, added)
    return found


def row_of(column: tuple) -> str:
    """A column of QUICKEST in words: "6 dense layers, centred, SGD"."""
    return row_name(("digits", *column)).removeprefix("digits, ")


# The lower level decides, a tenth. The bound is that of the map, here a tenth more steps. Whether
# batch norm is the quicker: six dense layers by SGD, with momentum and without, on centred inputs
# and on raw ones, and twenty with skip connections are the case inside, each of them; twenty dense
# layers with Adam are the one outside. Whether it is so by larger rates: inside are six dense
# layers by plain SGD, on centred inputs and on raw ones, where both have to be so, and outside
# again twenty with Adam, where the best rate with batch norm is the larger one, too. The rest is
# shown. Twenty steps are begun again, in which some of the nets get to the first level.
LEARNED = Trial(
    learned,
    seeds=range(25000, 25010),
    bounds={"003-85": MATTERS["log loss"], "001-15": MATTERS["log loss"]},
    stretch=20,
)


# What a page on one layer shows of the map: its own norm beside none.
DENSE = [(f"digits, {n} layers", ("digits", "dense", n, "centred", "sgd")) for n in (2, 6, 12, 20)]
PAIRED = {
    **dict(DENSE),
    "20 layers, momentum": ("digits", "dense", 20, "centred", "momentum"),
    "20 layers, Adam": ("digits", "dense", 20, "centred", "adam"),
    "20 layers, skip connections": ("digits", "skip", 20, "centred", "sgd"),
    "Fashion-MNIST, 4 convolutions": ("fashion", "conv", 4, "centred", "sgd"),
    "Fashion-MNIST, 8 convolutions": ("fashion", "conv", 8, "centred", "sgd"),
    "text, transformer": ("text", "pre", 4, "", "adam"),
}


def pairs(norm: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Errors in a hundred without a norm and with it, ten seeds each, by the network's name."""
    found = {setting: np.array(cell["errors"]) for setting, cell in cells().items()}
    both = {name: [Setting(*c, kind) for kind in ("none", norm)] for name, c in PAIRED.items()}
    return {n: (found[none], found[it]) for n, (none, it) in both.items() if it in found}


def column_name(column: tuple) -> str:
    """A column of the map in the words of its explorer: "digits dense 6 centred sgd"."""
    return " ".join(str(word) or "-" for word in column)


ROWS = {  # kinds of network in the words of the picture of the map, in the order of its rows
    "dense": "{} dense layers",
    "skip": "{} layers with skips",
    "conv": "{} convolutions",
    "pre": "{} blocks, norm before branches",
    "post": "{} blocks, norm after sums",
}


def row_name(column: tuple) -> str:
    task, net, depth, inputs, optimizer = column
    rule = {"sgd": "SGD", "adam": "Adam"}.get(optimizer, optimizer)
    return ", ".join(filter(None, (task, ROWS[net].format(depth), inputs, rule)))


def in_order(columns: list[tuple]) -> list[tuple]:
    """Columns of the map, those beside each other that differ in one thing."""
    kinds, rules = [*ROWS], [*RATES]
    return sorted(columns, key=lambda c: (c[0], kinds.index(c[1]), c[2], rules.index(c[4]), c[3]))


def explorer_lines() -> str:
    """All cells as _static/explorers/norms.js has them: three digits behind the point."""
    columns: dict[str, dict] = {}
    for setting, cell in cells().items():
        losses, errors = (np.round(cell[key], 3).tolist() for key in ("log loss", "errors"))
        row = [cell["rate"], cell["learns"], losses, errors]
        columns.setdefault(column_name(setting[:5]), {})[setting.norm] = row
    lines = (f'  "{name}": {json.dumps(column)},' for name, column in columns.items())
    return "const CELLS = {\n" + "\n".join(lines) + "\n};\n"
