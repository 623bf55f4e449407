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

    def __init__(self, layer: Callable, signature: inspect.Signature, name: str):
        self.layer, self.__signature__, self.__name__ = layer, signature, name

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


def of_function(function: type) -> tuple[Callable, inspect.Signature]:
    """A subclass of torch.autograd.Function: the arguments of its forward, after ctx."""
    places = [*inspect.signature(function.forward).parameters.values()]
    without_ctx = function.setup_context is not torch.autograd.Function.setup_context
    return function.apply, inspect.Signature(places[0 if without_ctx else 1 :])


def of_module(module: torch.nn.Module) -> tuple[Callable, inspect.Signature]:
    """A module: x, and then each of its parameters, which are taken from the arguments."""
    names = [name for name, _ in module.named_parameters()]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    shown = [inspect.Parameter(name.replace(".", "_"), kind) for name in ("x", *names)]

    def call(x, *parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(module, given, (x,))

    return call, inspect.Signature(shown)


def from_torch(layer) -> tuple[Callable, Callable]:
    """The pair of a layer in torch: a function of tensors that returns y; a subclass of
    torch.autograd.Function, with the arguments of its forward after ctx; or a module, whose
    arguments are x and its parameters.

    Shapes: those of the layer; arrays in, arrays out, in float64 or float32.
    Errors: ValueError for a class of modules, or a layer that does not return one tensor.
    """
    if isinstance(layer, type) and issubclass(layer, torch.nn.Module):
        raise ValueError(
            f"a layer must be a module itself, but got the class {layer.__name__}; make one, "
            f"such as layer = {layer.__name__}(...), and name that"
        )
    if isinstance(layer, torch.nn.Module):
        call, signature = of_module(layer)
    elif isinstance(layer, type) and issubclass(layer, torch.autograd.Function):
        call, signature = of_function(layer)
    else:
        call, signature = layer, inspect.signature(layer)
    return Forward(call, signature, getattr(layer, "__name__", type(layer).__name__)), backward
