"""Train the nets of a chapter and write normbook/data/NAME.json: python tools/trained.py NAME …

Each function makes the file of its name, on one core. What is not finite is stored as null.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy and torch read it

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import store
import torch
from store import kept
from tqdm import tqdm

from normbook.lab import data
from normbook.studies import (
    landscape,
    learning_rates,
    noisy_batch_norm,
    only_gamma_beta,
    spectral_norm,
)

DATA = Path(__file__).resolve().parents[1] / "normbook" / "data"


def each(*choices: Iterable) -> tqdm:
    """Every combination, with a bar that tells how far it got."""
    return tqdm([*itertools.product(*choices)], disable=None)


def digits(inputs: str = "centred") -> data.Split:
    return data.digits(np.random.default_rng(0), inputs)


def columns(names: Iterable[str], rows: Iterable[Iterable[float]]) -> dict[str, list[float]]:
    """The numbers of several seeds, by what they are, rounded to five decimals."""
    return {
        name: [round(float(value), 5) for value in column]
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }


def gamma_beta() -> dict:
    """chapters/only-gamma-beta: three parts at three depths, five more at four layers. A minute."""
    split, seeds, names = digits("raw"), (0, 1, 2, 3, 4), [*only_gamma_beta.PARTS]
    settings = [*itertools.product(names[:3], (2, 4, 8)), *((part, 4) for part in names[3:])]
    runs = []
    for part, depth in tqdm(settings):
        trained = [only_gamma_beta.run(split, part, depth=depth, seed=seed) for seed in seeds]
        found = [only_gamma_beta.outcome(split, *each_run) for each_run in trained]
        rows = columns(found[0], [outcome.values() for outcome in found])
        runs.append({"part": part, "depth": depth} | rows)
    return {"seeds": seeds, "runs": runs}


def gan_digits() -> dict:
    """chapters/spectral-norm-gan: critics without spectral norm, and with the bounds 1 and 8.
    Eight to twelve minutes."""
    split, checkpoints = digits("raw"), (0, 100, 500, 1000, 2000)
    judge, runs = spectral_norm.Judge(split), []
    for bound, rate, seed in each((None, 1.0, 8.0), (0.0003, 0.001, 0.003, 0.01), (1, 2, 3, 4, 5)):
        setting = {"bound": bound, "rate": rate, "seed": seed}
        runs.append(setting | judge.follow(split.x_train, checkpoints, **setting))
    return {"checkpoints": checkpoints, "runs": runs}


def landscape_() -> dict:
    """chapters/landscape-units: the deep linear net at the paper's learning rate, with a look along
    the ray at every 100th of 3,000 steps. Two minutes."""
    every, steps, linear = 100, 3000, []
    for name, seed in each(("without", "batch norm"), (0, 1, 2)):
        problem = landscape.linear_problem(landscape.NORMS[name], seed, steps)
        factors = (0.01, 0.1, 1.0, 5.0, 30.0)
        seen, losses, _ = landscape.survey(*problem, 1e-6, factors, every=every)
        rows = {
            "loss": losses[::every],
            "range": np.ptp(seen.losses, axis=1),
            "change": seen.changes.max(axis=1),
            "smoothness": seen.smoothness,
        }
        numbers = {key: [*map(kept, row)] for key, row in rows.items()}
        linear.append({"norm": name, "seed": seed} | numbers)
    return {"deep linear": linear}


def learning_rates_() -> dict:
    """chapters/learning-rates: three norms, seven rates, seven sizes of the initial weights, six
    ReLU layers for 100 steps. Four minutes."""
    split, seeds, runs = digits(), (0, 1, 2), []
    for net, factor, rate in each(
        learning_rates.NETS, learning_rates.FACTORS, learning_rates.RATES
    ):
        norm = landscape.NORMS[net]
        ends = [learning_rates.end(split, norm, rate, factor, seed) for seed in seeds]
        runs.append({"norm": net, "factor": factor, "rate": rate, "loss": [*map(kept, ends)]})
    return {"seeds": seeds, "runs": runs}


def noisy_digits() -> dict:
    """chapters/noisy-batch-norm: nets of 5 and 12 layers, plain and with batch norm, with and
    without noise, 200 steps. Two to four minutes."""
    split, steps, runs = digits(), 200, []
    names = "layers", "norm", "noise", "rate", "seed"
    rates = (0.01, 0.03, 0.1, 0.3, 1.0)
    for setting in each((5, 12), ("plain", "batch"), (False, True), rates, (0, 1, 2)):
        named = dict(zip(names, setting, strict=True))
        runs.append(named | noisy_batch_norm.follow(split, **named, steps=steps))
    return {"steps": steps, "runs": runs}


MAKERS = {
    f.__name__.rstrip("_"): f
    for f in (gamma_beta, gan_digits, landscape_, learning_rates_, noisy_digits)
}


def main(names: list[str]) -> None:
    if not names or {*names} - MAKERS.keys():
        sys.exit(f"trained: expected some of {', '.join(MAKERS)}, got {' '.join(names) or 'none'}")
    torch.set_num_threads(1)
    for name in names:
        store.write_json(DATA / f"{name}.json", MAKERS[name]())


if __name__ == "__main__":
    main(sys.argv[1:])
