"""A recurrent network and backpropagation through time; the norm is a pair passed in.

a(t) = x(t) w_xh + h(t-1) w_hh,   h(t) = tanh(norm(a(t), gamma, beta))

Ba, Kiros and Hinton (2016), equation 4, with one row a sample and one gamma, beta for all steps.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import sympy as sp
import torch

from normbook.lab import data, networks, training
from normbook.lab.data import Split
from normbook.lab.networks import Norm, Pair, cross_entropy
from normbook.lab.training import Gradient, Params
from normbook.lab.trials import Trial
from normlib.layers.batch import batch_norm, batch_norm_backward, batch_norm_inference
from normlib.layers.core import Array
from normlib.layers.layer import layer_norm, layer_norm_backward


class Step(NamedTuple):
    """What one step remembers."""

    x: Array  # (N, I)
    before: Array  # (N, H), the state it found
    h: Array  # (N, H), the state it left
    norm: tuple  # the norm's own cache


class RecurrentCache(NamedTuple):
    steps: list[Step]
    w_xh: Array  # (I, H)
    w_hh: Array  # (H, H)


def tanh(a: Array) -> Array:
    """For every number system: torch, SymPy and NumPy each have their own."""
    if isinstance(a, torch.Tensor):
        return torch.tanh(a)
    return np.vectorize(sp.tanh, otypes=[object])(a) if a.dtype == object else np.tanh(a)


def stack(arrays: list[Array]) -> Array:
    return torch.stack(arrays) if isinstance(arrays[0], torch.Tensor) else np.stack(arrays)


def forward(
    x: Array,
    h0: Array,
    w_xh: Array,
    w_hh: Array,
    gamma: Array,
    beta: Array,
    *,
    norm: Callable = layer_norm,
) -> tuple[Array, RecurrentCache]:
    """All states h(1) … h(T).

    Shapes: x (T, N, I), h0 (N, H), w_xh (I, H), w_hh (H, H), gamma and beta (H,); h (T, N, H).
    """
    h, steps = h0, []
    for x_t in x:
        y, cache = norm(x_t @ w_xh + h @ w_hh, gamma, beta)
        before, h = h, tanh(y)
        steps.append(Step(x_t, before, h, cache))
    return stack([step.h for step in steps]), RecurrentCache(steps, w_xh, w_hh)


def steps_back(
    dh: Array,
    cache: RecurrentCache,
    norm_backward: Callable,
) -> Iterator[tuple]:
    """From the last step to the first: the step, da, dgamma, dbeta of this step alone, and the
    gradient with respect to the state it found."""
    carried = 0 * dh[-1]
    for step, dh_t in zip(reversed(cache.steps), dh[::-1], strict=True):
        dy = (dh_t + carried) * (1 - step.h * step.h)
        da, dgamma, dbeta = norm_backward(dy, step.norm)
        carried = da @ cache.w_hh.T
        yield step, da, dgamma, dbeta, carried


def backward(
    dh: Array, cache: RecurrentCache, *, norm_backward: Callable = layer_norm_backward
) -> tuple[Array, ...]:
    """The gradients dx, dh0, dw_xh, dw_hh, dgamma, dbeta; `dh` (T, N, H) is upstream, at every
    step. A parameter used at every step gets the sum over the steps."""
    steps, das, dgammas, dbetas, carried = zip(*steps_back(dh, cache, norm_backward), strict=True)
    dx = np.stack([da @ cache.w_xh.T for da in das[::-1]])
    dw_xh = sum(step.x.T @ da for step, da in zip(steps, das, strict=True))
    dw_hh = sum(step.before.T @ da for step, da in zip(steps, das, strict=True))
    return dx, carried[-1], dw_xh, dw_hh, sum(dgammas), sum(dbetas)


def carry_back(
    dlast: Array, cache: RecurrentCache, *, norm_backward: Callable = layer_norm_backward
) -> list[Array]:
    """For an upstream gradient at the last state alone: the gradient with respect to the state
    that is 1, 2, … T steps older."""
    dh = np.zeros((len(cache.steps), *dlast.shape))
    dh[-1] = dlast
    return [carried for *_, carried in steps_back(dh, cache, norm_backward)]


def torch_layer_norm_rnn(x, h0, w_xh, w_hh, gamma, beta) -> torch.Tensor:
    """The same network from torch's own functions; its autograd needs no backward of ours."""
    h, states = h0, []
    for x_t in x:
        a = torch.nn.functional.linear(torch.cat([x_t, h], 1), torch.cat([w_xh, w_hh]).T)
        h = torch.tanh(torch.nn.functional.layer_norm(a, gamma.shape, gamma, beta, eps=1e-5))
        states.append(h)
    return torch.stack(states)


