"""Train the networks of chapters/noisy-batch-norm.ipynb and write normbook/data/noisy_digits.json:
python tools/noisy_digits.py. Two to four minutes on one core; delete the file to start afresh.

ReLU nets of 5 and 12 hidden layers, plain and with batch norm, with and without noise, five
learning rates, three seeds, 200 steps. How each run ended is kept, rounded to six decimals.
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
from normbook.studies import noisy_batch_norm

TARGET = Path(__file__).resolve().parents[1] / "normbook" / "data" / "noisy_digits.json"
LAYERS, RATES, SEEDS, STEPS = (5, 12), (0.01, 0.03, 0.1, 0.3, 1.0), (0, 1, 2), 200


def main() -> None:
    torch.set_num_threads(1)
    digits = data.digits(np.random.default_rng(0))
    settings = itertools.product(LAYERS, ("plain", "batch"), (False, True), RATES, SEEDS)
    runs = []
    for setting in tqdm(list(settings)):
        named = dict(zip(("layers", "norm", "noise", "rate", "seed"), setting, strict=True))
        runs.append(named | noisy_batch_norm.follow(digits, **named, steps=STEPS))
    store.write_json(TARGET, {"steps": STEPS, "runs": runs})


if __name__ == "__main__":
    main()
