"""Backward passes with a mistake such as a stranger makes, and right ones in unusual forms.

A blind set for what diagnoses gradients: WRONG has 60 with the truth about each, RIGHT has 20
that must never be accused. A truth says whose gradient is wrong (several with commas), the kind
of mistake, and what it is about. The kind "unknown" is for two slips at once or something
strange: "I do not know" is then an honest answer.

Of each layer LAYERS has the forward and the right backward, ARGS random arguments. The layers
whose names start with "own" are a stranger's, in the library's convention: forward gives
(y, cache), backward(dy, cache) the gradients in the order of the arguments, one alone unpacked.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch.nn.functional as F
from torch import tensor
from torch.autograd import grad

import normlib.layers as nl
from normlib.layers.layer import LayerNormCache
from normlib.layers.rms import RMSNormCache

# fmt: off

class Wrong(NamedTuple):
    name: str
    layer: str
    function: Any
    truth: tuple[str, str, str]

class Right(NamedTuple):
    name: str
    layer: str
    function: Any

WRONG, RIGHT = [], []

def wrong(layer, *truth):
    def keep(f):
        WRONG.append(Wrong(f.__name__, layer, f, truth))
        return f
    return keep

def opened(dy, cache):
    """What is in the cache of a normalization, in the shape of dy or to be broadcast to it."""
    (xhat, rstd, axes, _), gamma = cache[:2]
    over = (0, *range(2, dy.ndim))
    if isinstance(cache, (LayerNormCache, RMSNormCache)):
        over = tuple(range(dy.ndim - gamma.ndim))
    else:
        gamma = gamma.reshape(1, -1, *[1] * (dy.ndim - 2))
    fold = lambda a: np.broadcast_to(a, xhat.shape).reshape(dy.shape)  # noqa: E731
    sums = lambda a: fold(a.reshape(xhat.shape).sum(axis=axes, keepdims=True))  # noqa: E731
    m = xhat.size // rstd.size
    return SimpleNamespace(
        xhat=xhat.reshape(dy.shape), rstd=fold(rstd), gamma=gamma, d=gamma * dy, dy=dy, m=m,
        sum=sums, mean=lambda a: sums(a) / m, total=lambda a: a.sum(axis=over),
        positions=tuple(range(2, dy.ndim)), affine=not isinstance(cache, RMSNormCache),
    )

def with_parameters(dx):
    """A backward pass from a formula for dx alone: dgamma and dbeta are right."""
    def backward(dy, cache):
        o = opened(dy, cache)
        return dx(o), o.total(dy * o.xhat), *([o.total(dy)] if o.affine else [])
    return backward

def spoiled(right, spoil):
    def backward(dy, cache):
        return spoil(opened(dy, cache), *right(dy, cache))
    return backward

# The stranger's layers.

def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    y = e / e.sum(axis=-1, keepdims=True)
    return y, y

def softmax_backward(dy, y):
    return y * (dy - (dy * y).sum(axis=-1, keepdims=True))

def cross_entropy(x, t):
    """One loss a sample, from logits and target probabilities."""
    p, _ = softmax(x)
    return -(t * np.log(p)).sum(axis=-1), (p, t)

def cross_entropy_backward(dy, cache):
    (p, t), dy = cache, dy[:, None]
    return dy * (p * t.sum(axis=-1, keepdims=True) - t), -dy * np.log(p)

def linear(x, W, b):
    return x @ W.T + b, (x, W)

def linear_backward(dy, cache):
    x, W = cache
    return dy @ W, dy.T @ x, dy.sum(axis=0)

def cell(x, h, U, W, alpha):
    """A recurrent step with a residual path of the state."""
    a = np.tanh(x @ U + h @ W)
    return h + alpha * a, (x, h, U, W, alpha, a)

def cell_backward(dy, cache):
    x, h, U, W, alpha, a = cache
    dz = dy * alpha * (1 - a * a)
    return dz @ U.T, dy + dz @ W.T, x.T @ dz, h.T @ dz, (dy * a).sum(axis=0)

def sigmoid(x):
    return 1 / (1 + np.exp(-x))

def swiglu(a, b):
    return a * b * sigmoid(b), (a, b)

def swiglu_backward(dy, cache):
    (a, b), s = cache, sigmoid(cache[1])
    return dy * b * s, dy * a * (s + b * s * (1 - s))

def attention(q, k):
    """The weights that each query gives to each key."""
    p, _ = softmax(q @ k.T / np.sqrt(q.shape[1]))
    return p, (q, k, p)

def attention_backward(dy, cache):
    q, k, p = cache
    ds = softmax_backward(dy, p) / np.sqrt(q.shape[1])
    return ds @ k, ds.T @ q

def l2_normalize(x, *, eps=1e-2):
    n = np.sqrt((x * x).sum(axis=1, keepdims=True) + eps)
    return x / n, (x, n, eps)

def l2_normalize_backward(dy, cache):
    x, n, _ = cache
    return dy / n - x * (dy * x).sum(axis=1, keepdims=True) / n**3

def min_max(x):
    """Each column of the batch is scaled to [0, 1]; the extremes are part of the graph."""
    low, high = x.min(axis=0), x.max(axis=0)
    y = (x - low) / (high - low)
    return y, (y, high - low, x == low, x == high)

def min_max_backward(dy, cache):
    y, width, at_low, at_high = cache
    down, up = (dy * (y - 1)).sum(axis=0), -(dy * y).sum(axis=0)
    return (dy + at_low * down + at_high * up) / width

LAYERS = {
    "batch_norm": (nl.batch_norm, nl.batch_norm_backward),
    "layer_norm": (nl.layer_norm, nl.layer_norm_backward),
    "rms_norm": (nl.rms_norm, nl.rms_norm_backward),
    "group_norm": (partial(nl.group_norm, groups=3), nl.group_norm_backward),
    "weight_norm": (nl.weight_norm, nl.weight_norm_backward),
    **{f"own_{forward.__name__}": (forward, backward) for forward, backward in [
        (softmax, softmax_backward), (cross_entropy, cross_entropy_backward),
        (linear, linear_backward), (cell, cell_backward), (swiglu, swiglu_backward),
        (attention, attention_backward), (l2_normalize, l2_normalize_backward),
        (min_max, min_max_backward),
    ]},
}

def normal(*shapes, scale=1.0):
    return lambda rng: tuple(scale * rng.standard_normal(shape) for shape in shapes)

def affine(shape, *, scale=1.0, beta=True):
    """x off zero, gamma away from 0 with both signs, and beta."""
    def args(rng):
        n = shape[1]
        gamma = rng.uniform(0.5, 2, n) * rng.choice([-1.0, 1.0], n)
        x = scale * (0.7 + rng.standard_normal(shape))
        return x, gamma, *([rng.standard_normal(n)] if beta else [])
    return args

ARGS = {
    "batch_norm": affine((7, 5), scale=0.3),
    "layer_norm": affine((6, 5), scale=0.1),
    "rms_norm": affine((6, 5), scale=0.4, beta=False),
    "group_norm": affine((5, 6, 4), scale=1.5),
    "weight_norm": normal((4, 5), (4,), scale=1.3),
    "own_softmax": normal((6, 4)),
    "own_cross_entropy": lambda rng: (rng.standard_normal((7, 4)), rng.dirichlet([1.0] * 4, 7)),
    "own_linear": normal((6, 4), (3, 4), (3,)),
    "own_cell": normal((7, 3), (7, 4), (3, 4), (4, 4), (4,), scale=0.8),
    "own_swiglu": normal((6, 5), (6, 5)),
    "own_attention": normal((4, 3), (5, 3)),
    "own_l2_normalize": normal((6, 4), scale=0.5),
    "own_min_max": normal((7, 3)),
}

# Wrong formulas of dx alone, dgamma and dbeta being right: name, layer, mistake, formula.

for name, layer, kind, about, formula in [
    ("bn_no_mean_term", "batch_norm", "missing term", "mean of dy",
     lambda o: o.rstd * (o.d - o.xhat * o.mean(o.d * o.xhat))),
    ("bn_no_variance_term", "batch_norm", "missing term", "variance term",
     lambda o: o.rstd * (o.d - o.mean(o.d))),
    ("bn_constant_statistics", "batch_norm", "missing term", "both terms",
     lambda o: o.gamma * o.rstd * o.dy),
    ("bn_sums", "batch_norm", "sum for mean", "both terms",
     lambda o: o.rstd * (o.d - o.sum(o.d) - o.xhat * o.sum(o.d * o.xhat))),
    ("bn_no_gamma", "batch_norm", "gamma left out", "",
     lambda o: o.rstd * (o.dy - o.mean(o.dy) - o.xhat * o.mean(o.dy * o.xhat))),
    ("bn_mean_of_bare_dy", "batch_norm", "gamma left out", "mean of dy",
     lambda o: o.rstd * (o.d - o.mean(o.dy) - o.xhat * o.mean(o.d * o.xhat))),
    ("bn_bessel", "batch_norm", "unbiased variance", "",
     lambda o: o.rstd * (o.d - o.mean(o.d) - o.xhat * o.sum(o.d * o.xhat) / (o.m - 1))),
    ("bn_running", "batch_norm", "running statistics", "",
     lambda o: o.d / np.sqrt(0.9 * 1.0 + 0.1 * o.rstd**-2)),
    ("bn_mean_path_added", "batch_norm", "term sign", "mean of dy",
     lambda o: o.rstd * (o.d + o.mean(o.d) - o.xhat * o.mean(o.d * o.xhat))),
    ("bn_accumulated", "batch_norm", "term counted twice", "direct term",
     lambda o: o.rstd * (2 * o.d - o.mean(o.d) - o.xhat * o.mean(o.d * o.xhat))),
    ("ln_gamma_at_the_end", "layer_norm", "gamma outside the means", "",
     lambda o: o.gamma * o.rstd * (o.dy - o.mean(o.dy) - o.xhat * o.mean(o.dy * o.xhat))),
    ("ln_sum_of_dy", "layer_norm", "sum for mean", "mean of dy",
     lambda o: o.rstd * (o.d - o.sum(o.d) - o.xhat * o.mean(o.d * o.xhat))),
    ("ln_centered_for_xhat", "layer_norm", "xhat replaced", "by x minus mean in variance term",
     lambda o: o.rstd * (o.d - o.mean(o.d) - o.xhat / o.rstd * o.mean(o.d * o.xhat))),
    ("ln_half_forgotten", "layer_norm", "term factor", "variance term 2",
     lambda o: o.rstd * (o.d - o.mean(o.d)) + 2 * (-o.sum(o.d * o.xhat) / o.m) * o.xhat * o.rstd),
    ("ln_descent", "layer_norm", "sign", "",
     lambda o: o.rstd * (o.mean(o.d) + o.xhat * o.mean(o.d * o.xhat) - o.d)),
    ("ln_two_slips", "layer_norm", "unknown", "mean of dy over the batch, gamma left out",
     lambda o: o.rstd * (o.dy - o.dy.mean(axis=0) - o.xhat * o.mean(o.dy * o.xhat))),
    ("rms_as_layer_norm", "rms_norm", "extra term", "mean of dy",
     lambda o: o.rstd * (o.d - o.mean(o.d) - o.xhat * o.mean(o.d * o.xhat))),
    ("rms_detached", "rms_norm", "missing term", "variance term", lambda o: o.d * o.rstd),
    ("rms_plus", "rms_norm", "term sign", "variance term",
     lambda o: o.rstd * (o.d + o.xhat * o.mean(o.d * o.xhat))),
    ("rms_squared", "rms_norm", "power of rstd", "variance term 2 for 3",
     lambda o: o.d * o.rstd - (x := o.xhat / o.rstd) * o.mean(o.d * x) * o.rstd**2),
    ("rms_no_rstd", "rms_norm", "power of rstd", "0 for 1",
     lambda o: o.d - o.xhat * o.mean(o.d * o.xhat)),
    ("rms_y_for_xhat", "rms_norm", "xhat replaced", "by y in variance term",
     lambda o: o.rstd * (o.d - o.gamma * o.xhat * o.mean(o.d * o.xhat))),
    ("rms_two_slips", "rms_norm", "unknown", "gamma twice and a sum for the mean",
     lambda o: o.gamma * o.rstd * (o.d - o.xhat * o.sum(o.dy * o.xhat))),
    ("gn_as_instance_norm", "group_norm", "wrong axis", "each channel alone",
     lambda o: o.rstd * (o.d - o.d.mean(axis=o.positions, keepdims=True)
                         - o.xhat * (o.d * o.xhat).mean(axis=o.positions, keepdims=True))),
    ("gn_as_layer_norm", "group_norm", "wrong axis", "all channels together",
     lambda o: o.rstd * (o.d - o.d.mean(axis=(1, *o.positions), keepdims=True)
                         - o.xhat * (o.d * o.xhat).mean(axis=(1, *o.positions), keepdims=True))),
    ("gn_count_of_positions", "group_norm", "term factor", "both terms, channels per group",
     lambda o: o.rstd * (o.d - (o.sum(o.d) + o.xhat * o.sum(o.d * o.xhat)) / o.dy[0, 0].size)),
    ("gn_gamma_squared", "group_norm", "gamma twice", "",
     lambda o: o.gamma * o.rstd * (o.d - o.mean(o.d) - o.xhat * o.mean(o.d * o.xhat))),
]:
    WRONG.append(Wrong(name, layer, with_parameters(formula), ("dx", kind, about)))

# Wrong gradients of the parameters, or what became of a right dx.

for name, layer, truth, spoil in [
    ("bn_dgamma_by_centered", "batch_norm", ("dgamma", "xhat replaced", "by x minus mean"),
     lambda o, dx, dgamma, dbeta: (dx, o.total(o.dy * (o.xhat / o.rstd)), dbeta)),
    ("bn_dbeta_mean", "batch_norm", ("dbeta", "factor", "1/m"),
     lambda o, dx, dgamma, dbeta: (dx, dgamma, o.total(o.dy) / o.m)),
    ("bn_swapped", "batch_norm", ("dgamma, dbeta", "swapped", ""),
     lambda o, dx, dgamma, dbeta: (dx, dbeta, dgamma)),
    ("bn_clipped", "batch_norm", ("dx", "unknown", "each row clipped to a norm"),
     lambda o, dx, *p: (dx * np.minimum(1, 1 / np.linalg.norm(dx, axis=1, keepdims=True)), *p)),
    ("ln_dgamma_of_each_sample", "layer_norm", ("dgamma", "not summed", ""),
     lambda o, dx, dgamma, dbeta: (dx, o.dy * o.xhat, dbeta)),
    ("ln_dbeta_twice", "layer_norm", ("dbeta", "factor", "2"),
     lambda o, dx, dgamma, dbeta: (dx, dgamma, dbeta + o.total(o.dy))),
    ("rms_dgamma_by_x", "rms_norm", ("dgamma", "xhat replaced", "by x"),
     lambda o, dx, dgamma: (dx, o.total(o.dy * (o.xhat / o.rstd)))),
    ("gn_dgamma_batch_mean", "group_norm", ("dgamma", "factor", "1/N"),
     lambda o, dx, dgamma, dbeta: (dx, (o.dy * o.xhat).sum(axis=o.positions).mean(axis=0), dbeta)),
]:
    WRONG.append(Wrong(name, layer, spoiled(LAYERS[layer][1], spoil), truth))

# Wrong passes written out.

@wrong("batch_norm", "dx", "power of rstd", "variance term 2 for 3")
def bn_std_for_var(dy, cache):
    o = opened(dy, cache)
    c = o.xhat / o.rstd
    dvar, dmean = o.sum(o.d * c) * -0.5 * o.rstd**2, -o.sum(o.d * o.rstd)
    return o.d * o.rstd + dvar * 2 * c / o.m + dmean / o.m, o.total(dy * o.xhat), o.total(dy)

@wrong("layer_norm", "dx", "epsilon outside root", "")
def ln_eps_outside(dy, cache, eps=1e-5):
    o = opened(dy, cache)
    rstd = 1 / (np.sqrt(o.rstd**-2 - eps) + eps)
    xhat = o.xhat / o.rstd * rstd
    dx = rstd * (o.d - o.mean(o.d) - xhat * o.mean(o.d * xhat))
    return dx, o.total(dy * o.xhat), o.total(dy)

@wrong("layer_norm", "dx", "epsilon left out", "")
def ln_no_eps(dy, cache):
    o = opened(dy, cache)
    c = o.xhat / o.rstd
    std = np.sqrt(o.mean(c * c))
    dx = (o.d - o.mean(o.d) - c / std * o.mean(o.d * c / std)) / std
    return dx, o.total(dy * o.xhat), o.total(dy)

@wrong("weight_norm", "dv", "missing term", "projection")
def wn_constant_norm(dw, cache):
    direction, rnorm, g = cache
    return g * rnorm * dw, (dw * direction).sum(axis=tuple(range(1, dw.ndim)))

@wrong("weight_norm", "dv", "wrong axis", "whole matrix in the projection")
def wn_frobenius(dw, cache):
    (direction, rnorm, g), along = cache, dw * cache.direction
    return g * rnorm * (dw - direction * along.sum()), along.reshape(len(dw), -1).sum(axis=1)

@wrong("own_cell", "dW", "transposed", "")
def cell_transposed(dy, cache):
    x, h, U, W, alpha, a = cache
    dz = dy * alpha * (1 - a * a)
    return dz @ U.T, dy + dz @ W.T, x.T @ dz, dz.T @ h, (dy * a).sum(axis=0)

@wrong("own_cell", "dh", "missing term", "residual path")
def cell_no_residual(dy, cache):
    x, h, U, W, alpha, a = cache
    dz = dy * alpha * (1 - a**2)
    return dz @ U.T, dz @ W.T, x.T @ dz, h.T @ dz, (dy * a).sum(axis=0)

@wrong("own_cell", "dx, dh, dU, dW", "missing factor", "derivative of tanh")
def cell_no_tanh(dy, cache):
    x, h, U, W, alpha, a = cache
    dz = dy * alpha
    return dz @ U.T, dy + dz @ W.T, x.T @ dz, h.T @ dz, (dy * a).sum(axis=0)

for name, layer, truth, backward in [  # from c, the cache
    ("wn_plus", "weight_norm", ("dv", "term sign", "projection"),
     lambda dy, c: (c.g * c.rnorm * (dy + c.direction * (
         dg := nl.weight_norm_backward(dy, c)[1].reshape(c.g.shape))), dg.reshape(-1))),
    ("softmax_diagonal", "own_softmax", ("dx", "missing term", "off-diagonal"),
     lambda dy, c: dy * c * (1 - c)),
    ("softmax_mean", "own_softmax", ("dx", "mean for sum", "dy over the row"),
     lambda dy, c: c * (dy - (dy * c).mean(axis=-1, keepdims=True))),
    ("softmax_batch", "own_softmax", ("dx", "wrong axis", ""),
     lambda dy, c: c * (dy - (dy * c).sum(axis=0))),
    ("cross_entropy_reversed", "own_cross_entropy", ("dx", "sign", ""),
     lambda dy, c: (dy[:, None] * (c[1] - c[0] * c[1].sum(axis=1, keepdims=True)),
                    -dy[:, None] * np.log(c[0]))),
    ("cross_entropy_as_last", "own_cross_entropy", ("dx", "dy left out", ""),
     lambda dy, c: (c[0] * c[1].sum(axis=1, keepdims=True) - c[1], -dy[:, None] * np.log(c[0]))),
    ("linear_transposed", "own_linear", ("dW", "transposed", ""),
     lambda dy, c: (dy @ c[1], c[0].T @ dy, dy.sum(axis=0))),
    ("linear_db_mean", "own_linear", ("db", "factor", "1/m"),
     lambda dy, c: (dy @ c[1], dy.T @ c[0], dy.mean(axis=0))),
    ("swiglu_no_product_rule", "own_swiglu", ("db", "missing term", "sigmoid itself"),
     lambda dy, c: (dy * c[1] * (s := sigmoid(c[1])), dy * c[0] * c[1] * s * (1 - s))),
    ("swiglu_at_y", "own_swiglu", ("db", "derivative at the output", ""),
     lambda dy, c: (dy * (f := c[1] * sigmoid(c[1])),
                    dy * c[0] * ((s := sigmoid(f)) + f * s * (1 - s)))),
    ("swiglu_swapped", "own_swiglu", ("da, db", "swapped", ""),
     lambda dy, c: swiglu_backward(dy, c)[::-1]),
    ("attention_dk_unscaled", "own_attention", ("dk", "factor", "sqrt(d)"),
     lambda dy, c: (attention_backward(dy, c)[0], softmax_backward(dy, c[2]).T @ c[0])),
    ("l2_squared", "own_l2_normalize", ("dx", "power of norm", "projection 2 for 3"),
     lambda dy, c: dy / c[1] - c[0] * (dy * c[0]).sum(axis=1, keepdims=True) / c[1]**2),
    ("l2_no_eps", "own_l2_normalize", ("dx", "epsilon left out", ""),
     lambda dy, c: l2_normalize_backward(dy, l2_normalize(c[0], eps=0.0)[1])),
    ("min_max_constant", "own_min_max", ("dx", "missing term", "both extremes constant"),
     lambda dy, c: dy / c[1]),
    ("attention_two_slips", "own_attention", ("dq, dk", "unknown", "diagonal softmax, scale twice"),
     lambda dy, c: ((ds := dy * c[2] * (1 - c[2]) / c[0].shape[1]) @ c[1], ds.T @ c[0])),
    ("min_max_no_low", "own_min_max", ("dx", "missing term", "path of the minimum"),
     lambda dy, c: (dy - c[3] * (dy * c[0]).sum(axis=0)) / c[1]),
]:
    WRONG.append(Wrong(name, layer, backward, truth))

# Right passes in unusual forms.

def three_paths(o):
    c = o.xhat / o.rstd
    dvar = o.sum(o.d * c) * -0.5 * o.rstd**3
    dmean = -o.sum(o.d * o.rstd) + dvar * o.mean(-2 * c)
    return o.d * o.rstd + dvar * 2 * c / o.m + dmean / o.m

def projections(o):
    e = o.d - o.mean(o.d)
    return o.rstd * (e - o.xhat * o.mean(e * o.xhat))

def jacobian(o):
    """A matrix for each row; without the ones where the mean is not subtracted."""
    d, xhat = o.d.reshape(-1, o.m), o.xhat.reshape(-1, o.m)
    J = np.eye(o.m) - (float(o.affine) + xhat[:, :, None] * xhat[:, None, :]) / o.m
    return o.rstd * np.einsum("nij,ni->nj", J, d).reshape(o.d.shape)

def group_by_group(o):
    dx, d, xhat = (a.reshape(-1, o.m).copy() for a in (o.d, o.d, o.xhat))
    for i in range(len(d)):
        dx[i] = d[i] - d[i].sum() / o.m - xhat[i] * (xhat[i] @ d[i]) / o.m
    return dx.reshape(o.d.shape) * o.rstd

def by_torch(f):
    """PyTorch's gradients; where the mean is subtracted, x may be shifted by it."""
    def backward(dy, cache):
        o = opened(dy, cache)
        c = o.xhat / o.rstd
        eps = float((o.rstd**-2 - o.mean(c * c)).mean())
        arrays = (c, cache.gamma, 0 * cache.gamma)[: 2 + o.affine]
        ts = [tensor(a, requires_grad=True) for a in arrays]
        return tuple(g.numpy() for g in grad(f(eps, *ts), ts, tensor(dy)))
    return backward