def torch_plain_rnn(x, h0, w_xh, w_hh, gamma, beta) -> torch.Tensor:
    """torch.nn.RNN, to which a scale without a norm is a scale of the weights."""
    rnn = torch.nn.RNN(len(w_xh), len(w_hh)).to(x.dtype)
    weights = {
        "weight_ih_l0": (w_xh * gamma).T,
        "weight_hh_l0": (w_hh * gamma).T,
        "bias_ih_l0": beta,
        "bias_hh_l0": 0 * beta,
    }
    return torch.func.functional_call(rnn, weights, (x, h0[None]))[0]


def network(
    inputs: int, units: int, rng: np.random.Generator, *, scale: float = 1.0, classes: int = 10
) -> Params:
    """Random weights; those from state to state have the deviation scale / √units."""
    return {
        "w_xh": rng.standard_normal((inputs, units)) / np.sqrt(inputs),
        "w_hh": rng.standard_normal((units, units)) * scale / np.sqrt(units),
        "gamma": np.ones(units),
        "beta": np.zeros(units),
        "w_out": rng.standard_normal((units, classes)) / np.sqrt(units),
        "bias": np.zeros(classes),
    }


def recurrent_part(params: Params) -> tuple[np.ndarray, ...]:
    """What `forward` asks for after x and h0, in its order."""
    return tuple(params[name] for name in ("w_xh", "w_hh", "gamma", "beta"))


def start(x: np.ndarray, params: Params) -> np.ndarray:
    """The state before the first step: zeros (N, H)."""
    return np.zeros((x.shape[1], len(params["gamma"])))


def logits(params: Params, x: np.ndarray, norm: Norm) -> tuple[np.ndarray, np.ndarray, tuple]:
    """What the last state says, that state, and the cache."""
    h, cache = forward(x, start(x, params), *recurrent_part(params), norm=norm)
    return h[-1] @ params["w_out"] + params["bias"], h, cache


def gradient(x: np.ndarray, labels: np.ndarray, norm: Pair) -> Gradient:
    """The cross entropy at the last states of sequences x (T, samples, I), and its gradient by
    backpropagation through time."""

    def through_time(params: Params, rows: np.ndarray) -> tuple[float, Params]:
        scores, h, cache = logits(params, x[:, rows], norm[0])
        loss, dscores = cross_entropy(scores, labels[rows])
        dh = np.zeros(h.shape)
        dh[-1] = dscores @ params["w_out"].T
        _, _, *inner = backward(dh, cache, norm_backward=norm[1])
        grads = *inner, h[-1].T @ dscores, dscores.sum(axis=0)
        return loss, dict(zip(params, grads, strict=True))

    return through_time


def predict(params: Params, x: np.ndarray, norm: Callable = layer_norm) -> np.ndarray:
    return logits(params, x, norm)[0].argmax(axis=1)


# What forty steps make of a gradient, and of a state: random networks at their start.

WITH_NORM: Pair = partial(layer_norm, eps=0.0), layer_norm_backward
WITHOUT: Pair = networks.no_norm, networks.no_norm_backward
UNITS = {"tanh": np.tanh, "ReLU": lambda a: np.maximum(a, 0)}


