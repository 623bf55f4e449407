"""Real data that needs no download."""

import gzip
import os
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

INPUTS = "centred", "raw", "standardized"
# Where Debian's package dataset-fashion-mnist lies, unless a folder is named.
FASHION = "/usr/share/datasets/fashion-mnist"


class Split(NamedTuple):
    x_train: np.ndarray  # (samples, inputs)
    labels_train: np.ndarray  # (samples,)
    x_test: np.ndarray
    labels_test: np.ndarray


def prepare(split: Split, inputs: str) -> Split:
    """The inputs as they come ("raw"), less the mean of the training samples ("centred"), or that
    divided by their deviation ("standardized"); an input that never changes is not divided.

    Errors: ValueError for another word.
    """
    if inputs not in INPUTS:
        raise ValueError(f"inputs: expected one of {', '.join(INPUTS)}, got {inputs!r}")
    if inputs == "raw":
        return split
    mean, deviation = split.x_train.mean(axis=0), split.x_train.std(axis=0)
    by = np.where(deviation > 0, deviation, 1) if inputs == "standardized" else 1
    return split._replace(x_train=(split.x_train - mean) / by, x_test=(split.x_test - mean) / by)


def locate_shipped(name: str) -> Path:
    """A file among scikit-learn's data sets. The package itself is not imported: that takes
    seconds, and no page needs it."""
    package = find_spec("sklearn")
    if package is None:
        raise ImportError(
            "expected scikit-learn, which ships the data, found none; install it with: "
            "pip install scikit-learn"
        )
    return Path(package.origin).parent / "datasets" / name


def load_shipped(name: str) -> np.ndarray:
    return np.loadtxt(locate_shipped("data") / name, delimiter=",")


def digits(rng: np.random.Generator, inputs: str = "centred") -> Split:
    """The 1,797 handwritten digits of 8×8 pixels that ship with scikit-learn, shuffled: 1,437 to
    train on. Raw pixels lie from 0 to 1."""
    table = load_shipped("digits.csv.gz")
    images, labels = table[:, :-1], table[:, -1].astype(int)
    order = rng.permutation(len(images))
    x, labels = images[order] / 16, labels[order]
    return prepare(Split(x[:1437], labels[:1437], x[1437:], labels[1437:]), inputs)


def fashion(rng: np.random.Generator, inputs: str = "centred") -> Split:
    """6,000 of the images of Fashion-MNIST (Xiao et al. 2017), 4,000 of them to train on, averaged
    to 14×14 pixels. They are read from where Debian's package dataset-fashion-mnist puts them, or
    from the folder that the environment names as FASHION_MNIST.

    Errors: FileNotFoundError if they are in neither.
    """
    folder = Path(os.environ.get("FASHION_MNIST", FASHION))
    files = [folder / f"train-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
    if not all(file.exists() for file in files):
        raise FileNotFoundError(
            f"expected {files[0].name} and {files[1].name} in {folder}, found them not; install "
            f"Debian's dataset-fashion-mnist, or name their folder as FASHION_MNIST"
        )
    images, labels = (np.frombuffer(gzip.decompress(file.read_bytes()), np.uint8) for file in files)
    chosen = rng.permutation(60_000)[:6000]
    x = images[16:].reshape(60_000, 14, 2, 14, 2)[chosen].mean(axis=(2, 4)).reshape(-1, 196) / 255
    labels = labels[8:][chosen].astype(int)
    return prepare(Split(x[:4000], labels[:4000], x[4000:], labels[4000:]), inputs)


def text(rng: np.random.Generator, *, length: int = 32) -> Split:
    """The descriptions of its data sets that ship with scikit-learn, 43,000 characters, in pieces:
    each character has the next one as its label. A tenth of the pieces are for the test."""
    pages = sorted(locate_shipped("descr").glob("*.rst"))
    written = "".join(page.read_text("ascii", "ignore") for page in pages)
    _, codes = np.unique([*written], return_inverse=True)
    starts = rng.permutation(np.arange(0, len(codes) - length - 1, length))
    x = np.array([codes[s : s + length] for s in starts])
    labels = np.array([codes[s + 1 : s + length + 1] for s in starts])
    test = len(x) // 10
    return Split(x[test:], labels[test:], x[:test], labels[:test])
