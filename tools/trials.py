"""Run the trials that decide claims: python tools/trials.py covariate_shift.SHAPE …

Each is a `Trial` in a module of normbook/studies. What it measured is written to
normbook/data/trials/, one file a trial, six digits a number. Run it after its set-up is committed.
The file also holds the beginning of the first seed: the measures on which two instruction sets
agree when every training ends after a few steps. Whether the first seed ends elsewhere under the
other set is kept too, and with --again all seeds are run under it if it does.

MAP is the map of chapters/where-normalization-helps.ipynb. Its cells are run on all cores, or on
those of a Dask cluster: python tools/trials.py MAP --cluster ADDRESS. A cell that is done lies in
_build/map, so that an interrupted run goes on where it was.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy reads it

import argparse
import importlib
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import processors
import store
import torch
from joblib import Parallel, delayed, parallel_config
from tqdm import tqdm

from normbook.lab.trials import AGREE, FOLDER, Trial, digest
from normbook.studies import where_it_helps
from normbook.studies.where_it_helps import Setting

OTHER = "SSE"  # the instruction set that is farthest from any processor of today
PARTED = 0.01  # of the spread over the seeds
SAY = """
import json, sys, trials
sys.stdout.write(json.dumps(getattr(trials, sys.argv[1])(*json.loads(sys.argv[2]))))
"""


def find_trial(name: str) -> Trial:
    module, _, attribute = name.partition(".")
    try:
        return getattr(importlib.import_module(f"normbook.studies.{module}"), attribute)
    except (ImportError, AttributeError) as error:
        said = f"expected MODULE.TRIAL of normbook/studies, got {name!r}; {error}"
        raise SystemExit(said) from None


def round_to(number: float, digits: int = 6) -> float:
    return float(f"{number:.{digits}g}")


def measure(name: str, seeds: list[int]) -> dict[str, list[float]]:
    torch.set_num_threads(1)
    trial = find_trial(name)
    rows = [trial.run(seed) for seed in tqdm(seeds, name)]
    return {"seed": seeds} | {key: [round_to(row[key]) for row in rows] for key in rows[0]}


def begin(name: str) -> dict:
    torch.set_num_threads(1)
    return find_trial(name).beginning()


def under(which: str, function: str, *given: object) -> dict:
    """What a function of this file returns under an instruction set. That is chosen when a process
    starts."""
    command = [sys.executable, "-c", SAY, function, json.dumps(given)]
    environment = processors.environment(which) | {"PYTHONPATH": str(Path(__file__).parent)}
    said = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    return json.loads(said)


def beginning(name: str) -> dict:
    """What two instruction sets agree on; an arm whose very first steps part is left out."""
    native, other = (under(which, "begin", name) for which in ("native", OTHER))
    pairs = {key: (value, other["found"][key]) for key, value in native["found"].items()}
    agreed = {
        key: round_to(value, 12)
        for key, (value, again) in pairs.items()
        if math.isfinite(value) and abs(value - again) <= AGREE / 10 * max(abs(value), 1)
    }
    if not agreed:
        raise SystemExit(f"{name}: expected a measure that survives; choose another stretch")
    return {"steps": native["steps"], "found": agreed}


def parts(found: dict[str, list[float]], again: dict[str, list[float]]) -> bool:
    """Whether the seed that was run again ends elsewhere, seen beside the spread."""
    spreads = {key: np.std(values) or 1.0 for key, values in found.items()}
    return any(abs(found[key][0] - again[key][0]) > PARTED * spreads[key] for key in found)


def write(name: str, found: dict[str, list[float]], again: bool) -> None:
    stored = {"found": found, "beginning": beginning(name)}
    stored["parts"] = parts(found, under(OTHER, "measure", name, found["seed"][:1]))
    if again and stored["parts"]:
        stored[OTHER] = under(OTHER, "measure", name, found["seed"])
    store.write_json(FOLDER / f"{name}.json", stored | {"digest": digest(stored)})


ROOT = Path(__file__).parents[1]
CELLS, EXPLORER = ROOT / "_build" / "map", ROOT / "_static" / "explorers" / "norms.js"


def round_all(cell: object) -> object:
    """The same with six digits a number."""
    if isinstance(cell, dict):
        return {key: round_all(value) for key, value in cell.items()}
    if isinstance(cell, list):
        return [round_all(value) for value in cell]
    return round_to(cell) if isinstance(cell, float) else cell


def measure_cell(setting: Setting) -> tuple[Setting, dict]:
    torch.set_num_threads(1)
    return setting, round_all(where_it_helps.measure(setting))


def run_map(
    cluster: str | None, settings: list[Setting], folder: Path, measure: Callable = measure_cell
) -> list:
    """All cells in order; those that lie in the folder are not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {setting: folder / f"{'-'.join(map(str, setting))}.json" for setting in settings}
    left = [setting for setting, file in files.items() if not file.exists()]
    if cluster:
        from distributed import Client

        Client(cluster)
    with parallel_config(backend="dask" if cluster else "loky", n_jobs=-1):
        each = Parallel(return_as="generator_unordered", batch_size=1)(
            delayed(measure)(setting) for setting in left
        )
        for setting, cell in tqdm(each, "cells", len(files), initial=len(files) - len(left)):
            store.write(files[setting], json.dumps(cell))
    return [[[*setting], json.loads(file.read_text("utf-8"))] for setting, file in files.items()]


def write_map(cells: list) -> None:
    begun = {name: round_to(loss, 12) for name, loss in where_it_helps.begin().items()}
    stored = {"found": {"seed": [*where_it_helps.SEEDS], "cells": cells}, "beginning": begun}
    store.write_json(FOLDER / "MAP.json", stored | {"digest": digest(stored)})
    script = EXPLORER.read_text("utf-8")
    old = re.search(r"const CELLS = \{.*?\};\n", script, re.S)[0]
    store.write(EXPLORER, script.replace(old, where_it_helps.explorer_lines()))


def main(names: list[str], cluster: str | None = None, again: bool = False) -> None:
    for name in names:
        if name == "MAP":
            write_map(run_map(cluster, where_it_helps.settings(), CELLS))
        else:
            write(name, measure(name, [*find_trial(name).seeds]), again)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Run the trials that decide claims.")
    parser.add_argument("names", nargs="+", metavar="MODULE.TRIAL", help="or MAP")
    parser.add_argument("--cluster", metavar="ADDRESS", help="of a Dask scheduler, for MAP")
    parser.add_argument("--again", action="store_true", help="under the other set, if seeds part")
    main(**vars(parser.parse_args()))
