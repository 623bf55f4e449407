"""Noise behind a norm, as in Santurkar et al. (2018)."""

import itertools
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from normbook.lab import data, deep, networks, training
from normbook.lab.data import Split
from normbook.lab.networks import Norm, Params
from normbook.lab.trials import Trial
from normlib.layers import batch_norm


class Strength(NamedTuple):
    """The constants of the paper, as transcribed."""

    n_mean: float = 0.5
    n_scale: float = 1.25
    r_mean: float = 0.1
    r_scale: float = 0.1


PAPER = Strength()


def draw(
    samples: int, units: int, rng: np.random.Generator, strength: Strength = PAPER
) -> tuple[Tensor, Tensor]:
    """A factor and a shift for each sample and unit, (samples, units).

    mean ~ U(-n_mean, n_mean) and scale ~ U(1, n_scale) once for each unit, then for each sample
    shift ~ U(mean - r_mean, mean + r_mean) and factor ~ N(scale, r_scale²).
    """
    n_mean, n_scale, r_mean, r_scale = strength
    mean = rng.uniform(-n_mean, n_mean, units)
    scale = rng.uniform(1, n_scale, units)
    shift = mean + rng.uniform(-r_mean, r_mean, (samples, units))
    factor = scale + r_scale * rng.standard_normal((samples, units))
    return torch.tensor(factor), torch.tensor(shift)


def noisy(norm: Norm, rng: np.random.Generator, strength: Strength = PAPER) -> Norm:
    """The norm, and behind it noise that is drawn anew at every call: for every layer and step."""

    def with_noise(z: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, None]:
        factor, shift = draw(*z.shape, rng, strength)
        return factor * norm(z, gamma, beta)[0] + shift, None

    return with_noise


def stationary(norm: Norm, rng: np.random.Generator, strength: Strength) -> Norm:
    """The same noise without the shift: each sample draws the mean and the scale that `draw` gives
    to a whole unit, so that every entry has noise of the same size, and no distribution moves from
    step to step more than its samples do."""

    def with_noise(z: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, None]:
        factor, shift = (part.reshape(z.shape) for part in draw(1, z.numel(), rng, strength))
        return factor * norm(z, gamma, beta)[0] + shift, None

    return with_noise


def silenced(norm: Norm, strength: Strength = PAPER) -> Norm:
    """The norm with the noise at its mean: no shift, and the factor that every layer has learned
    with. Without that factor the last layer would be judged at 8/9 of its usual outputs."""
    factor = (1 + strength.n_scale) / 2
    return lambda z, gamma, beta: (factor * norm(z, gamma, beta)[0], None)


def at_last(norm: Norm, quiet: Norm, layers: int) -> Norm:
    """One norm in the last of so many layers, another in those below."""
    following = itertools.cycle([quiet] * (layers - 1) + [norm])
    return lambda z, gamma, beta: next(following)(z, gamma, beta)


def in_deviations(rng: np.random.Generator) -> Norm:
    """No norm, and noise whose shift is measured in the deviations of each unit: as large for the
    signal as it is behind batch norm."""

    def with_noise(z: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, None]:
        factor, shift = draw(*z.shape, rng)
        y = networks.no_norm(z, gamma, beta)[0]
        return factor * y + shift * y.detach().std(dim=0), None

    return with_noise


def prepare(
    digits: Split, *, norm: str, noise: bool, layers: int, seed: int, strength: Strength = PAPER
) -> tuple[Params, Norm]:
    """A ReLU net with this many hidden layers of 50 units, and its norm, "plain" or "batch",
    or "plain, deviations" for noise in deviations of the units."""
    quiet, rng = silence(norm, False), np.random.default_rng(1000 + seed)
    used = noisy(quiet, rng, strength) if noise else quiet
    if noise and norm.endswith("deviations"):
        used = in_deviations(rng)
    return deep.dense((digits.x_train.shape[1], *[50] * layers, 10), seed), used


def silence(norm: str, noise: bool) -> Norm:
    """What judges a net of `prepare`: its norm, in a noisy net with the noise at its mean."""
    quiet = {"plain": networks.no_norm, "batch": batch_norm}[norm.removesuffix(", deviations")]
    return silenced(quiet) if noise else quiet


