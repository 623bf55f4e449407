"""Train the small GANs of chapters/spectral-norm-gan.ipynb and write normbook/data/gan_digits.json:
python tools/gan_digits.py. Six to ten minutes on one core; delete the file to start afresh.

Three critics (without spectral norm, and with the bounds 1 and 8), three learning rates, five
seeds, 2,000 steps. At each checkpoint two numbers are kept, rounded to six decimals.
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
from normbook.studies import spectral_norm as gan

TARGET = Path(__file__).resolve().parents[1] / "normbook" / "data" / "gan_digits.json"
BOUNDS, RATES, SEEDS = (None, 1.0, 8.0), (0.001, 0.003, 0.01), (1, 2, 3, 4, 5)
CHECKPOINTS = (0, 100, 500, 1000, 2000)


def main() -> None:
    torch.set_num_threads(1)
    digits = data.digits(np.random.default_rng(0))
    judge = gan.Judge(digits)
    runs = []
    for bound, rate, seed in tqdm(list(itertools.product(BOUNDS, RATES, SEEDS))):
        setting = {"bound": bound, "rate": rate, "seed": seed}
        runs.append(setting | judge.follow(digits.x_train, CHECKPOINTS, **setting))
    store.write_json(TARGET, {"checkpoints": list(CHECKPOINTS), "runs": runs})


if __name__ == "__main__":
    main()
