"""Train the nets of chapters/batch-noise.ipynb and write normbook/data/ghost_batches.json:
python tools/ghost_batches.py. About two minutes on one core; delete the file to start afresh.

Six arms, two learning rates, 24 seeds. Of each net the accuracy and the loss on digits not
trained on and the loss on those trained on are kept, rounded to five decimals.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy reads it

import itertools
from pathlib import Path

import store
from tqdm import tqdm

from normbook.studies import batch_noise

TARGET = Path(__file__).resolve().parents[1] / "normbook" / "data" / "ghost_batches.json"
RATES, SEEDS = (0.1, 0.5), range(100, 124)


def main() -> None:
    runs = []
    for arm, rate in tqdm(list(itertools.product(batch_noise.ARMS, RATES))):
        norm, steps = batch_noise.ARMS[arm]
        found = [batch_noise.experiment(norm, seed=seed, rate=rate, steps=steps) for seed in SEEDS]
        columns = zip(batch_noise.Outcome._fields, zip(*found, strict=True), strict=True)
        rounded = {name: [round(value, 5) for value in column] for name, column in columns}
        runs.append({"arm": arm, "rate": rate} | rounded)
    store.write_json(TARGET, {"seeds": list(SEEDS), "runs": runs})


if __name__ == "__main__":
    main()