def follow(
    digits: Split, *, norm: str, noise: bool, layers: int, rate: float, seed: int, steps: int
) -> dict[str, float | None]:
    """Train on batches of 128; how it ended, to six decimals.

    loss: the mean of the last 20 batches, with the noise; None if it is not finite.
    accuracy: on the test digits with the noise, and quiet: the same with the noise at its mean.
    """
    params, used = prepare(digits, norm=norm, noise=noise, layers=layers, seed=seed)
    order = training.batches(len(digits.x_train), 128, steps, np.random.default_rng(seed))
    loss = deep.cross_entropy_loss(used, digits.x_train, digits.labels_train)
    losses, params = training.train(params, deep.gradient(loss), order, rate)
    test = torch.tensor(digits.x_test), torch.tensor(digits.labels_test)
    end = losses[-20:].mean()
    return {
        "loss": round(end, 6) if np.isfinite(end) else None,
        "accuracy": round(networks.accuracy(params, *test, used), 6),
        "quiet": round(networks.accuracy(params, *test, silence(norm, noise)), 6),
    }


# What chapters/noisy-batch-norm.ipynb and the trials of its claims look at.

NETS = {
    "plain": ("plain", False),
    "batch norm": ("batch", False),
    "noisy batch norm": ("batch", True),
    "plain + noise": ("plain", True),
    "plain + noise in deviations": ("plain, deviations", True),
}
PROBE = 256  # digits that are sent through the net before every step
GUESSING = float(np.log(10))  # the loss of whoever guesses among ten digits


def layer_inputs(
    digits: Split, net: str, *, rate: float, seed: int, steps: int, layers: int = 5, layer: int = 2
) -> np.ndarray:
    """What enters one layer, counted from 0, before every step, with that step's noise: (steps,
    samples, units)."""
    norm, noise = NETS[net]
    setting = {"norm": norm, "noise": noise, "layers": layers, "seed": seed}
    (params, used), (_, look) = (prepare(digits, **setting) for _ in range(2))
    order = training.batches(len(digits.x_train), 128, steps, np.random.default_rng(seed))
    loss = deep.cross_entropy_loss(used, digits.x_train, digits.labels_train)
    walk = training.walk(params, deep.gradient(loss), order, rate)
    probe = torch.tensor(digits.x_train[:PROBE])
    return np.array([networks.hidden(m.before, probe, look)[layer].y.numpy() for m in walk])


def jumps(values: np.ndarray) -> tuple[float, float]:
    """How far the mean of a unit moves from one step to the next, in deviations, and how far the
    logarithm of its deviation: medians over steps and units of (steps, samples, units)."""
    mean, deviation = values.mean(axis=1), values.std(axis=1) + 1e-12
    moved = np.abs(np.diff(mean, axis=0)) / deviation[1:]
    return float(np.median(moved)), float(np.median(np.abs(np.diff(np.log(deviation), axis=0))))


class End(NamedTuple):
    """How a training ended, measured with the noise at its mean."""

    loss: float  # on all training digits, at most that of guessing
    train: float  # the accuracies
    test: float


def end(
    digits: Split, net: str, *, layers: int, rate: float, seed: int, order_seed: object = None
) -> End:
    """Train one of NETS for 200 steps. `order_seed` draws the batches, else the seed does."""
    norm, noise = NETS[net]
    params, used = prepare(digits, norm=norm, noise=noise, layers=layers, seed=seed)
    silent, drawn = silence(norm, noise), seed if order_seed is None else order_seed
    return judge(digits, params, used, silent, rate, drawn)


def judge(
    digits: Split, params: Params, used: Norm, silent: Norm, rate: float, order_seed: object
) -> End:
    """Train for 200 steps with one norm, and judge with another, whose noise is silenced."""
    rng = np.random.default_rng(order_seed)
    order = training.batches(len(digits.x_train), 128, 200, rng)
    loss = deep.cross_entropy_loss(used, digits.x_train, digits.labels_train)
    _, params = training.train(params, deep.gradient(loss), order, rate)
    quiet = deep.cross_entropy_loss(silent, digits.x_train, digits.labels_train)
    found = quiet(params, slice(None)).item()
    parts = (digits.x_train, digits.labels_train), (digits.x_test, digits.labels_test)
    right = [networks.accuracy(params, *map(torch.tensor, part), silent) for part in parts]
    return End(min(found, GUESSING) if np.isfinite(found) else GUESSING, *right)


