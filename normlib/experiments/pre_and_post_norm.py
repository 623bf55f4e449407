"""A transformer as small as the theory has it: single-head attention with uniform weights, a
ReLU net of one hidden layer, no learned gain. The norm stands after each sum, or before each
branch (Xiong et al. 2020). Layers are lists of three square matrices; torch, float64.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

Layer = list[Tensor]  # value (d, d), ffn in (d, d), ffn out (d, d)


def random_layers(depth: int, d: int, rng: np.random.Generator) -> list[Layer]:
    """Entries of variance 1/d, as Xavier's rule gives for square matrices."""
    draw = rng.standard_normal((depth, 3, d, d)) / np.sqrt(d)
    return [[torch.tensor(w, requires_grad=True) for w in layer] for layer in draw]


def norm(x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], eps=0.0)


def attention(x: Tensor, value: Tensor) -> Tensor:
    """Queries and keys of zero: every token looks at all tokens alike."""
    return (x.mean(dim=1, keepdim=True) @ value).expand_as(x)


def ffn(x: Tensor, inward: Tensor, outward: Tensor) -> Tensor:
    return torch.relu(x @ inward) @ outward


def post_norm(x: Tensor, layers: list[Layer]) -> tuple[Tensor, list[Tensor]]:
    """The output, and what entered the last norm of each layer."""
    stream = []
    for value, *pair in layers:
        x = norm(x + attention(x, value))
        stream.append(x + ffn(x, *pair))
        x = norm(stream[-1])
    return x, stream


def pre_norm(x: Tensor, layers: list[Layer], last: Callable = norm) -> tuple[Tensor, list[Tensor]]:
    """The output, and the stream after each layer; `last` is the norm before the output."""
    stream = []
    for value, *pair in layers:
        x = x + attention(norm(x), value)
        x = x + ffn(norm(x), *pair)
        stream.append(x)
    return last(x), stream


def tokens(images: np.ndarray, d: int, rng: np.random.Generator) -> Tensor:
    """Each image row of 8 pixels as a token of d numbers, embedded at random, at its position;
    the mean square of all numbers is 1."""
    rows = images.reshape(len(images), 8, 8)
    x = rows @ rng.standard_normal((8, d)) + rng.standard_normal((8, d))
    return torch.tensor(x / np.sqrt((x * x).mean()))


def ffn_gradients(model: Callable, layers: list[Layer], x: Tensor, labels, head) -> tuple:
    """For each layer, the norm of the gradient of the FFN's outward matrix, and the mean square
    of its stream, at the cross-entropy of every token naming its image's class."""
    y, stream = model(x, layers)
    target = torch.tensor(labels).repeat_interleave(x.shape[1])
    loss = functional.cross_entropy((y @ torch.tensor(head)).flatten(0, 1), target)
    grads = torch.autograd.grad(loss, [layer[2] for layer in layers])
    sizes = [float((s * s).mean()) for s in map(torch.detach, stream)]
    return np.array([float(g.norm()) for g in grads]), np.array(sizes)
