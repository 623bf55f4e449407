"""The norms of language models: the layer as shipped, its places, rotations, folding, and the
questions by which tools/model_norms.py reads the classes of `transformers`."""

import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from normlib.layers.core import Array

Norm = Callable[[Array], Array]


def shipped_rms_norm(
    x: Tensor, weight: Tensor, eps: float, *, plus_one=False, round_first=True
) -> Tensor:
    """RMSNorm as language models ship it: statistics in float32, rounded to the dtype of x before
    the gain (Llama) or after it (OLMo 2); the gain is the weight, or 1 + weight (Gemma)."""
    wide = x.float()
    xhat = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    gamma = 1 + weight.float() if plus_one else weight
    if round_first:
        return gamma * xhat.to(x.dtype)
    return (gamma * xhat).to(x.dtype)


def shipped_layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Layer normalization with float32 inside, rounded once, at the end (BERT, GPT-2)."""
    wide = x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    xhat = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    return (weight * xhat + bias).to(x.dtype)


def naive_rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """The same formula with every step in the dtype of x."""
    return weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps))


def errors(norm: Callable, dtype: torch.dtype, rng: np.random.Generator, size=(256, 512)) -> Array:
    """The relative error of each entry in units of u, half the spacing of the dtype at 1, against
    float64; rows and gains are random, and what the dtype can hold."""
    x = torch.from_numpy(rng.standard_normal(size)).to(dtype)
    gamma = torch.from_numpy(1 + 0.3 * rng.standard_normal(size[1])).to(dtype)
    wide = x.double()
    exact = gamma.double() * wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    error = (norm(x, gamma, 1e-6).double() - exact) / exact / (torch.finfo(dtype).eps / 2)
    return error.abs()[exact.abs() >= torch.finfo(dtype).tiny].numpy()


def pre(x: Array, branch: Norm, norm: Norm) -> Array:
    return x + branch(norm(x))


def post(x: Array, branch: Norm, norm: Norm) -> Array:
    return norm(x + branch(x))


def branch_output(x: Array, branch: Norm, norm: Norm) -> Array:
    return x + norm(branch(x))


def both_sides(x: Array, branch: Norm, norm: Norm, after: Norm) -> Array:
    return x + after(branch(norm(x)))


PLACES = {"pre": pre, "post": post, "branch output": branch_output, "both sides": both_sides}


def unit_rms(x: Array) -> Array:
    """RMSNorm without a gain, at eps = 0."""
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True))


def stream(
    place: Callable, depth: int, rng: np.random.Generator, *, gain=1.0, d=256, rows=64
) -> Array:
    """The mean square of the stream before each branch and after the last one. Every branch is a
    fresh random matrix, whose entries have the variance gain² / d."""
    x, found = unit_rms(rng.standard_normal((rows, d))), []
    norms = [unit_rms] * (2 if place is both_sides else 1)
    for _ in range(depth):
        w = gain * rng.standard_normal((d, d)) / np.sqrt(d)
        found.append((x**2).mean())
        x = place(x, lambda h, w=w: h @ w, *norms)
    return np.array([*found, (x**2).mean()])


# Queries and keys


def rotate(x: Array, angles: Array) -> Array:
    """Rotary embedding of one position: features 2i and 2i + 1 turn by the i-th angle."""
    first, second = x[..., ::2], x[..., 1::2]
    cos, sin = np.cos(angles), np.sin(angles)
    turned = np.stack([first * cos - second * sin, first * sin + second * cos], axis=-1)
    return turned.reshape(*turned.shape[:-2], -1)


def bound(gamma_q: Array, gamma_k: Array, *, rotated: bool = False) -> float:
    """The largest logit of normalized queries and keys. If any rotation of the pairs may follow,
    the larger gain of each pair counts."""
    q, k = np.abs([gamma_q, gamma_k])
    if rotated:
        q, k = (g.reshape(-1, 2).max(axis=1) for g in (q, k))
    return np.sqrt(len(gamma_q)) * (q * k).max()


# Folding, in a small pre-norm net


class Reader(NamedTuple):  # a norm and the matrix behind it
    gamma: Array  # (d,)
    beta: Array  # (d,)
    w: Array  # (d, out)
    b: Array  # (out,)


class Net(NamedTuple):
    embedding: Array  # (words, d)
    blocks: tuple[tuple[Reader, Array], ...]  # what reads the stream, what writes into it
    head: Reader


def random_net(rng: np.random.Generator, *, words=11, d=8, hidden=16, depth=3) -> Net:
    def draw(*shape):
        return rng.standard_normal(shape) / np.sqrt(shape[0])

    def reader(out):
        return Reader(1 + 0.5 * rng.standard_normal(d), draw(d), draw(d, out), draw(out))

    blocks = tuple((reader(hidden), draw(hidden, d)) for _ in range(depth))
    return Net(draw(words, d), blocks, reader(words))


def logits(net: Net, norm: Norm) -> Array:
    """The logits of every word, with `norm` in front of each branch and at the end."""

    def read(x, reader):
        gamma, beta, w, b = reader
        return (gamma * norm(x) + beta) @ w + b

    x = net.embedding
    for reader, writer in net.blocks:
        x = x + np.tanh(read(x, reader)) @ writer
    return read(x, net.head)


def rewritten(net: Net, reader: Callable, writer: Callable) -> Net:
    """All matrices that read the stream changed by one function, all that write by another."""
    blocks = tuple((reader(r), writer(w)) for r, w in net.blocks)
    return Net(writer(net.embedding), blocks, reader(net.head))


def folded(net: Net) -> Net:
    """Gains and shifts of the norms moved into the matrices behind them."""

    def fold(reader: Reader) -> Reader:
        gamma, beta, w, b = reader
        return Reader(0 * gamma + 1, 0 * beta, gamma[:, None] * w, b + beta @ w)

    return rewritten(net, fold, lambda w: w)


def centred(net: Net) -> Net:
    """The mean over the features taken from all that writes into the stream."""
    return rewritten(net, lambda r: r, lambda w: w - w.mean(axis=1, keepdims=True))


def turned(net: Net, q: Array) -> Net:
    """The whole stream turned by an orthogonal matrix; the gains stay where they are."""
    return rewritten(net, lambda r: r._replace(w=q.T @ r.w), lambda w: w @ q)


# Asking a shipped class


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def is_centred(norm: nn.Module) -> bool:
    x = numbers(64, norm.weight.numel())
    return torch.allclose(norm(x + 5), norm(x), atol=1e-4)


def is_stored_less_one(norm: nn.Module) -> bool:
    """A weight of zeros still lets something through."""
    zero, x = copy.deepcopy(norm), numbers(64, norm.weight.numel())
    zero.weight.data.zero_()
    return bool((zero(x) - zero(0 * x)).abs().max() > 0.1)


def eps_of(norm: nn.Module) -> float:
    """Found from the outputs for inputs as small as its root or smaller."""
    x = 1e-5 * numbers(64, norm.weight.numel())
    y = (norm(x) - norm(0 * x)).double()
    c = x.double() - (x.double().mean(-1, keepdim=True) if is_centred(norm) else 0)
    gamma = (norm.weight + is_stored_less_one(norm)).double()
    found = (gamma * c / y) ** 2 - c.square().mean(-1, keepdim=True)
    return float(f"{found.median():.1g}")


def our_norm(norm: nn.Module, **options) -> Callable:
    """The function above that a shipped layer should be."""
    if is_centred(norm):
        return lambda x: shipped_layer_norm(x, norm.weight, norm.bias, eps_of(norm))
    options = {"plus_one": is_stored_less_one(norm), **options}
    return lambda x: shipped_rms_norm(x, norm.weight, eps_of(norm), **options)


def rounds(norm: nn.Module) -> str:
    """Which order of casts gives the same bfloat16 numbers; in float32 a sum may be ordered anew,
    which turns one rounding in ten thousand."""
    x, half = numbers(256, norm.weight.numel()).bfloat16(), copy.deepcopy(norm).bfloat16()
    eps, weight = eps_of(norm), half.weight
    if is_centred(norm):
        asked = {"after β": shipped_layer_norm(x, weight, half.bias, eps)}
    else:
        given = {"eps": eps, "plus_one": is_stored_less_one(norm)}
        asked = {
            "before γ": shipped_rms_norm(x, weight, **given),
            "after γ": shipped_rms_norm(x, weight, **given, round_first=False),
        }
    (name,) = [n for n, y in asked.items() if (y != half(x)).double().mean() < 1e-3]
    return name


def placed(x: Tensor, out: Tensor, branches: list, norms: list) -> tuple[str, float]:
    """The place with which a block hands to its branches what they got, and returns `out`, if they
    return what they did: pairs of what went in and came out. And how far the numbers are apart."""
    found, each = {}, len(norms) // len(branches)
    for name in [n for n in PLACES if each == 1 + (n == "both sides")]:
        h, apart = x, []
        for n, (got, gave) in enumerate(branches):

            def branch(h, got=got, gave=gave, apart=apart):
                apart.append(h - got)
                return gave

            h = PLACES[name](h, branch, *norms[n * each : (n + 1) * each])
        found[name] = max(a.abs().max().item() for a in [*apart, h - out])
    best, *others = sorted(found, key=found.get)
    if found[best] > 1e-5 or any(found[name] < 1e-2 for name in others):
        raise ValueError(f"expected one place that agrees to rounding, got {found}")
    return best, found[best]


NAMED = {  # some families of the census that people know
    ("γ", "before γ"): {
        "Llama": "llama", "Mistral": "mistral", "Qwen3": "qwen3", "DeepSeek-V3": "deepseek_v3"},
    ("γ", "after γ"): {
        "OLMo 2": "olmo2", "OLMo 3": "olmo3", "gpt-oss": "gpt_oss", "Gemma 3n": "gemma3n",
        "Gemma 4": "gemma4"},
    ("γ − 1", "after γ"): {
        "Gemma": "gemma", "Gemma 2": "gemma2", "Gemma 3": "gemma3", "Qwen3-Next": "qwen3_next",
        "Qwen3.5": "qwen3_5"},
}  # fmt: skip


def counted(census: list[dict]) -> list[list[str]]:
    """What is stored, where it is rounded, how many classes do so, and some of their families.

    Errors: ValueError if a family does not stand where it is named.
    """
    found = {(row["stored"], row["rounds"]): row for row in census if row["stored"] != "?"}
    if found.keys() != NAMED.keys():
        raise ValueError(f"expected the kinds {[*NAMED]}, got {[*found]}; name families of each")
    for kind, names in NAMED.items():
        if missing := {*names.values()} - {*found[kind]["families"]}:
            raise ValueError(f"expected {sorted(missing)} among {kind}; look where they are now")
    return [[*kind, str(found[kind]["classes"]), ", ".join(names)] for kind, names in NAMED.items()]
