"""A transformer as small as the theory has it: single-head attention with uniform weights, a
ReLU net of one hidden layer, no learned gain. The norm stands after each sum, or before each
branch (Xiong et al. 2020). Layers are lists of three square matrices; torch, float64.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from normbook.lab import data
from normbook.lab.data import Split
from normbook.lab.trials import Trial
from normlib.layers import layer_norm, layer_norm_backward

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


def pre_norm(x: Tensor, layers: list[Layer], last: Callable = norm) -> tuple:
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
    of its stream, at the cross-entropy of every token naming its image's class, or its own if
    there is a label for each."""
    y, stream = model(x, layers)
    target = torch.tensor(labels).reshape(len(x), -1).expand(x.shape[:2]).flatten()
    loss = functional.cross_entropy((y @ torch.tensor(head)).flatten(0, 1), target)
    grads = torch.autograd.grad(loss, [layer[2] for layer in layers])
    sizes = [float((s * s).mean()) for s in map(torch.detach, stream)]
    return np.array([float(g.norm()) for g in grads]), np.array(sizes)


# The gradient of the stream, through feed-forward branches of the shipped layer.


def stream_gradients(place: str, depth: int, rng, *, d=256, last=True):
    """|gradient|² of the stream before each layer and after the last, of 64 random vectors, for a
    random gradient of length 1 at the output. The place of the norms is "pre" or "post"; `last` is
    the norm before the output of a pre-norm net."""
    x, tape, pair = rng.standard_normal((64, d)), [], (np.ones(d), np.zeros(d))

    def normed(x, here):
        return layer_norm(x, *pair, eps=0.0) if here else (x, None)

    def through(g, cache):
        return g if cache is None else layer_norm_backward(g, cache)[0]

    for inward, outward in rng.standard_normal((depth, 2, d, d)) / np.sqrt(d):
        seen, before = normed(x, place == "pre")
        hidden = seen @ inward
        x, after = normed(x + np.maximum(hidden, 0) @ outward, place == "post")
        tape.append((inward, outward, hidden > 0, before, after))
    g = rng.standard_normal(x.shape)
    g = through(g / np.linalg.norm(g), normed(x, place == "pre" and last)[1])
    sizes = [(g * g).sum()]
    for inward, outward, active, before, after in reversed(tape):
        g = through(g, after)
        g = g + through((g @ outward.T * active) @ inward.T, before)
        sizes.append((g * g).sum())
    return np.array(sizes[::-1])


# The experiment of the chapter and of the claims page.

DEPTHS = (2, 4, 8, 16, 32)
MODELS = {
    "post-norm": post_norm,
    "pre-norm": pre_norm,
    "pre-norm, no norm at the end": partial(pre_norm, last=lambda x: x),
}


def draw_setting(digits: Split, depth: int, seed: int, d: int = 64) -> tuple:
    """Random layers, 16 digits as tokens, their labels, and a random head."""
    rng = np.random.default_rng(seed)
    batch = rng.choice(len(digits.x_train), 16, replace=False)
    x = tokens(digits.x_train[batch], d, rng)
    layers = random_layers(depth, d, rng)
    head = rng.standard_normal((d, 10)) / np.sqrt(d)
    return layers, x, digits.labels_train[batch], head


def measure(digits: Split, model: Callable, depth: int, seed: int) -> tuple:
    """For each layer the gradient's norm, and the mean square of the stream."""
    return ffn_gradients(model, *draw_setting(digits, depth, seed))


def slope(values: np.ndarray) -> float:
    """The exponent of a power law: how these values, one for each depth, change with depth."""
    return float(np.polyfit(np.log(DEPTHS), np.log(values), 1)[0])


def too_small(x: Tensor) -> float:
    """√(1 + mean²/variance), the largest of all tokens: by this factor √d/‖x‖ falls short of the
    norm of layer norm's Jacobian, which is √d over the length of the centred x at eps = 0."""
    centred = x - x.mean(dim=-1, keepdim=True)
    return float((x.norm(dim=-1) / centred.norm(dim=-1)).max())


def places(seed: int, inputs: str = "raw") -> dict[str, float]:
    """The exponents with which the last gradient changes with depth, and the stream before the
    last norm of a pre-norm net."""
    digits = data.digits(np.random.default_rng(0), inputs)
    found = {}
    for name, model in MODELS.items():
        runs = [measure(digits, model, depth, seed) for depth in DEPTHS]
        last, squares = (np.array([run[i][-1] for run in runs]) for i in (0, 1))
        found[name] = slope(last)
        found[f"{name}, times the stream"] = slope(last * np.sqrt(squares))
        found[f"{name}, mean square of the last stream"] = float(squares[-1])
    layers, x, *_ = draw_setting(digits, DEPTHS[-1], seed)
    stream = pre_norm(x, layers)[1][-1].detach()
    found["too small"] = too_small(stream)
    found["too small, 3 deviations added"] = too_small(stream + 3 * stream.std())
    return found


# Theorem 1 has the exponents -1/2 and 0, so 1/4 is half way between them: the bound of the distance
# from either. Lemma 3 is of the right order while the mean of a token is smaller than its
# deviation: then √d/‖x‖ is too small by less than √2.
PLACES = Trial(
    places,
    seeds=range(6200, 6232),
    bounds={"xiong2020-1": 0.25, "xiong2020-2": 0.25, "xiong2020-3": 1.4142},
)


