"""Ask the shipped functions what each layer shares, learns and does not see."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from normbook.studies import invariances
from normlib import layers
from normlib.verify.signature import positional

IMAGES, SEQUENCE, WEIGHTS = ("N", "C", "H", "W"), ("N", "T", "C"), ("out", "in")
SIZES = {"N": 4, "C": 6, "H": 3, "W": 2, "T": 5, "out": 4, "in": 5}


class Row(NamedTuple):
    """A layer as the page shows it."""

    forward: Callable
    axes: tuple[str, ...]  # of its first argument
    parameters: tuple[str, ...]  # the axes over which each of its parameters runs
    invariant: str  # its name in the table of invariances
    keywords: dict


def row(forward, axes, parameters, invariant, **keywords) -> Row:
    return Row(forward, axes, parameters, invariant, keywords)


ROWS = {
    "Batch norm": row(layers.batch_norm, IMAGES, ("C", "C"), "batch"),
    "Layer norm": row(layers.layer_norm, SEQUENCE, ("C", "C"), "layer"),
    "RMSNorm": row(layers.rms_norm, SEQUENCE, ("C",), "RMS"),
    "Group norm": row(layers.group_norm, IMAGES, ("C", "C"), "group", groups=2),
    "Instance norm": row(layers.instance_norm, IMAGES, ("C", "C"), "instance"),
    "Weight norm": row(layers.weight_norm, WEIGHTS, ("out",), "weight"),
    "Mean-only batch norm": row(layers.mean_only_batch_norm, IMAGES, ("C",), "mean-only batch"),
    "Spectral norm": row(layers.spectral_norm, WEIGHTS, (), "spectral"),
}


def sizes(axes: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(SIZES[axis] for axis in axes)


def arguments(row: Row) -> list[np.ndarray]:
    """Its first argument and its parameters; for spectral norm two unit vectors."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(sizes(row.axes))
    if row.invariant == "spectral":
        return [x, *invariances.leading_vectors(x)]
    return [x, *(rng.uniform(0.5, 2, SIZES[axis]) for axis in row.parameters)]


def shared_axes(row: Row) -> tuple[str, ...]:
    """The axes along which one entry moves other outputs, by complex step."""
    x, *others = arguments(row)
    step = np.zeros_like(x)
    step[(0,) * x.ndim] = 1e-20
    moved = np.abs(row.forward(x + 1j * step, *others, **row.keywords)[0].imag) > 1e-30
    along = [tuple(b for b in range(x.ndim) if b != axis) for axis in range(x.ndim)]
    counts = [moved.any(axis=axes).sum() for axes in along]
    return tuple(name for name, count in zip(row.axes, counts, strict=True) if count > 1)


def count_learned(row: Row) -> int:
    """How many numbers it learns at the sizes of the page, beside what it normalizes."""
    given = positional(row.forward)[1:]
    return sum(SIZES[axis] for axis, _ in zip(row.parameters, given, strict=False))


def list_unseen(row: Row) -> tuple[str, ...]:
    """The changes of weights and data that do not change its output, with positive factors."""
    found = invariances.answers(invariances.gaps(row.invariant, draws=20))
    pairs = zip(invariances.CHANGES, found, strict=True)
    return tuple(change for change, said in pairs if said == invariances.YES)


def gradient_by_torch(name: str, x: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """dx of PyTorch's own layer on images (N, C, H, W), by autograd, with γ = 1 and β = 0."""
    channels = x.shape[1]
    modules = {
        "batch norm": torch.nn.BatchNorm2d(channels),
        "layer norm": torch.nn.LayerNorm(x.shape[1:]),
        "group norm, two groups": torch.nn.GroupNorm(2, channels),
        "instance norm": torch.nn.InstanceNorm2d(channels),
    }
    given = torch.tensor(x, requires_grad=True)
    modules[name].double()(given).backward(torch.tensor(dy))
    return given.grad.numpy()
