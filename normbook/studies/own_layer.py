"""Layers as a stranger writes them, and three errors of kinds that public bug reports describe.

The code is our own; each error is named after what a report says, and the page links to it.
"""

import numpy as np
import torch

WITNESSES = "complex step", "central differences", "second order", "layouts"
CHECKERS = {"gradcheck": torch.autograd.gradcheck, "gradgradcheck": torch.autograd.gradgradcheck}


def rms_norm(x, weight, eps=1e-6):
    """RMSNorm in plain NumPy, over the last axis."""
    r = 1 / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)
    return x * r * weight, (x, r, weight)


def rms_norm_backward(dy, cache):
    x, r, weight = cache
    d = dy * weight
    dx = r * d - x * r**3 * np.mean(d * x, axis=-1, keepdims=True)
    return dx, np.sum(dy * x * r, axis=0)


def reference(x, weight, *, eps):
    """PyTorch's own RMSNorm, for tensors; it is given the eps in use."""
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)


def weight_twice_backward(dy, cache):
    """The second term of dx has the weight once more; it stands in d already."""
    x, r, weight = cache
    d = dy * weight
    dx = r * d - weight * x * r**3 * np.mean(d * x, axis=-1, keepdims=True)
    return dx, np.sum(dy * x * r, axis=0)


def variance_norm(x, eps=1e-5):
    """What `x.var` computes of complex numbers is no analytic function."""
    y = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + eps)
    return y, (y, 1 / np.sqrt(x.var(axis=0) + eps))


def variance_norm_backward(dy, cache):
    y, r = cache
    return r * (dy - dy.mean(axis=0) - y * np.mean(dy * y, axis=0))


class RMSNorm(torch.autograd.Function):
    """The same layer in torch. What backward needs is computed again from what came in."""

    @staticmethod
    def forward(ctx, x, weight, eps=1e-6):
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return x * (x * x).mean(-1, keepdim=True).add(eps).rsqrt() * weight

    @staticmethod
    def backward(ctx, dy):
        x, weight = ctx.saved_tensors
        r = (x * x).mean(-1, keepdim=True).add(ctx.eps).rsqrt()
        d = dy * weight
        dx = r * d - x * r**3 * (d * x).mean(-1, keepdim=True)
        return dx, (dy * x * r).sum(0), None


class OtherStrides(RMSNorm):
    """Backward reads dy with the strides of x, as a kernel does that is handed a pointer."""

    @staticmethod
    def backward(ctx, dy):
        x, _ = ctx.saved_tensors
        enough = dy.untyped_storage().nbytes() >= x.untyped_storage().nbytes()
        read = torch.as_strided(dy, x.shape, x.stride()) if enough else dy
        return RMSNorm.backward(ctx, read)


class SavedOnTheWay(torch.autograd.Function):
    """r is saved by forward: for a second derivative it is a constant."""

    @staticmethod
    def forward(ctx, x, weight, eps=1e-6):
        r = (x * x).mean(-1, keepdim=True).add(eps).rsqrt()
        ctx.save_for_backward(x, weight, r)
        return x * r * weight

    @staticmethod
    def backward(ctx, dy):
        x, weight, r = ctx.saved_tensors
        d = dy * weight
        dx = r * d - x * r**3 * (d * x).mean(-1, keepdim=True)
        return dx, (dy * x * r).sum(0), None


def refuses(check, layer, shapes) -> bool:
    """Whether one of torch's checkers refuses one of torch's functions, at random numbers."""
    numbers = torch.Generator().manual_seed(0)
    draw = {"dtype": torch.float64, "generator": numbers, "requires_grad": True}
    args = [torch.randn(shape, **draw) for shape in shapes]
    return not check(layer.apply, args, raise_exception=False)


def table(layers, verdicts, shapes) -> tuple[list[str], np.ndarray]:
    """The names of the checkers, and for each layer a row of what they say: 1 for a catch, 0 for
    none, nan for a checker that cannot be asked."""
    rows = []
    for name, pair in layers.items():
        said = verdicts[name]
        row = [refuses(c, *pair, shapes) if len(pair) == 1 else np.nan for c in CHECKERS.values()]
        row += [w in said.caught_by if w in said.ran else np.nan for w in WITNESSES]
        rows.append(row)
    return [*CHECKERS, *WITNESSES], np.array(rows, dtype=float)