# The trials. All nets are judged by one measure, the training loss with the noise at its mean. In
# an earlier version the noise was left out when they were judged, its factor with it, of mean 9/8:
# a net that was trained with the constant factor, and with no noise, was then 1.45 times worse.
# So all five trials were set up again, on seeds that nobody had looked at, with the former bounds.
# (Seen before, of SHIFTING on its former seeds with the factor kept: moving 0.91 and at rest 1.40
# behind all norms, 0.73 and 0.71 behind the last; the shift alone 1.06 and 1.58, 0.89 and 0.87.
# The constant factor lowers the loss by itself, to 0.8, so the shift alone is the clean test.)


RATES = tuple(2.0 ** np.arange(-4, 1))  # from 0.06 to 1


def best(digits: Split, net: str, rates: tuple = RATES, **setting) -> End:
    """The end with the lowest loss: every net gets its own rate."""
    return min(end(digits, net, rate=rate, **setting) for rate in rates)


def further_and_better(digits: Split, net: str, rate: float, seed: int) -> float:
    """By which factor a net of five layers moves its inputs farther than the plain one, and by
    which its loss is lower: the logarithm of the smaller factor. Mean and deviation must both
    move farther."""
    walks = (layer_inputs(digits, n, rate=rate, seed=seed, steps=100) for n in (net, "plain"))
    moved, plain = (np.array(jumps(values)) for values in walks)
    losses = (end(digits, n, layers=5, rate=rate, seed=seed).loss for n in ("plain", net))
    return float(min(*np.log(moved / plain), np.log(np.divide(*losses))))


def shallow(seed: int) -> dict[str, float]:
    """Five hidden layers."""
    digits, five = data.digits(np.random.default_rng(seed)), {"layers": 5, "seed": seed}
    nets = "plain", "plain + noise", "batch norm", "noisy batch norm"
    ends = {net: best(digits, net, **five) for net in nets}
    again = best(digits, "batch norm", order_seed=[seed, 2], **five)
    fair = min(RATES, key=lambda rate: end(digits, "plain", rate=rate, **five).loss)
    normed, shaken = ends["batch norm"], ends["noisy batch norm"]
    logs = {net: np.log(found.loss) for net, found in ends.items()}
    lead = logs["plain"] - logs["batch norm"]
    return {
        "further and better": further_and_better(digits, "noisy batch norm", fair, seed),
        "further and better, batch norm": further_and_better(digits, "batch norm", fair, seed),
        "further and better, 0.03": further_and_better(digits, "noisy batch norm", 0.03, seed),
        "log loss": logs["noisy batch norm"] - logs["batch norm"],
        "log loss, other batches": np.log(again.loss) - logs["batch norm"],
        "accuracy": min(shaken.train - normed.train, shaken.test - normed.test),
        "accuracy, plain": ends["plain + noise"].test - ends["plain"].test,
        "lead": lead,
        "kept": logs["plain"] - logs["noisy batch norm"],
        "share of guessing": ends["plain + noise"].loss / GUESSING,
    }


def deeper(seed: int) -> dict[str, float]:
    """Twelve hidden layers, each net at its best rate. lead and half of it kept: the lead of batch
    norm over the plain net in log loss, or by how much more than half of it is kept with the
    noise, whichever is smaller."""
    digits, twelve = data.digits(np.random.default_rng(seed)), {"layers": 12, "seed": seed}
    rates = (2.0**-6, 2.0**-5, *RATES)
    ends = {net: best(digits, net, rates, **twelve) for net in NETS}
    logs = {net: float(np.log(found.loss)) for net, found in ends.items()}
    lead, kept = logs["plain"] - logs["batch norm"], logs["plain"] - logs["noisy batch norm"]
    normed, shaken = (
        end(digits, net, rate=0.01, **twelve) for net in ("batch norm", "noisy batch norm")
    )
    return {
        "share of guessing": ends["plain + noise"].loss / GUESSING,
        "share of guessing, in deviations": ends["plain + noise in deviations"].loss / GUESSING,
        "share of guessing, quiet": ends["plain"].loss / GUESSING,
        "lead": lead,
        "kept": kept,
        "lead and half of it kept": min(lead, kept - lead / 2),
        "plain with noise instead": min(lead, logs["plain"] - logs["plain + noise"] - lead / 2),
        "accuracy": ends["noisy batch norm"].test - ends["batch norm"].test,
        "accuracy, 0.01": min(shaken.train - normed.train, shaken.test - normed.test),
    }


