"""Trials: experiments that decide a claim.

A trial is written down and committed before its seeds are run: what is measured, on which seeds,
and how large an effect would matter. tools/trials.py runs it and keeps what it found in
normbook/data/trials/; the pages read that, and repeat the beginning of its first seed.

Only the beginning: training is chaotic, and two processors that round differently part after some
steps. What a trial measures when every training in it ends after a few steps is the same on all of
them, while it rests on the same data, weights, layers, rates and measures as the whole.

Seeds below 1000 are for trying things out; the seeds of trials are larger, and no two trials share
one.
"""

import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from normbook.lab import training

PACKAGE = Path(__file__).parents[1]
FOLDER = PACKAGE / "data" / "trials"
# Six steps let rounding grow by less than 10⁸: a hundred times that stays below this, relatively.
AGREE = 1e-6

Found = dict[str, np.ndarray]  # what was measured, by name: one number for each seed


class Trial(NamedTuple):
    """An experiment, and what was settled about it beforehand."""

    run: Callable[[int], dict[str, float]]  # what is measured with one seed, by name
    seeds: range
    bounds: Mapping[str, float]  # for each claim that it decides: the effect that would matter
    stretch: int = 6  # steps of each training that are repeated; more where a measure needs them

    @property
    def name(self) -> str:
        """The module and the name under which the trial stands there: "ics.LINEAR"."""
        module = sys.modules[self.run.__module__]
        own = next(name for name, value in vars(module).items() if value is self)
        return f"{module.__name__.rpartition('.')[2]}.{own}"

    @property
    def results(self) -> Found:
        """What its seeds gave.

        Errors: ValueError if the file is not as tools/trials.py wrote it for these seeds.
        """
        found = self.stored()["found"]
        return {name: np.array(values, dtype=float) for name, values in found.items()}

    @property
    def elsewhere(self) -> Found | None:
        """What its seeds gave under the SSE instruction set, where they end elsewhere."""
        found = self.stored().get("SSE")
        return found and {name: np.array(values, dtype=float) for name, values in found.items()}

    def stored(self) -> dict[str, Any]:
        """The file of the trial: found, beginning, parts (whether the first seed ends elsewhere
        under SSE), digest, and SSE where all seeds were run under it too."""
        stored = json.loads((FOLDER / f"{self.name}.json").read_text("utf-8"))
        as_written = stored["digest"] == digest(stored) and stored["found"]["seed"] == [*self.seeds]
        if not as_written:
            raise ValueError(
                f"{self.name}: expected the numbers that tools/trials.py wrote for the seeds "
                f"{self.seeds.start} to {self.seeds.stop - 1}, got others; restore the file, or "
                f"run python tools/trials.py {self.name}"
            )
        return stored

    def beginning(self) -> dict[str, Any]:
        """What the first seed gives if every training ends after `stretch` steps, and how many
        steps each of them takes in the whole trial."""
        with training.stretch(self.stretch) as steps, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what looks at later steps has nothing to look at
            found = self.run(self.seeds[0])
        return {"steps": steps, "found": found}

    def repeat(self) -> None:
        """Run the beginning of the first seed again.

        Errors: AssertionError if a training is to take another number of steps, or a measure is
        not what it was when the seeds were run.
        """
        before, now = self.stored()["beginning"], self.beginning()
        assert now["steps"] == before["steps"], f"{self.name}: trainings of other lengths"
        for name, value in before["found"].items():
            apart = abs(now["found"][name] - value)
            assert apart <= AGREE * max(abs(value), 1), (
                f"{self.name}, {name}: expected {value} after {self.stretch} steps, got "
                f"{now['found'][name]}; if the trial was changed, run its seeds again"
            )


def digest(stored: Mapping[str, Any]) -> str:
    """A fingerprint of what a trial found: a number that was edited does not fit it."""
    kept = {key: stored[key] for key in ("found", "beginning", "parts", "SSE") if key in stored}
    text = json.dumps(kept, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def kept(path: str) -> dict:
    """What a tool found and kept in the package, as it stands there: "data/peers.json"."""
    return json.loads((PACKAGE / path).read_text("utf-8"))