def noise(seed: int, steps: int = 40) -> np.ndarray:
    """Gaussian inputs of sixteen samples, which add the variance 1 to each summed input."""
    return np.random.default_rng([seed, 2]).standard_normal((steps, 16, 16))


def survival(
    x: np.ndarray, scale: float, pair: Pair, *, gain: float = 1.0, seed: int = 0, both: float = 1.0
) -> np.ndarray:
    """The length of a random gradient at the states that are 1, 2, … T steps older than the last,
    relative to its length there; `both` multiplies all weights of a step."""
    rng = np.random.default_rng(seed)
    w_xh, w_hh, gamma, beta = recurrent_part(network(x.shape[2], 64, rng, scale=scale))
    h0, upstream = rng.standard_normal((2, x.shape[1], 64))
    _, cache = forward(x, 0.5 * h0, both * w_xh, both * w_hh, gain * gamma, beta, norm=pair[0])
    carried = carry_back(upstream, cache, norm_backward=pair[1])
    return np.array([np.linalg.norm(d) for d in carried]) / np.linalg.norm(upstream)


def factor(scale: float, gain: float, normalized: bool, v: float = 1.0) -> float:
    """What one step back does to the length of a gradient in a wide random network of tanh units,
    whose inputs add the variance v to each summed input."""
    z = np.linspace(-8, 8, 20001)  # fine enough for the narrow peak of tanh' at large sizes
    density = np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
    q = 0.0
    for _ in range(60):  # to the fixed point of q
        size = gain if normalized else gain * np.sqrt(scale * scale * q + v)
        q = density @ np.tanh(size * z) ** 2
    slope = scale * gain * np.sqrt(density @ (1 - np.tanh(size * z) ** 2) ** 2)
    return float(slope / np.sqrt(scale * scale * q + v) if normalized else slope)


def drawn(seed: int) -> tuple[float, float]:
    """A scale of the recurrent weights between 0.1 and 10, and one between 0.1 and 1."""
    u = np.random.default_rng([seed, 1]).uniform(-1, 1)
    return 10**u, 10 ** ((u - 1) / 2)


def part_at(seed: int, scale: float, gain: float = 1.0, turn: int = 0) -> tuple[np.ndarray, ...]:
    """A network of 64 units with 16 inputs, without its last layer."""
    rng = np.random.default_rng([seed, 3, turn])
    w_xh, w_hh, gamma, beta = recurrent_part(network(16, 64, rng, scale=scale))
    return w_xh, w_hh, gain * gamma, beta


def orders(x: np.ndarray, part: tuple, pair: Pair, seed: int) -> float:
    """The orders of magnitude by which a gradient grows on its way back to the first state."""
    h0, upstream = np.random.default_rng([seed, 4]).standard_normal((2, x.shape[1], 64))
    _, cache = forward(x, 0.5 * h0, *part, norm=pair[0])
    carried = carry_back(upstream, cache, norm_backward=pair[1])
    return float(np.log10(np.linalg.norm(carried[-1]) / np.linalg.norm(upstream)))


def blank_start(seed: int, scale: float, pair: Pair) -> float:
    """The same over four steps without input, from a state of zeros: a sequence filled up at its
    beginning."""
    _, cache = forward(
        np.zeros((4, 16, 16)), np.zeros((16, 64)), *part_at(seed, scale), norm=pair[0]
    )
    upstream = np.random.default_rng([seed, 4]).standard_normal((16, 64))
    carried = carry_back(upstream, cache, norm_backward=pair[1])
    return float(np.log10(np.linalg.norm(carried[-1]) / np.linalg.norm(upstream)))