# santurkar2018-3: both factors more than 1.1, a tenth. 001-11: the loss not half as high again.
# 001-60: less than one digit in a hundred lost. Each net has its own best rate, but for
# santurkar2018-3, which is judged at the best rate of the plain net.
SHALLOW = Trial(
    shallow,
    seeds=range(35000, 35010),
    bounds={"santurkar2018-3": 0.0953, "001-11": 0.405, "001-60": -0.01},
)
# santurkar2018-4: a net trains if it gets below half of the loss of guessing. 000-60: batch norm
# leads, and more than half of its lead in log loss is kept with the noise. It is judged here
# because five layers leave batch norm little lead on centred inputs.
DEEPER = Trial(deeper, seeds=range(35020, 35030), bounds={"santurkar2018-4": 0.5, "000-60": 0.0})


def same_rate(seed: int) -> dict[str, float]:
    """Five hidden layers: the logarithm of the loss with the noise over that without it, both at
    the same rate, the mean over three rates; and the same for batch norm on other batches."""
    digits = data.digits(np.random.default_rng(seed))

    def logs(net: str, order_seed: object = None) -> np.ndarray:
        setting = {"layers": 5, "seed": seed, "order_seed": order_seed}
        return np.log([end(digits, net, rate=rate, **setting).loss for rate in (0.03, 0.1, 0.3)])

    quiet = logs("batch norm")
    return {
        "log loss": float((logs("noisy batch norm") - quiet).mean()),
        "log loss, other batches": float((logs("batch norm", [seed, 2]) - quiet).mean()),
    }


# SHALLOW compares each net at its best rate. There the losses are so small, and differ so much
# from seed to seed, that its ten seeds left 001-11 undecided. The slide compares two nets that
# differ in nothing but the noise, so here both have the same rate. A tenth would matter, as on all
# of these pages.
SAME_RATE = Trial(same_rate, seeds=range(35040, 35050), bounds={"001-11": 0.0953})


NOISES = {"0.5": PAPER, "2": PAPER._replace(n_mean=2.0), "alone": Strength(0.5, 1.0, 0.0, 0.0)}


def log_losses(digits: Split, params: Params, seed: int, norm: Norm, silent: Norm) -> np.ndarray:
    """The logarithms of the losses at two rates, trained with one norm and judged with another."""
    ends = (judge(digits, params, norm, silent, rate, seed) for rate in (0.1, 0.3))
    return np.log([found.loss for found in ends])


def run_shifting(seed: int) -> dict[str, float]:
    """Five hidden layers with batch norm: the logarithm of the loss with noise over that without,
    the mean over two rates, for noise that moves the distribution of a unit from step to step and
    for noise of the same size that does not; behind all layers, and behind the last hidden layer
    only, where no later norm can take it back. by the shift: what the moving costs beyond that.
    The noise of the paper, with a shift four times as large, and the shift alone. factor: the
    constant mean of the factor and no noise, left out when the net is judged, or kept."""
    digits, found = data.digits(np.random.default_rng(seed)), {}
    params, quiet = prepare(digits, norm="batch", noise=False, layers=5, seed=seed)

    log_loss = partial(log_losses, digits, params, seed)
    base = log_loss(quiet, quiet)
    for place, layers in (("all", 1), ("last", 5)):
        for size, strength in NOISES.items():
            costs, silent = [], at_last(silenced(quiet, strength), quiet, layers)
            for kind in (noisy, stationary):
                rng = np.random.default_rng(1000 + seed)
                norm = at_last(kind(batch_norm, rng, strength), quiet, layers)
                costs.append(float((log_loss(norm, silent) - base).mean()))
            name = f"{place}, {size}"
            found |= {f"moving, {name}": costs[0], f"at rest, {name}": costs[1]}
            found[f"by the shift, {name}"] = costs[0] - costs[1]
        constant, same = (at_last(silenced(quiet), quiet, layers) for _ in range(2))
        for how, silent in (("left out", quiet), ("kept", same)):
            lost = log_loss(constant, silent) - base
            found[f"factor, {how}, {place}"] = float(lost.mean())
    return found


