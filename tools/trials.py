"""Run the trials that decide claims: python tools/trials.py covariate_shift.SHAPE …

Each is a `Trial` in a module of normlib/experiments. What it measured is written to
normlib/data/trials/, one file a trial, six digits a number. Run it after its set-up is committed.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy reads it

import importlib
import sys
from pathlib import Path

import store
import torch
from tqdm import tqdm

from normlib.experiments.trials import Trial

FOLDER = Path(__file__).resolve().parents[1] / "normlib" / "data" / "trials"


def named(name: str) -> Trial:
    module, _, attribute = name.partition(".")
    try:
        return getattr(importlib.import_module(f"normlib.experiments.{module}"), attribute)
    except (ImportError, AttributeError) as error:
        said = f"expected MODULE.TRIAL of normlib/experiments, got {name!r}; {error}"
        raise SystemExit(said) from None


def rounded(number: float) -> float:
    return float(f"{number:.6g}")


def measure(trial: Trial, name: str) -> dict[str, list[float]]:
    rows = [trial.run(seed) for seed in tqdm(trial.seeds, name)]
    columns = {key: [rounded(row[key]) for row in rows] for key in rows[0]}
    return {"seed": [*trial.seeds], **columns}


def main(names: list[str]) -> None:
    torch.set_num_threads(1)
    for name in names:
        store.write_json(FOLDER / f"{name}.json", measure(named(name), name))


if __name__ == "__main__":
    main(sys.argv[1:])