def gradient_length(seed: int) -> dict[str, float]:
    """How many orders of magnitude less a gradient grows, or fades, with layer norm than without,
    over 40 steps, at a scale of the recurrent weights that is drawn."""
    scale, _ = drawn(seed)
    read, silence, part = noise(seed), 0 * noise(seed), part_at(seed, scale)
    layer, plain = (orders(read, part, pair, seed) for pair in (WITH_NORM, WITHOUT))
    again = orders(read, part_at(seed, scale, turn=1), WITHOUT, seed)
    in_silence = [orders(silence, part, pair, seed) for pair in (WITHOUT, WITH_NORM)]
    shipped = layer_norm, layer_norm_backward  # with its eps, without which it is not finite
    from_zero = [blank_start(seed, scale, pair) for pair in (WITHOUT, shipped)]
    return {
        "less growth": max(plain, 0) - max(layer, 0),
        "less fading": max(-plain, 0) - max(-layer, 0),
        "less growth, other weights": max(plain, 0) - max(again, 0),
        "less fading, no input": max(-in_silence[0], 0) - max(-in_silence[1], 0),
        "less growth, blank start": max(from_zero[0], 0) - max(from_zero[1], 0),
    }


# 000-71 growth, 000-72 fading. One order of magnitude over 40 steps would matter: a learning rate
# can be off by that. The scale is drawn evenly on a logarithmic axis from 0.1 to 10, so that no
# setting is picked. By the theory of the chapter fading depends on the input: with an input of
# variance 1 the factors of both networks tend to the same multiple of a small scale; without
# input that of layer norm does not depend on the scale.
GRADIENT = Trial(gradient_length, seeds=range(4300, 4340), bounds={"000-71": 1.0, "000-72": 1.0})


def library_start(seed: int, kind: str) -> tuple[np.ndarray, ...]:
    """64 tanh units with 64 inputs, as a library starts them, without biases: PyTorch's RNN
    (uniform up to 1/√64) or Keras's SimpleRNN (Glorot and Bengio 2010, and orthogonal)."""
    rng = np.random.default_rng([seed, 7])
    w_xh, w_hh = rng.uniform(-1, 1, (2, 64, 64)) / 8
    if kind == "Keras":
        q, r = np.linalg.qr(rng.standard_normal((64, 64)))
        w_xh, w_hh = np.sqrt(3) * w_xh, q * np.sign(np.diag(r))
    return w_xh, w_hh, np.ones(64), np.zeros(64)


def less_fading(x: np.ndarray, part: tuple, seed: int) -> float:
    """How many orders of magnitude less a gradient fades with layer norm than without."""
    plain, layer = (orders(x, part, pair, seed) for pair in (WITHOUT, WITH_NORM))
    return max(-plain, 0) - max(-layer, 0)


def fading(seed: int) -> dict[str, float]:
    """With input that adds the variance v to each summed input, at a scale of the recurrent weights
    between 0.1 and 1; and at the starts of two libraries, with standard Gaussian inputs, where v is
    1/3 and 1."""
    scale = drawn(seed)[1]
    read = np.random.default_rng([seed, 2]).standard_normal((40, 16, 64))
    weak = {
        f"v = {v:g}": less_fading(v**0.5 * noise(seed), part_at(seed, scale), seed)
        for v in (0.1, 1.0, 3.0)
    }
    starts = {k: less_fading(read, library_start(seed, k), seed) for k in ("PyTorch", "Keras")}
    again = orders(read, library_start(seed, "PyTorch"), WITHOUT, seed)
    other = orders(read, library_start(seed + 500, "PyTorch"), WITHOUT, seed)
    return {**weak, **starts, "PyTorch, other weights": max(-again, 0) - max(-other, 0)}


# 000-72 once more: GRADIENT has inputs of variance 1, and none. By the theory of the chapter both
# networks fade alike at v near 1; with less input layer norm fades less, and with more of it more.
# Users meet both: the usual start of one library has v = 1/3, of another v = 1, with as many
# inputs as units. One order of magnitude would matter, as above. It holds if both starts gain it,
# and under conditions if one does.
FADING = Trial(fading, seeds=range(7100, 7124), bounds={"000-72": 1.0})


