"""What each layer is confirmed with: torch's own layer, small shapes, a derivation, and the
directions in which it is constant. Chapters and tests hand it to `verify.backward`."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.parametrizations import _SpectralNorm

from normlib.verify import derivations
from normlib.verify.numeric import Flat


def over(*axes: int) -> Callable:
    """The mean over these axes, spread out again."""
    return lambda a: a.mean(axis=axes, keepdims=True) + 0 * a


def over_groups(groups: int) -> Callable:
    """The mean of each sample over each group of its channels, spread out again."""
    return lambda a: over(2)(a.reshape(len(a), groups, -1)).reshape(a.shape)


def centred(mean: Callable) -> Flat:
    """y moves neither with the mean of x nor with the size of its deviations."""
    directions = {"1": lambda x, *_: np.ones_like(x), "x − mean": lambda x, *_: x - mean(x)}
    return Flat(mean, directions)


def torch_batch_norm(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
    return functional.batch_norm(x, None, None, gamma, beta, training=True, eps=1e-5)


def batch_norm(ndim: int = 2) -> dict:
    """For x with `ndim` axes, and eps = 1e-5."""
    return {
        "reference": torch_batch_norm,
        "shapes": (((3, 2), (2,), (2,)), ((2, 1, 2), (1,), (1,))),
        "derivation": derivations.batch_norm(),
        "flat": centred(over(0, *range(2, ndim))),
    }


def torch_batch_norm_inference(x, mean, var, gamma, beta) -> Tensor:
    """torch has no gradient for given statistics, and refuses those that ask for one."""
    statistics = mean.detach(), var.detach()
    return functional.batch_norm(x, *statistics, gamma, beta, training=False, eps=1e-5)


def batch_norm_inference() -> dict:
    """For x with any number of axes, and eps = 1e-5. No direction is flat: the map is affine."""
    return {
        "reference": torch_batch_norm_inference,
        "shapes": (((3, 2), (2,), (2,), (2,), (2,)), ((2, 1, 2), (1,), (1,), (1,), (1,))),
        "derivation": derivations.batch_norm_inference(),
        "flat": Flat(over(0), {}),
    }


def layer_norm(ndim: int = 2, features: int = 1) -> dict:
    """For x with `ndim` axes of which the last `features` are normalized, and eps = 1e-5."""
    return {
        "reference": lambda x, gamma, beta: functional.layer_norm(x, gamma.shape, gamma, beta),
        "shapes": (((2, 3), (3,), (3,)), ((1, 2, 2), (2, 2), (2, 2))),
        "derivation": derivations.layer_norm(),
        "flat": centred(over(*range(ndim - features, ndim))),
    }


def rms_norm(ndim: int = 2, features: int = 1) -> dict:
    """For x with `ndim` axes of which the last `features` are normalized, and eps = 1e-6."""
    return {
        "reference": lambda x, gamma: functional.rms_norm(x, gamma.shape, gamma, eps=1e-6),
        "shapes": (((2, 3), (3,)), ((1, 2, 2), (2, 2))),
        "derivation": derivations.rms_norm(),
        "flat": Flat(over(*range(ndim - features, ndim)), {"x": lambda x, *_: x}),
    }


def partial_rms_norm(fraction: Fraction) -> dict:
    """For x with any number of axes, this fraction of the last one, and eps = 1e-6.

    torch has no such layer: its RMSNorm's definition, cut short, is the reference. Bind the same
    Fraction to the layer, not a float: the witnesses vary floats, as they do eps.
    """

    def reference(x: Tensor, gamma: Tensor) -> Tensor:
        k = -(-x.shape[-1] * fraction.numerator // fraction.denominator)
        return gamma * x * (x[..., :k].square().mean(-1, keepdim=True) + 1e-6).rsqrt()

    return {
        "reference": reference,
        "shapes": (((2, 4), (4,)), ((1, 2, 3), (3,))),
        "derivation": derivations.partial_rms_norm(fraction),
        "flat": Flat(over(-1), {"x": lambda x, *_: x}),
    }


def group_norm(groups: int) -> dict:
    """For x with any number of axes, this many groups, and eps = 1e-5."""
    channels, thirds = (2 * groups,), (3 * groups,)
    return {
        "reference": lambda x, gamma, beta: functional.group_norm(x, groups, gamma, beta),
        "shapes": (((1, *channels, 2), channels, channels), ((2, *thirds), thirds, thirds)),
        "derivation": derivations.group_norm(),
        "flat": centred(over_groups(groups)),
    }


def instance_norm(ndim: int = 3) -> dict:
    """For x with `ndim` axes, 3 at least, and eps = 1e-5."""
    return {
        "reference": lambda x, g, b: functional.instance_norm(x, weight=g, bias=b, eps=1e-5),
        "shapes": (((2, 2, 3), (2,), (2,)), ((1, 1, 2, 2), (1,), (1,))),
        "derivation": derivations.instance_norm(),
        "flat": centred(over(*range(2, ndim))),
    }


def torch_weight_norm(v: Tensor, g: Tensor) -> Tensor:
    return torch._weight_norm(v, g.reshape(-1, *[1] * (v.ndim - 1)), 0)


def weight_norm(ndim: int = 2) -> dict:
    """For v with `ndim` axes. PyTorch 2.13's double backward of weight norm is wrong."""
    return {
        "reference": torch_weight_norm,
        "reference_twice": False,
        "shapes": (((2, 3), (2,)), ((1, 2, 2), (1,))),
        "derivation": derivations.weight_norm(),
        "flat": Flat(over(*range(1, ndim)), {"v": lambda v, *_: v}),
    }


def mean_only_batch_norm(ndim: int = 2) -> dict:
    """For x with `ndim` axes. torch has no such layer: batch norm's mean alone is the reference."""
    axes = (0, *range(2, ndim))
    return {
        "reference": lambda x, beta: (
            x - x.mean(axes, keepdim=True) + beta.reshape(1, -1, *[1] * (ndim - 2))
        ),
        "shapes": (((3, 2), (2,)), ((2, 1, 2), (1,))),
        "derivation": derivations.mean_only_batch_norm(),
        "flat": Flat(over(*axes), {"1": lambda x, *_: np.ones_like(x)}),
    }


def torch_spectral_norm(u: np.ndarray, v: np.ndarray) -> Callable:
    """torch's parametrization with these singular vectors, not iterated further."""
    norm = _SpectralNorm(torch.ones(len(u), len(v)), n_power_iterations=1).eval()
    norm._u, norm._v = torch.tensor(u), torch.tensor(v)
    return norm


def spectral_norm(u: np.ndarray, v: np.ndarray) -> dict:
    """For w with these singular vectors bound: partial(spectral_norm, u=u, v=v)."""
    return {
        "reference": torch_spectral_norm(u, v),
        "shapes": (((2, 3), (2,), (3,)), ((3, 1, 2), (3,), (2,))),
        "derivation": derivations.spectral_norm(),
        "flat": Flat(lambda a: a.mean() + 0 * a, {"w": lambda w: w}),
    }
