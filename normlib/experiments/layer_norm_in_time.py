"""A recurrent network and backpropagation through time; the norm is a pair passed in.

a(t) = x(t) w_xh + h(t-1) w_hh,   h(t) = tanh(norm(a(t), gamma, beta))

Ba, Kiros and Hinton (2016), equation 4, with one row a sample and one gamma, beta for all steps.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import sympy as sp
import torch

from normlib.experiments.networks import Norm, Pair, cross_entropy
from normlib.experiments.training import Gradient, Params
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


def stacked(arrays: list[Array]) -> Array:
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
    return stacked([step.h for step in steps]), RecurrentCache(steps, w_xh, w_hh)


def steps_back(dh: Array, cache: RecurrentCache, norm_backward: Callable) -> Iterator[tuple]:
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


def carried_back(
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
