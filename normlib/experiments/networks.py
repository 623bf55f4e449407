"""Dense networks as plain functions on a dictionary of arrays.

w0, gamma0, beta0, w1, … belong to the hidden layers, w_out and bias to the last. A norm is a
function that is passed in. Hidden layers have no bias: the norm would subtract it.
"""

import itertools
from collections.abc import Callable

import numpy as np

Params = dict[str, np.ndarray]


def dense(sizes: tuple[int, ...], rng: np.random.Generator) -> Params:
    """Random weights for layers of these sizes, inputs first and classes last (He et al. 2015)."""
    *hidden, classes = sizes
    params: Params = {}
    for layer, (inputs, units) in enumerate(itertools.pairwise(hidden)):
        params[f"w{layer}"] = rng.standard_normal((inputs, units)) * np.sqrt(2 / inputs)
        params[f"gamma{layer}"], params[f"beta{layer}"] = np.ones(units), np.zeros(units)
    params["w_out"] = rng.standard_normal((hidden[-1], classes)) * np.sqrt(2 / hidden[-1])
    return params | {"bias": np.zeros(classes)}


def depth(params: Params) -> int:
    return sum(name.startswith("gamma") for name in params)


def forward(params: Params, x: np.ndarray, norms: list[Callable]) -> tuple[np.ndarray, list]:
    """Logits, and for each hidden layer what backward needs: its input, z, y and norm's cache."""
    caches = []
    for layer, norm in enumerate(norms):
        z = x @ params[f"w{layer}"]
        y, cache = norm(z, params[f"gamma{layer}"], params[f"beta{layer}"])
        caches.append((x, z, y, cache))
        x = np.maximum(y, 0)
    return x @ params["w_out"] + params["bias"], [*caches, x]


def backward(params: Params, dlogits: np.ndarray, caches: list, norm_backward: Callable) -> Params:
    *hidden, last = caches
    grads = {"w_out": last.T @ dlogits, "bias": dlogits.sum(axis=0)}
    dx = dlogits @ params["w_out"].T
    for layer in reversed(range(len(hidden))):
        x, _, y, cache = hidden[layer]
        dz, grads[f"gamma{layer}"], grads[f"beta{layer}"] = norm_backward(dx * (y > 0), cache)
        grads[f"w{layer}"] = x.T @ dz
        dx = dz @ params[f"w{layer}"].T
    return grads


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> tuple[float, np.ndarray]:
    """The mean loss over the batch, and its gradient with respect to the logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    rows = np.arange(len(labels))
    dlogits = np.exp(log_p)
    dlogits[rows, labels] -= 1
    return -float(log_p[rows, labels].mean()), dlogits / len(labels)
