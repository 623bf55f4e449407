"""Run the heavier part of chapters/landscape.ipynb and write normbook/data/landscape.json:
python tools/landscape.py. About four minutes on one core; delete the file to start afresh.

First, six ReLU layers on the digits: four norms, five learning rates, five seeds, 300 steps. Then
the deep linear net at the paper's learning rate of 1e-6: with and without batch norm, three seeds,
3,000 steps, with a look along the ray at every 100th. What is not finite is stored as null.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy and torch read it

import itertools
from pathlib import Path

import numpy as np
import store
import torch
from tqdm import tqdm

from normbook.lab import data
from normbook.studies import landscape

TARGET = Path(__file__).resolve().parents[1] / "normbook" / "data" / "landscape.json"
RATES, SEEDS = (0.03, 0.1, 0.3, 1.0, 2.0), (0, 1, 2, 3, 4)
RATE, FACTORS, STEPS, EVERY = 1e-6, (0.01, 0.1, 1.0, 5.0, 30.0), 3000, 100


def sweep(split: data.Split, name: str, rate: float, seed: int) -> dict:
    loss, accuracy = landscape.outcome(split, landscape.NORMS[name], rate, seed)
    setting = {"norm": name, "rate": rate, "seed": seed}
    return setting | {"loss": store.kept(loss), "accuracy": store.kept(accuracy)}


def long_run(name: str, seed: int) -> dict:
    problem = landscape.linear_problem(landscape.NORMS[name], seed, STEPS)
    seen, losses, _ = landscape.survey(*problem, RATE, FACTORS, every=EVERY)
    rows = {
        "loss": losses[::EVERY],
        "range": np.ptp(seen.losses, axis=1),
        "change": seen.changes.max(axis=1),
        "smoothness": seen.smoothness,
    }
    return {"norm": name, "seed": seed} | {
        key: list(map(store.kept, row)) for key, row in rows.items()
    }


def main() -> None:
    torch.set_num_threads(1)
    split = data.digits(np.random.default_rng(0))
    settings = list(itertools.product(landscape.NORMS, RATES, SEEDS))
    digits = [sweep(split, *setting) for setting in tqdm(settings, "digits", disable=None)]
    pairs = list(itertools.product(("without", "batch norm"), SEEDS[:3]))
    linear = [long_run(*pair) for pair in tqdm(pairs, "deep linear", disable=None)]
    store.write_json(TARGET, {"digits": digits, "deep linear": linear})


if __name__ == "__main__":
    main()