def exponent(x: np.ndarray, part: tuple, norm: Norm, seed: int) -> float:
    """The mean logarithm of the factor by which a small difference of states grows in a step."""
    h0, off = np.random.default_rng([seed, 5]).standard_normal((2, x.shape[1], 64))
    states, _ = forward(x, 0.5 * h0 + 1e-100j * off, *part, norm=norm)
    lengths = np.linalg.norm(states[-1].imag) / np.linalg.norm(1e-100 * off)
    return float(np.log(lengths) / len(x))


def change_of_size(x: np.ndarray, part: tuple, unit: str, seed: int) -> tuple[float, float]:
    """The mean logarithm of the factor of a step, without a norm, after the first ten: of the
    root mean square of the summed inputs, and of a gradient with respect to them."""
    w_xh, w_hh, *_ = part
    h = np.random.default_rng([seed, 5]).standard_normal((x.shape[1], 64))
    sums = []
    for x_t in x:
        sums.append(x_t @ w_xh + h @ w_hh)
        h = UNITS[unit](sums[-1])
    slope = {"tanh": lambda a: 1 - np.tanh(a) ** 2, "ReLU": lambda a: 1.0 * (a > 0)}[unit]
    upstream = d = np.random.default_rng([seed, 6]).standard_normal(h.shape)
    for a in sums[:10:-1]:
        d = (d * slope(a)) @ w_hh.T
    size = np.log(np.linalg.norm(sums[-1]) / np.linalg.norm(sums[10]))
    return size / (len(x) - 11), np.log(np.linalg.norm(d) / np.linalg.norm(upstream)) / (
        len(x) - 11
    )


def in_silence(seed: int) -> tuple[float, float]:
    """The same of tanh units that read nothing, in the networks of DYNAMICS."""
    scale, _ = drawn(seed)
    return change_of_size(0 * noise(seed), part_at(seed, scale), "tanh", seed)


def dynamics(seed: int) -> dict[str, float]:
    scale, small = drawn(seed)
    x, part = noise(seed), part_at(seed, scale)

    def steadier(at: tuple) -> float:
        return exponent(x, at, WITHOUT[0], seed) - exponent(x, at, WITH_NORM[0], seed)

    again = exponent(x, part_at(seed, scale, turn=1), WITHOUT[0], seed)
    size, gradient = change_of_size(x, part, "tanh", seed)
    free_size, free_gradient = change_of_size(0 * x, part, "ReLU", seed)
    return {
        "steadier": steadier(part),
        "steadier at small weights": steadier(part_at(seed, small)),
        "steadier, other weights": exponent(x, part, WITHOUT[0], seed) - again,
        "change of size": abs(size),
        "change of size, unbounded without input": abs(free_size),
        "gradient beside size": abs(gradient - size),
        "gradient beside size, unbounded without input": abs(free_gradient - free_size),
    }


# ba2016-6: how a small difference of states grows in a step, as a mean logarithm over 40 steps,
# is lower with layer norm than without. 10 % a step would matter, log 1.1: a factor of 45 over 40
# steps. The scale is drawn as above; below 1 theory expects no difference while there is input.
# ba2016-5: the size of the summed inputs changes by more than 5 % a step, log 1.05, up or down.
# ba2016-70: where the size changes, the gradient changes with it: the factors of a step agree
# within 10 %. ReLU without input is the case in which theory wants it, by Euler's theorem.
DYNAMICS = Trial(
    dynamics,
    seeds=range(4400, 4440),
    bounds={"ba2016-6": 0.0953, "ba2016-5": 0.0488, "ba2016-70": 0.0953},
)


# Batch norm through time: statistics for each step, or one pair for all.


def rows(images: np.ndarray) -> np.ndarray:
    """An image of 64 pixels as eight steps of eight pixels: (8, samples, 8)."""
    return images.reshape(-1, 8, 8).transpose(1, 0, 2)