def wn_matrix(dw, cache):
    u, rnorm, g = (a.reshape(len(dw), -1) for a in cache)
    J = np.eye(u.shape[1]) - u[:, :, None] * u[:, None, :]
    dv = g * rnorm * np.einsum("oij,oj->oi", J, dw.reshape(u.shape))
    return dv.reshape(dw.shape), np.einsum("oi,oi->o", dw.reshape(u.shape), u)

for name, layer, f in [
    ("bn_three_paths", "batch_norm", three_paths),
    ("bn_projections", "batch_norm", projections),
    ("bn_sums_over_m", "batch_norm",
     lambda o: o.rstd / o.m * (o.m * o.d - o.sum(o.d) - o.xhat * o.sum(o.d * o.xhat))),
    ("bn_gamma_outside", "batch_norm",
     lambda o: o.gamma * o.rstd * (o.dy - o.mean(o.dy) - o.xhat * o.sum(o.dy * o.xhat) / o.m)),
    ("ln_three_paths", "layer_norm", three_paths),
    ("ln_jacobian", "layer_norm", jacobian),
    ("rms_jacobian", "rms_norm", jacobian),
    ("rms_cubed", "rms_norm", lambda o: (
        o.d * o.rstd - (x := o.xhat / o.rstd) * o.sum(o.d * x) * o.rstd**3 / o.m)),
    ("gn_group_by_group", "group_norm", group_by_group),
    ("gn_projections", "group_norm", projections),
]:
    RIGHT.append(Right(name, layer, with_parameters(f)))
