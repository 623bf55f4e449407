"""Train the nets of chapters/only-gamma-beta.ipynb and write normbook/data/gamma_beta.json:
python tools/gamma_beta.py. About a minute on one core; delete the file to start afresh.

Three parts at three depths, and five more at four layers, each with five seeds. Of each net the
loss, the accuracy and the share of features turned off are kept, rounded to five decimals.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy reads it

import itertools
from pathlib import Path

import numpy as np
import store
from tqdm import tqdm

from normbook.lab import data
from normbook.studies import only_gamma_beta as parts

TARGET = Path(__file__).resolve().parents[1] / "normbook" / "data" / "gamma_beta.json"
DEPTHS, SEEDS = (2, 4, 8), (0, 1, 2, 3, 4)


def columns(rows: list[dict[str, float]]) -> dict[str, list[float]]:
    return {name: [round(float(row[name]), 5) for row in rows] for name in rows[0]}


def main() -> None:
    digits = data.digits(np.random.default_rng(0))
    names = list(parts.PARTS)
    settings = [*itertools.product(names[:3], DEPTHS), *((part, 4) for part in names[3:])]
    runs = []
    for part, depth in tqdm(settings):
        trained = [parts.run(digits, part, depth=depth, seed=seed) for seed in SEEDS]
        found = columns([parts.outcome(digits, *each) for each in trained])
        runs.append({"part": part, "depth": depth} | found)
    ends = [parts.off_from_uniform(digits, seed) for seed in SEEDS]
    uniform = columns([dict(zip(("before", "after"), pair, strict=True)) for pair in ends])
    store.write_json(TARGET, {"seeds": SEEDS, "runs": runs, "off_from_uniform": uniform})


if __name__ == "__main__":
    main()
