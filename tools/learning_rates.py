"""Train the nets of chapters/learning-rates.ipynb and write normbook/data/learning_rates.json:
python tools/learning_rates.py. About four minutes on one core; delete the file to start afresh.

Six ReLU layers on the digits for 100 steps: three norms, seven learning rates, seven sizes of the
initial weights, three seeds. Of each run the loss is kept; what is not finite is stored as null.
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
from normbook.studies import landscape, learning_rates

TARGET = Path(__file__).resolve().parents[1] / "normbook" / "data" / "learning_rates.json"
SEEDS = (0, 1, 2)


def main() -> None:
    torch.set_num_threads(1)
    digits = data.digits(np.random.default_rng(0))
    nets, factors, rates = learning_rates.NETS, learning_rates.FACTORS, learning_rates.RATES
    runs = []
    for net, factor, rate in tqdm([*itertools.product(nets, factors, rates)], disable=None):
        norm = landscape.NORMS[net]
        ends = [learning_rates.end(digits, norm, rate, factor, seed) for seed in SEEDS]
        setting = {"norm": net, "factor": factor, "rate": rate}
        runs.append(setting | {"loss": [*map(store.kept, ends)]})
    store.write_json(TARGET, {"seeds": SEEDS, "runs": runs})


if __name__ == "__main__":
    main()