def learned(
    digits: Split, pair: Pair, scale: float, rate: float, seed: int, blanks: int = 0
) -> float:
    """The test accuracy of a network of 32 units that has read 200 batches of 64 digits row by row;
    `blanks` empty steps follow each image."""

    def sequence(images: np.ndarray) -> np.ndarray:
        return np.concatenate([rows(images), np.zeros((blanks, len(images), 8))])

    rng = np.random.default_rng(seed)
    net, batches = network(8, 32, rng, scale=scale), training.batches(1437, 64, 200, rng)
    slopes = gradient(sequence(digits.x_train), digits.labels_train, pair)
    _, net = training.train(net, slopes, batches, rate)
    answers = predict(net, sequence(digits.x_test), pair[0])
    return float(np.mean(answers == digits.labels_test))


Statistics = list[tuple[np.ndarray, np.ndarray]]  # mean and variance of each step


def of_steps(params: Params, x: np.ndarray) -> Statistics:
    """What batch norm computes from these sequences, step by step."""
    _, _, cache = logits(params, x, batch_norm)
    sums = [step.x @ params["w_xh"] + step.before @ params["w_hh"] for step in cache.steps]
    return [(a.mean(axis=0), a.var(axis=0)) for a in sums]


def pool_statistics(statistics: Statistics) -> Statistics:
    """One pair for all steps: the statistics of all their sums together."""
    means, variances = (np.array(part) for part in zip(*statistics, strict=True))
    one = means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)
    return [one] * len(statistics)


def accuracy_with(
    statistics: Statistics, params: Params, x: np.ndarray, labels: np.ndarray
) -> float:
    following = iter(statistics)
    answers = predict(params, x, lambda a, g, b: batch_norm_inference(a, *next(following), g, b))
    return float(np.mean(answers == labels))


def read_alone(x: np.ndarray, params: Params) -> tuple[np.ndarray, Params, tuple]:
    """Batch norm of the part of the sums that is read, over samples and steps at once: the same
    network with normalized inputs and weights of one."""
    read = x @ params["w_xh"]
    flat, cache = batch_norm(read.reshape(-1, read.shape[2]), params["gamma"], params["beta"])
    units = len(params["gamma"])
    as_read = {"w_xh": np.eye(units), "gamma": np.ones(units), "beta": np.zeros(units)}
    return flat.reshape(read.shape), params | as_read, cache


def gradient_read_alone(x: np.ndarray, labels: np.ndarray) -> Gradient:
    """As `gradient`, for `read_alone`."""

    def through_time(params: Params, chosen: np.ndarray) -> tuple[float, Params]:
        y, inner, cache = read_alone(x[:, chosen], params)
        scores, h, steps = logits(inner, y, networks.no_norm)
        loss, dscores = cross_entropy(scores, labels[chosen])
        dh = np.zeros(h.shape)
        dh[-1] = dscores @ params["w_out"].T
        back = backward(dh, steps, norm_backward=networks.no_norm_backward)
        dread, dgamma, dbeta = batch_norm_backward(back[0].reshape(-1, h.shape[2]), cache)
        dw_xh = x[:, chosen].reshape(-1, x.shape[2]).T @ dread
        grads = dw_xh, back[3], dgamma, dbeta, h[-1].T @ dscores, dscores.sum(axis=0)
        return loss, dict(zip(params, grads, strict=True))

    return through_time


def accuracy_read_alone(
    params: Params, x: np.ndarray, other: np.ndarray, labels: np.ndarray
) -> float:
    """With the one pair of statistics of the sequences x, on other sequences."""
    read = x @ params["w_xh"]
    fixed = read.mean(axis=(0, 1)), read.var(axis=(0, 1))
    flat = (other @ params["w_xh"]).reshape(-1, read.shape[2])
    y, _ = batch_norm_inference(flat, *fixed, params["gamma"], params["beta"])
    _, inner, _ = read_alone(other, params)
    answers = logits(inner, y.reshape(*other.shape[:2], -1), networks.no_norm)[0].argmax(axis=1)
    return float(np.mean(answers == labels))


