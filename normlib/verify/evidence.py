"""What each layer is confirmed with: torch's own layer, small shapes, a derivation, and the
directions in which it is constant. Chapters and tests hand it to `verify.backward`."""

import numpy as np
import torch
from torch.nn import functional

from normlib.verify import derivations
from normlib.verify.numeric import Flat


def deviation(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return x - x.mean(axis=axes, keepdims=True)


def torch_batch_norm(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    return functional.batch_norm(x, None, None, gamma, beta, training=True, eps=1e-5)


def batch_norm(ndim: int = 2) -> dict:
    """For x with `ndim` axes, and eps = 1e-5."""
    axes = (0, *range(2, ndim))
    directions = {
        "1": lambda x, *_: np.ones_like(x),
        "x − mean": lambda x, *_: deviation(x, axes),
    }
    return {
        "reference": torch_batch_norm,
        "shapes": (((3, 2), (2,), (2,)), ((2, 1, 2), (1,), (1,))),
        "derivation": derivations.batch_norm(),
        "flat": Flat(axes, directions),
    }


def torch_batch_norm_inference(x, mean, var, gamma, beta) -> torch.Tensor:
    """torch has no gradient for given statistics, and refuses those that ask for one."""
    statistics = mean.detach(), var.detach()
    return functional.batch_norm(x, *statistics, gamma, beta, training=False, eps=1e-5)


def batch_norm_inference() -> dict:
    """For x with any number of axes, and eps = 1e-5. No direction is flat: the map is affine."""
    return {
        "reference": torch_batch_norm_inference,
        "shapes": (((3, 2), (2,), (2,), (2,), (2,)), ((2, 1, 2), (1,), (1,), (1,), (1,))),
        "derivation": derivations.batch_norm_inference(),
    }
