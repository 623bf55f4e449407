"""A layer that is written in torch, as a pair of NumPy functions that the witnesses can ask."""

import inspect
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from normlib.verify.pair import as_tuple, is_integer
from normlib.verify.signature import parameters


def as_tensor(a: np.ndarray) -> torch.Tensor:
    """A tensor with the strides of the array, which is copied if it must not be written to."""
    a = np.asarray(a)
    return torch.from_numpy(a if a.flags.writeable else a.copy())


class Forward:
    """forward(*arrays) -> y, cache. Tensors pass through to the layer, so that torch can
    differentiate it twice."""

    def __init__(self, layer: Callable, signature: inspect.Signature, name: str):
        self.layer, self.__signature__, self.__name__ = layer, signature, name
        self.by_torch = True

    def __call__(self, *args, **settings):
        if any(isinstance(a, torch.Tensor) for a in args):
            return self.layer(*args, **settings), None
        data = {n: as_tensor(a) for n, a in settings.items() if isinstance(a, np.ndarray)}
        layer = partial(self.layer, **settings | data)
        tensors = list(map(as_tensor, args))
        floats = [t for t in tensors if not is_integer(t.numpy())]
        real = not any(t.is_complex() for t in tensors)
        for tensor in floats:
            tensor.requires_grad_(real)
        try:
            with torch.set_grad_enabled(real), warnings.catch_warnings():
                # an index made of complex numbers: whether a slope is lost is asked elsewhere
                warnings.filterwarnings("ignore", "Casting complex values to real")
                y = layer(*tensors)
        except RuntimeError:  # torch does not let a layer write to its arguments; without gradients
            with torch.no_grad():  # it does, and whoever looks at the arrays afterwards sees that
                layer(*(t.detach() for t in tensors))
            raise
        ys = as_tuple(y)
        if not all(isinstance(part, torch.Tensor) for part in ys):
            raise ValueError(
                f"a layer in torch must return a tensor, or a tuple of tensors, but got a "
                f"{type(y).__name__}; wrap it in a function that returns y"
            )
        arrays = tuple(part.detach().resolve_conj().numpy() for part in ys)
        return arrays if type(y) in (tuple, list) else arrays[0], (ys, floats)


def backward(dy, cache) -> tuple:
    """What torch passes back through the layer; None where the layer gives no gradient."""
    ys, tensors = cache
    upstream = {y: as_tensor(d) for y, d in zip(ys, as_tuple(dy), strict=True) if y.requires_grad}
    if not upstream:
        raise TypeError("torch has no graph here, for complex numbers or a detached output")
    options = {"allow_unused": True, "retain_graph": True}
    found = torch.autograd.grad([*upstream], tensors, [*upstream.values()], **options)
    return tuple(None if g is None else g.numpy() for g in found)


def of_function(function: type) -> tuple[Callable, inspect.Signature]:
    """A subclass of torch.autograd.Function: the arguments of its forward, after ctx."""
    places = [*inspect.signature(function.forward).parameters.values()]
    without_ctx = function.setup_context is not torch.autograd.Function.setup_context
    signature = inspect.Signature(places[0 if without_ctx else 1 :])

    def call(*args, **settings):  # apply takes no keywords
        return function.apply(*signature.bind(*args, **settings).args)

    return call, signature


def of_module(module: torch.nn.Module) -> tuple[Callable, inspect.Signature]:
    """A module: x, and then each of its parameters, which are taken from the arguments. Its
    buffers are copies, in the precision of x, or of the parameters where x holds indices."""
    names = [name for name, _ in module.named_parameters()]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    plain = [name.replace(".", "_") for name in names]
    plain = [name if name.isidentifier() else f"layer_{name}" for name in plain]  # of a Sequential
    shown = [inspect.Parameter(name, kind) for name in ("x", *plain)]

    def call(x, *parameters):
        given = dict(zip(names, parameters, strict=True))
        kinds = [a.dtype for a in (x, *parameters) if a.is_floating_point() or a.is_complex()]
        for name, b in module.named_buffers():
            given[name] = b.to(kinds[0], copy=True) if b.is_floating_point() else b.clone()
        return torch.func.functional_call(module, given, (x,))

    return call, inspect.Signature(shown)


def from_torch(layer) -> tuple[Callable, Callable]:
    """Return the pair of a layer in torch: a function of tensors that returns y; a subclass of
    torch.autograd.Function, with the arguments of its forward after ctx; or a module, whose
    arguments are x and its parameters.

    Shapes: those of the layer; arrays in, arrays out, in float64 or float32.
    Errors: ValueError for a class of modules, or a layer that does not return tensors.
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
        call, signature = layer, inspect.Signature(parameters(layer))
    return Forward(call, signature, getattr(layer, "__name__", type(layer).__name__)), backward