def run_sharing(seed: int) -> dict[str, float]:
    """Test accuracy lost when a trained network gets other statistics than those of each step."""
    digits = data.digits(np.random.default_rng(0), "raw")
    x, other, labels = rows(digits.x_train), rows(digits.x_test), digits.labels_train
    start = network(8, 32, np.random.default_rng(seed))

    def learned(slopes: Gradient) -> Params:
        batches = training.batches(1437, 64, 200, np.random.default_rng([seed, 1]))
        return training.train(start, slopes, batches, 0.3)[1]

    net = learned(gradient(x, labels, (batch_norm, batch_norm_backward)))
    each, half = of_steps(net, x), of_steps(net, x[:, :718])
    right = accuracy_with(each, net, other, digits.labels_test)
    alone = accuracy_read_alone(
        learned(gradient_read_alone(x, labels)), x, other, digits.labels_test
    )
    return {
        "right with each step's own": right,
        "lost by sharing": right
        - accuracy_with(pool_statistics(each), net, other, digits.labels_test),
        "lost by half of the data": right - accuracy_with(half, net, other, digits.labels_test),
        "lost by normalizing what is read alone": right - alone,
    }


# 000-14: what is lost if one pair of statistics serves for all steps. Two points would matter, a
# little more than the standard error of an accuracy of 90 % on 360 digits. The control takes the
# statistics of each step from half of the data. Beyond the claim: batch norm of the part of the
# sums that is read, over all steps at once, as Laurent et al. (2016) do it, which has one pair by
# construction.
SHARED = Trial(run_sharing, seeds=range(4500, 4512), bounds={"000-14": 0.02})


# Sharing once more: raw pixels lie from 0 to 1, and their mean differs from row to row, so that
# the steps differ before anything is learned. Batch norm with statistics of each step does not feel
# whether a pixel is centred; shared statistics do.

# The best rates of a grid of factor 2 from 1/8 to 4, by the training loss on the seeds 0 to 2.
SHARING_RATES = dict.fromkeys(data.INPUTS, 1.0)


def train_sharing(seed: int, inputs: str, rate: float) -> tuple[float, dict[str, float]]:
    """The training loss at the end, the test accuracy with each step's own statistics, and what is
    lost by sharing one pair and, as a control, by taking those of each step from half the data."""
    digits = data.digits(np.random.default_rng(0), inputs)
    x, other, labels = rows(digits.x_train), rows(digits.x_test), digits.labels_train
    batches = training.batches(1437, 64, 200, np.random.default_rng([seed, 1]))
    slopes = gradient(x, labels, (batch_norm, batch_norm_backward))
    start = network(8, 32, np.random.default_rng(seed))
    losses, net = training.train(start, slopes, batches, rate)
    each = of_steps(net, x)
    right, shared, half = (
        accuracy_with(statistics, net, other, digits.labels_test)
        for statistics in (each, pool_statistics(each), of_steps(net, x[:, :718]))
    )
    found = {"right": right, "lost by sharing": right - shared, "lost by half": right - half}
    return float(losses[-30:].mean()), found


def sharing(seed: int) -> dict[str, float]:
    return {
        f"{name}, {inputs}": value
        for inputs, rate in SHARING_RATES.items()
        for name, value in train_sharing(seed, inputs, rate)[1].items()
    }


# 000-14 once more, for raw, centred and standardized pixels. Two points would matter, as above. The
# claim names no inputs: it holds if all three lose more, and under conditions if raw pixels do and
# standardized ones do not.
SHARED_INPUTS = Trial(sharing, seeds=range(7130, 7154), bounds={"000-14": 0.02})
