"""The setting of Santurkar et al. (2018): CIFAR-10 and a VGG, for who has the data.

The binary version of CIFAR-10 is six files of records: 1 byte for the label, 3,072 for the pixels,
32×32 red ones row by row, then green, then blue. Nothing else is read, and never a pickle. The net
is a dictionary of parameters and a function, so that `landscape` trains it and looks at it. It is
in float32, on the CPU or a GPU.
"""

import itertools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from normbook.lab import training
from normbook.lab.networks import Norm, Params
from normbook.studies import landscape
from normbook.studies.landscape import Ray
from normlib.layers import batch_norm
from normlib.layers.shapes import per_channel

TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = "test_batch.bin"
RECORD, CLASSES = 1 + 3 * 32 * 32, 10
BATCH, RATE = 128, 0.1  # as in the paper
FACTORS = (0.5, 1.0, 2.0, 4.0)  # step lengths on the ray, in learning rates: the paper's interval


class Images(NamedTuple):
    pixels: np.ndarray  # (images, 3, 32, 32), bytes
    labels: np.ndarray  # (images,), integers from 0 to 9


def read(path: Path) -> Images:
    """The images of one file. ValueError if it is cut off or is something else."""
    records = np.fromfile(path, np.uint8)
    if not len(records) or len(records) % RECORD:
        raise ValueError(
            f"expected whole records of {RECORD} bytes in {path}, found {len(records)} bytes; "
            f"the file may be truncated or not unpacked"
        )
    records = records.reshape(-1, RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= CLASSES:
        raise ValueError(
            f"expected labels from 0 to 9 in {path}, found {labels.max()}; "
            f"it may not be a file of CIFAR-10's binary version"
        )
    return Images(records[:, 1:].reshape(-1, 3, 32, 32), labels)


def explain_missing(folder: Path) -> str:
    """What is wrong with the names in a folder, or nothing."""
    if not folder.is_dir():
        return f"expected a folder with CIFAR-10's binary version, found none at {folder}"
    absent = [name for name in (*TRAIN, TEST) if not (folder / name).is_file()]
    if not absent:
        return ""
    if (folder / "data_batch_1").exists():
        mend = "it holds the Python version, whose pickles are not read; get the binary version"
    else:
        mend = "get CIFAR-10's binary version, unpack it, and name the folder with its .bin files"
    return f"expected {absent[0]} in {folder}, found no such file; {mend}"


def load(folder: Path) -> tuple[Images, Images]:
    """Training and test images. ValueError in one line if the folder does not hold them all."""
    if wrong := explain_missing(folder):
        raise ValueError(wrong)
    parts = {name: read(folder / name) for name in (*TRAIN, TEST)}
    counts = {name: len(part.labels) for name, part in parts.items()}
    short = min(counts, key=counts.__getitem__)
    if counts[short] != max(counts.values()):
        raise ValueError(
            f"expected the same number of images in every file of {folder}, found "
            f"{counts[short]} in {short} and {max(counts.values())} in another; "
            f"it may be truncated"
        )
    train = Images(*map(np.concatenate, zip(*(parts[name] for name in TRAIN), strict=True)))
    return train, parts[TEST]


class Scale(NamedTuple):
    """What standardizes each colour over the training images."""

    mean: np.ndarray  # (3,)
    deviation: np.ndarray  # (3,)


def scale_of(images: Images) -> Scale:
    """Computed from the counts of the 256 byte values, so that nothing large is made."""
    values = np.arange(256)
    counts = np.array([np.bincount(c.ravel(), minlength=256) for c in images.pixels.swapaxes(0, 1)])
    share = counts / counts.sum(axis=1, keepdims=True)
    mean = share @ values
    variance = (share * (values - mean[:, None]) ** 2).sum(axis=1)
    return Scale(mean, np.sqrt(variance).clip(min=1))


def apply_scale(pixels: Tensor, scale: Scale) -> Tensor:
    mean, deviation = (pixels.new_tensor(s, dtype=torch.float32)[:, None, None] for s in scale)
    return (pixels - mean) / deviation


def no_norm(z: Tensor, gamma: Tensor, beta: Tensor) -> tuple[Tensor, None]:
    """A norm's place without a norm, for images; `batch_norm` takes images as it is."""
    return per_channel(gamma, z) * z + per_channel(beta, z), None


NORMS: dict[str, Norm] = {"without": no_norm, "batch norm": batch_norm}
STAGES = ((1,), (2,), (4, 4), (8, 8), (8, 8))  # VGG-11: widths of its convolutions, in first widths


def vgg(seed: int, *, width: int = 64, device: str = "cpu") -> Params:
    """The parameters of a VGG-11 with one dense layer on top; a smaller `width` is a smaller net.
    Random weights as Glorot and Bengio (2010), here Gaussian."""
    rng = np.random.default_rng(seed)
    units = [3, *(width * factor for stage in STAGES for factor in stage)]
    made = {}
    for layer, (inputs, outputs) in enumerate(itertools.pairwise(units)):
        deviation = (2 / (9 * (inputs + outputs))) ** 0.5
        made[f"w{layer}"] = deviation * rng.standard_normal((outputs, inputs, 3, 3))
        made[f"gamma{layer}"], made[f"beta{layer}"] = np.ones(outputs), np.zeros(outputs)
    deviation = (2 / (units[-1] + CLASSES)) ** 0.5
    made["w_out"] = deviation * rng.standard_normal((units[-1], CLASSES))
    made["bias"] = np.zeros(CLASSES)
    return {n: torch.tensor(v, dtype=torch.float32, device=device) for n, v in made.items()}


def forward(params: Params, x: Tensor, norm: Norm) -> Tensor:
    """The logits (images, 10) of scaled images (images, 3, 32, 32). Each convolution is followed
    by the norm and a ReLU, each stage by a maximum over 2×2."""
    layer = 0
    for stage in STAGES:
        for _ in stage:
            z = functional.conv2d(x, params[f"w{layer}"], padding=1)
            x = torch.relu(norm(z, params[f"gamma{layer}"], params[f"beta{layer}"])[0])
            layer += 1
        x = functional.max_pool2d(x, 2)
    return x.flatten(1) @ params["w_out"] + params["bias"]


def loss_on(images: Images, scale: Scale, norm: Norm, device: str = "cpu") -> Callable:
    """A loss for `landscape`: the mean cross entropy over the rows of a batch."""
    pixels, labels = (torch.tensor(part, device=device) for part in images)

    def loss(params: Params, rows: Any) -> Tensor:
        rows = torch.as_tensor(rows, device=device)
        logits = forward(params, apply_scale(pixels[rows], scale), norm)
        return functional.cross_entropy(logits, labels[rows])

    return loss


def accuracy(params: Params, images: Images, scale: Scale, norm: Norm, batch: int = 500) -> float:
    """The share of right answers. Batch norm takes its statistics from each `batch` of images."""
    right = 0
    for start in range(0, len(images.labels), batch):
        rows = slice(start, start + batch)
        pixels = torch.tensor(images.pixels[rows], device=params["bias"].device)
        with torch.no_grad():
            answers = forward(params, apply_scale(pixels, scale), norm).argmax(dim=1)
        right += int((answers.cpu().numpy() == images.labels[rows]).sum())
    return right / len(images.labels)


class Run(NamedTuple):
    seen: Ray
    losses: np.ndarray  # (steps,)
    accuracy: float  # on the test images


def run(
    train: Images,
    test: Images,
    norm: Norm,
    steps: int,
    *,
    seed: int = 0,
    width: int = 64,
    device: str = "cpu",
    probes: int = 100,
    watch: Callable[[Iterable], Iterable] = iter,
) -> Run:
    """Train the VGG by plain SGD without augmentation, and look along the ray at about `probes`
    of the steps. `watch` may wrap the batches in a progress bar."""
    scale, count = scale_of(train), len(train.labels)
    batches = training.batches(count, min(BATCH, count), steps, np.random.default_rng(seed))
    params, loss = vgg(seed, width=width, device=device), loss_on(train, scale, norm, device)
    every = max(1, steps // probes)
    seen, losses, params = landscape.survey(
        params, loss, watch(batches), RATE, FACTORS, every=every
    )
    return Run(seen, losses, accuracy(params, test, scale, norm))