for name, layer, f in [
    ("bn_torch", "batch_norm", by_torch(
        lambda eps, x, *p: F.batch_norm(x, None, None, *p, training=True, eps=eps))),
    ("ln_torch", "layer_norm", by_torch(lambda eps, x, *p: F.layer_norm(x, p[0].shape, *p, eps))),
    ("rms_torch", "rms_norm", by_torch(lambda eps, x, g: F.rms_norm(x, g.shape, g, eps))),
    ("wn_matrix", "weight_norm", wn_matrix),
    ("wn_two_terms", "weight_norm", lambda dw, c: (
        dw * c.g * c.rnorm - c.direction * (dg := nl.weight_norm_backward(dw, c)[1].reshape(
            c.g.shape)) * c.g * c.rnorm, dg.reshape(-1))),
    ("softmax_matrix", "own_softmax", lambda dy, y: np.einsum(
        "ij,ijk->ik", dy, y[:, :, None] * (np.eye(y.shape[1]) - y[:, None, :]))),
    ("linear_einsum", "own_linear", lambda dy, c: (
        np.einsum("ab,bc", dy, c[1]), np.einsum("ab,ac", dy, c[0]), dy.T @ np.ones(len(dy)))),
    ("swiglu_collapsed", "own_swiglu", lambda dy, c: (
        dy * c[1] * (s := sigmoid(c[1])), dy * c[0] * s * (1 + c[1] * (1 - s)))),
    ("l2_collapsed", "own_l2_normalize", lambda dy, c: (
        (dy - (y := c[0] / c[1]) * (dy * y).sum(axis=1, keepdims=True)) / c[1])),
    ("min_max_split", "own_min_max", lambda dy, c: (
        dy - c[2] * (dy * (1 - c[0])).sum(axis=0) - c[3] * (dy * c[0]).sum(axis=0)) / c[1]),
]:
    RIGHT.append(Right(name, layer, f))
