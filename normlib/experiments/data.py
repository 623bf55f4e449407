"""Real data that needs no download."""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits


class Split(NamedTuple):
    x_train: np.ndarray  # (1437, 64), pixels from 0 to 1
    labels_train: np.ndarray  # (1437,)
    x_test: np.ndarray  # (360, 64)
    labels_test: np.ndarray  # (360,)


def digits(rng: np.random.Generator) -> Split:
    """The 1,797 handwritten digits of 8×8 pixels that ship with scikit-learn, shuffled."""
    images, labels = load_digits(return_X_y=True)
    order = rng.permutation(len(images))
    x, labels = images[order] / 16, labels[order]
    return Split(x[:1437], labels[:1437], x[1437:], labels[1437:])