def along(seed: int, *, own_labels: bool = False, inputs: str = "raw") -> dict[str, float]:
    """How the gradients of a net of 16 layers change from layer to layer: as a power of the index
    of the layer, and by a factor for each layer (both as slopes of logarithms)."""
    digits = data.digits(np.random.default_rng(0), inputs)
    found, index = {}, np.arange(1, 17)
    layers, x, labels, head = draw_setting(digits, 16, seed)
    if own_labels:
        labels = np.random.default_rng([seed, 1]).integers(10, size=tuple(x.shape[:2]))
    for name in ("post-norm", "pre-norm"):
        grads, squares = ffn_gradients(MODELS[name], layers, x, labels, head)
        for what, values in ((name, grads), (f"{name}, times the stream", grads * squares**0.5)):
            found[f"{what}, power"] = float(np.polyfit(np.log(index), np.log(values), 1)[0])
            found[f"{what}, factor"] = float(np.polyfit(index, np.log(values), 1)[0])
    return found


# The same at every layer is the power 0. The stream before layer l has the size √l, which gives the
# power -1/2 if nothing makes up for it; 1/4 is half way. What decays towards the input has a factor
# whose logarithm is above 0.
ALONG = Trial(along, seeds=range(6250, 6266), bounds={"xiong2020-7": 0.25, "xiong2020-8": 0.0})


def along_with_own_labels(seed: int) -> dict[str, float]:
    """The same, with a label of its own for every token, drawn at random."""
    return along(seed, own_labels=True)


# With one label for all tokens of an image their gradients point the same way, and uniform
# attention lets them pass. In translation every token has a label of its own. The same measure and
# bound as in ALONG.
PER_TOKEN = Trial(along_with_own_labels, seeds=range(8600, 8632), bounds={"xiong2020-8": 0.0})


# A real transformer: attention learns where to look, and the gradient is the mean of many samples.


def xavier(inputs: int, outputs: int, rng: np.random.Generator) -> Tensor:
    draw = rng.standard_normal((inputs, outputs)) * np.sqrt(2 / (inputs + outputs))
    return torch.tensor(draw, requires_grad=True)


def real_attention(x: Tensor, query: Tensor, key: Tensor, value: Tensor, out: Tensor) -> Tensor:
    """Softmax attention with four heads; a token sees itself and those before it."""
    parts = [(x @ w).unflatten(-1, (4, -1)).transpose(1, 2) for w in (query, key, value)]
    seen = functional.scaled_dot_product_attention(*parts, is_causal=True)
    return seen.transpose(1, 2).flatten(2) @ out


def real_gradients(place: str, depth: int, seed: int, *, samples: int = 256) -> np.ndarray:
    """For each layer, the norm of the gradient of the FFN's outward matrix, averaged over so many
    digits, in a random transformer whose tokens, the rows of a centred digit, name the brightest
    pixel of the row beneath. The norm stands "pre" or "post"."""
    rng, d = np.random.default_rng(seed), 64
    digits, raw = (data.digits(np.random.default_rng(0), kind) for kind in ("centred", "raw"))
    batch = rng.choice(len(digits.x_train), samples, replace=False)
    x = tokens(digits.x_train[batch], d, rng)[:, :-1]
    brightest = torch.tensor(raw.x_train[batch].reshape(samples, 8, 8).argmax(axis=2)[:, 1:])
    shapes = [(d, d)] * 4 + [(d, 4 * d), (4 * d, d)]
    layers = [[xavier(*shape, rng) for shape in shapes] for _ in range(depth)]
    head = torch.tensor(rng.standard_normal((d, 8)) / np.sqrt(d))
    for *heads, inward, outward in layers:
        if place == "pre":
            x = x + real_attention(norm(x), *heads)
            x = x + ffn(norm(x), inward, outward)
        else:
            x = norm(x + real_attention(x, *heads))
            x = norm(x + ffn(x, inward, outward))
    x = norm(x) if place == "pre" else x
    loss = functional.cross_entropy((x @ head).flatten(0, 1), brightest.flatten())
    grads = torch.autograd.grad(loss, [layer[-1] for layer in layers])
    return np.array([float(g.norm()) for g in grads])


def real(seed: int) -> dict[str, float]:
    """The power and the factor from layer to layer, and the logarithm of the first gradient over
    the last, at 6 layers, as in the paper's own figure, and at 16."""
    found = {}
    for place in ("pre", "post"):
        for depth in (6, 16):
            grads, index = real_gradients(place, depth, seed), np.arange(1, depth + 1)
            name, logs = f"{place}-norm, {depth} layers", np.log(grads)
            found[f"{name}: power"] = float(np.polyfit(np.log(index), logs, 1)[0])
            found[f"{name}: factor"] = float(np.polyfit(index, logs, 1)[0])
            found[f"{name}: first over last"] = float(logs[0] - logs[-1])
    return found


# It decides no claim: whether what ALONG and PER_TOKEN found is found with real attention too, by
# the same bounds.
REAL = Trial(real, seeds=range(26100, 26132), bounds={"falls": 0.25, "decays": 0.0})
