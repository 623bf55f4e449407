"""Trials: experiments that decide a claim.

A trial is written down and committed before its seeds are run: what is measured, on which seeds,
and how large an effect would matter. tools/trials.py runs it and keeps what it found in
normlib/data/trials/; the pages read that, and repeat one seed.

Seeds below 1000 are for trying things out; the seeds of trials are larger, and no two trials share
one.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Trial(NamedTuple):
    """An experiment, and what was settled about it beforehand."""

    run: Callable[[int], dict[str, float]]  # what is measured with one seed, by name
    seeds: range
    bounds: Mapping[str, float]  # for each claim that it decides: the effect that would matter


Found = dict[str, np.ndarray]  # what was measured, by name: one number for each seed


def kept(path: str) -> dict:
    """What a tool found and kept in the package, as it stands there: "data/peers.json"."""
    return json.loads((Path(__file__).parents[1] / path).read_text("utf-8"))


def stored(path: str) -> Found:
    """What the seeds of a trial gave: "data/trials/ics.LINEAR.json", from tools/trials.py."""
    columns = kept(path)
    return {name: np.array(values, dtype=float) for name, values in columns.items()}


def off(trial: Trial, found: Found) -> float:
    """Run the first seed again: the largest difference from what is stored, relative to the
    spread over the seeds."""
    again = trial.run(trial.seeds[0])
    spreads = {name: values.std() or 1.0 for name, values in found.items() if name != "seed"}
    return max(abs(again[name] - found[name][0]) / spread for name, spread in spreads.items())
