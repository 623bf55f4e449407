"""Real data that needs no download."""

from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Split(NamedTuple):
    x_train: np.ndarray  # (1437, 64), pixels from 0 to 1
    labels_train: np.ndarray  # (1437,)
    x_test: np.ndarray  # (360, 64)
    labels_test: np.ndarray  # (360,)


def shipped_table(name: str) -> np.ndarray:
    """A table of numbers among scikit-learn's data sets. The package itself is not imported: that
    takes seconds, and no page needs it."""
    package = find_spec("sklearn")
    if package is None:
        raise ImportError(
            "expected scikit-learn, which ships the data, found none; install it with: "
            "pip install 'normlib[book]'"
        )
    return np.loadtxt(Path(package.origin).parent / "datasets" / "data" / name, delimiter=",")


def digits(rng: np.random.Generator) -> Split:
    """The 1,797 handwritten digits of 8×8 pixels that ship with scikit-learn, shuffled."""
    table = shipped_table("digits.csv.gz")
    images, labels = table[:, :-1], table[:, -1].astype(int)
    order = rng.permutation(len(images))
    x, labels = images[order] / 16, labels[order]
    return Split(x[:1437], labels[:1437], x[1437:], labels[1437:])