# The control for the word "stability": noise of the same size that leaves every distribution where
# it is. That the moving itself costs would be seen as a loss higher by a tenth.
SHIFTING = Trial(run_shifting, seeds=range(35060, 35070), bounds={"control": 0.0953})


def run_weakened(seed: int) -> dict[str, float]:
    """The shift of SHIFTING alone, behind all norms and behind the first four of five: moving, at
    rest, and at rest with half of the mean square, which is what the next norm leaves of moving
    noise behind a ReLU that passes half of the samples. The logarithms of the loss with the noise
    over that without, the mean over two rates. alike: the weakened noise less the moving one."""
    digits, found = data.digits(np.random.default_rng(seed)), {}
    params, quiet = prepare(digits, norm="batch", noise=False, layers=5, seed=seed)

    log_loss = partial(log_losses, digits, params, seed)
    base, alone = log_loss(quiet, quiet), NOISES["alone"]
    weak = alone._replace(n_mean=alone.n_mean * 0.5**0.5)
    kinds = {"moving": (noisy, alone), "at rest": (stationary, alone), "weak": (stationary, weak)}
    for place in ("all", "first four"):
        for name, (kind, strength) in kinds.items():
            shaken = kind(batch_norm, np.random.default_rng(1000 + seed), strength)
            # of five norms the last stays quiet, or none
            norm = shaken if place == "all" else at_last(quiet, shaken, 5)
            found[f"{name}, {place}"] = float((log_loss(norm, quiet) - base).mean())
        found[f"alike, {place}"] = found[f"weak, {place}"] - found[f"moving, {place}"]
    return found


# Whether what is left of a noise is what it costs. Alike is less than a tenth apart. (Seen before,
# on six seeds: weak 1.05 and moving 0.98 behind all norms, 1.05 and 1.10 behind the first four.)
WEAKENED = Trial(run_weakened, seeds=range(35100, 35110), bounds={"control": 0.0953})


# DEEPER ended its rates at 1, where batch norm was at its best, and did not look at the movement
# of the inputs. Both are put right here. The plain net is at its best between 0.06 and 0.125, batch
# norm between 0.5 and 2, and noisy batch norm at 0.5 or 1 (seeds 0 to 3).
WIDER = {
    "plain": tuple(2.0 ** np.arange(-5, -1)),
    "batch norm": tuple(2.0 ** np.arange(-2, 3)),
    "noisy batch norm": tuple(2.0 ** np.arange(-2, 2)),
}


def twelve(seed: int) -> dict[str, float]:
    """Twelve hidden layers, each net at its best rate, at which the movement of its inputs in 100
    steps is measured too: how much farther than in the plain net, as the logarithm of the smaller
    factor of mean and deviation, in the third and in the last layer. further and better: the
    smaller of that in the third layer and of the lead in log loss."""
    digits, setting = data.digits(np.random.default_rng(seed)), {"layers": 12, "seed": seed}
    ends = {
        net: min((end(digits, net, rate=rate, **setting).loss, rate) for rate in rates)
        for net, rates in WIDER.items()
    }
    logs = {net: float(np.log(loss)) for net, (loss, _) in ends.items()}

    def farther(layer: int) -> float:
        moved, plain = (
            np.array(jumps(layer_inputs(digits, net, rate=ends[net][1], steps=100, **at)))
            for net in ("noisy batch norm", "plain")
            for at in [setting | {"layer": layer}]
        )
        return float(np.log(moved / plain).min())

    lead, kept = logs["plain"] - logs["batch norm"], logs["plain"] - logs["noisy batch norm"]
    third = farther(2)
    return {
        "lead": lead,
        "kept": kept,
        "lead and half of it kept": min(lead, kept - lead / 2),
        "third layer": third,
        "last layer": farther(11),
        "further and better": min(third, kept),
    }


# The bounds of SHALLOW and of DEEPER.
TWELVE = Trial(twelve, seeds=range(35080, 35090), bounds={"santurkar2018-3": 0.0953, "000-60": 0.0})
