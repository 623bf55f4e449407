"""How many bytes a computation moves, by a model that can be counted exactly.

Every operation reads each of its distinct operands once and writes its result once. A view moves
nothing, and a fused kernel is one operation. Caches are left out of the model.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from normlib.layers import rms_norm, rms_norm_backward


class Counted(np.ndarray):
    """An array that adds what every operation on it reads and writes to one tally."""

    tally = 0

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **keywords):
        distinct = {id(a): a.nbytes for a in inputs if isinstance(a, np.ndarray)}
        plain = [a.view(np.ndarray) if isinstance(a, Counted) else a for a in inputs]
        if out:
            keywords["out"] = tuple(a.view(np.ndarray) for a in out)
        result = np.asarray(getattr(ufunc, method)(*plain, **keywords))
        Counted.tally += sum(distinct.values()) + result.nbytes
        return result.view(Counted)


class Dispatched(TorchDispatchMode):
    """Adds up the same for every kernel that torch runs."""

    def __init__(self):
        super().__init__()
        self.tally = 0
        self.kernels: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not function.is_view:
            distinct = {id(a): bytes_of(a) for a in args}
            results = result if isinstance(result, (tuple, list)) else (result,)
            self.tally += sum(distinct.values()) + sum(map(bytes_of, results))
            self.kernels.append(str(function))
        return result


def bytes_of(value: Any) -> int:
    """What a tensor occupies: one that is spread out by `expand` counts once."""
    return value.untyped_storage().nbytes() if isinstance(value, torch.Tensor) else 0


def moved(function: Callable, *args: Any) -> int:
    """The bytes that a NumPy function moves; arrays in `args` are counted, also in tuples."""

    def counted(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return value.view(Counted)
        if hasattr(value, "_fields"):
            return type(value)(*map(counted, value))
        return value

    Counted.tally = 0
    function(*map(counted, args))
    return Counted.tally


def moved_by_torch(function: Callable, *args: Any) -> tuple[int, int]:
    """The bytes that torch's kernels move in a call, and how many kernels there are."""
    with Dispatched() as mode:
        function(*args)
    return mode.tally, len(mode.kernels)


def weight_gradients(
    x: np.ndarray,
    weights: np.ndarray,
    gamma: np.ndarray,
    upstream: np.ndarray,
    *,
    of_inputs: float = 1.0,
    of_weights: float = 1.0,
    eps: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of weights and gain, with inputs and weights multiplied by these factors."""
    inputs = of_inputs * x
    _, cache = rms_norm(inputs @ (of_weights * weights), gamma, eps=eps)
    da, dgamma = rms_norm_backward(upstream, cache)
    return inputs.T @ da, dgamma
