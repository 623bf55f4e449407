"""A layer that is written in torch, as a pair of NumPy functions that the witnesses can ask."""

import inspect
from collections.abc import Callable

import numpy as np
import torch


def as_tensor(a: np.ndarray) -> torch.Tensor:
    """A tensor with the strides of the array, which is copied if it must not be written to."""
    return torch.from_numpy(a if a.flags.writeable else a.copy())


class Forward:
    """forward(*arrays) -> y, cache. Tensors pass through to the layer, so that torch can
    differentiate it twice."""

    by_torch = True

    def __init__(self, layer: Callable, signature: inspect.Signature | None, name: str):
        self.layer, self.__name__ = layer, name
        if signature:
            self.__signature__ = signature

    def __call__(self, *args, **settings):
        if isinstance(args[0], torch.Tensor):
            return self.layer(*args, **settings), None
        tensors = list(map(as_tensor, args))
        real = not any(t.is_complex() for t in tensors)
        for tensor in tensors:
            tensor.requires_grad_(real)
        with torch.set_grad_enabled(real):
            y = self.layer(*tensors, **settings)
        if not isinstance(y, torch.Tensor):
            raise ValueError(
                f"a layer in torch must return one tensor, but got a {type(y).__name__}; "
                f"wrap it in a function that returns y"
            )
        return y.detach().resolve_conj().numpy(), (y, tensors)


def backward(dy: np.ndarray, cache) -> tuple:
    """What torch passes back through the layer; None where the layer gives no gradient."""
    y, tensors = cache
    if not y.requires_grad:
        raise TypeError("torch has no graph here, for complex numbers or a detached output")
    upstream = as_tensor(np.asarray(dy))
    found = torch.autograd.grad(y, tensors, upstream, allow_unused=True, retain_graph=True)
    return tuple(None if g is None else g.numpy() for g in found)


def from_torch(layer) -> tuple[Callable, Callable]:
    """The pair of a layer in torch: a function of tensors that returns y, or a subclass of
    torch.autograd.Function, whose arguments are then those of its forward after ctx.

    Shapes: those of the layer; arrays in, arrays out, in float64 or float32.
    Errors: ValueError if the layer does not return one tensor.
    """
    name, call, signature = getattr(layer, "__name__", "layer"), layer, None
    if isinstance(layer, type) and issubclass(layer, torch.autograd.Function):
        call, places = layer.apply, inspect.signature(layer.forward).parameters.values()
        separate = layer.setup_context is not torch.autograd.Function.setup_context
        signature = inspect.Signature([*places][0 if separate else 1 :])
    else:
        signature = inspect.signature(layer)
    return Forward(call, signature, name), backward
