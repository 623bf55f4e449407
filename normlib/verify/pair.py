"""From a layer as its author writes it to the pair that the witnesses ask: a forward of float
arrays that returns one array y with an axis, and a backward with one gradient for each of them.
"""

import inspect
import math
from collections.abc import Callable
from functools import partial, wraps

import numpy as np
import torch

from normlib.verify.signature import argument_names, parameters, unwrap


def as_tuple(value) -> tuple:
    """Layers with one argument return its gradient alone. A NamedTuple is not meant."""
    return tuple(value) if type(value) in (tuple, list) else (value,)


def is_integer(a) -> bool:
    """Whether an array holds labels, indices or a mask."""
    return isinstance(a, np.ndarray) and a.dtype.kind in "iub"


def join_outputs(y):
    """y as one array with an axis: several outputs one after another, a number by itself."""
    if type(y) not in (tuple, list) and np.ndim(y):
        return y
    parts = as_tuple(y)
    if all(isinstance(part, torch.Tensor) for part in parts):
        return torch.cat([part.reshape(-1) for part in parts])
    return np.concatenate([np.reshape(part, -1) for part in parts])


def split(dy, y_shapes: list[tuple[int, ...]]) -> list:
    """The upstream gradient of each output, of the one of all."""
    parts, start = [], 0
    for shape in y_shapes:
        parts.append(dy[start : start + math.prod(shape)].reshape(shape))
        start += math.prod(shape)
    return parts


def with_one_output(forward: Callable, backward: Callable) -> tuple[Callable, Callable]:
    """The pair whose y is joined. A y with an axis passes as it is."""
    function, bound = unwrap(forward)

    @wraps(function)
    def whole(*args, **keywords):
        given = function(*args, **keywords)
        if type(given) is not tuple or len(given) != 2:
            raise ValueError(
                f"forward must return the pair y, cache, but got a {type(given).__name__}; "
                f"return y, None if backward needs no cache, and (y, z), cache for two outputs"
            )
        y, cache = given
        return join_outputs(y), (y if type(y) in (tuple, list) or not np.ndim(y) else None, cache)

    def back(dy, kept):
        y, cache = kept
        if y is None:
            return backward(dy, cache)
        parts = split(dy, [np.shape(part) for part in as_tuple(y)])
        return backward(type(y)(parts) if type(y) in (tuple, list) else parts[0], cache)

    return partial(whole, **bound) if bound else whole, back


def place_arguments(names: list[str], given: tuple, held: dict) -> list:
    """All arguments in their order: those that are held, and the others as they are given."""
    others = iter(given)
    return [held[name] if name in held else next(others) for name in names]


def bound_by_keyword(forward: Callable, names: list[str], held: dict) -> Callable:
    function, bound = unwrap(forward)

    @wraps(function)
    def of_the_others(*given, **keywords):
        data = {name: keywords.pop(name) for name in held}
        return function(*place_arguments(names, given, data), **keywords)

    shown = [p for p in parameters(function) if p.name not in held]
    shown += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in held]
    of_the_others.__signature__ = inspect.Signature(sorted(shown, key=lambda p: p.kind))
    return partial(of_the_others, **bound, **held)


def without_integers(forward, backward, args: tuple, reference) -> tuple:
    """The same four with arrays of integers bound to the forward: they are data, and no gradient
    is asked for them.

    Errors: ValueError, when backward is called, if it has a gradient for one of them.
    """
    names = argument_names(forward, len(args))
    held = {n: a for n, a in zip(names, args, strict=True) if is_integer(a)}
    if not held:
        return forward, backward, args, reference

    @wraps(reference)
    def in_torch(*given, **keywords):
        data = {name: torch.tensor(a) for name, a in held.items()}
        kept = {name: value for name, value in keywords.items() if name not in held}
        return reference(*place_arguments(names, given, data), **kept)

    def of_the_others(dy, cache) -> tuple:
        gradients = as_tuple(backward(dy, cache))
        pairs = [*zip(names, gradients, strict=False)] if len(gradients) == len(names) else []
        for name in [n for n, gradient in pairs if n in held and gradient is not None]:
            raise ValueError(
                f"{name} must be an array of float64 where it has a gradient, but got "
                f"{held[name].dtype}; try numpy.asarray({name}, dtype=float), or let backward "
                f"return None for it"
            )
        return tuple(g for n, g in pairs if n not in held) if pairs else gradients

    floats = tuple(a for a in args if not is_integer(a))
    forward = bound_by_keyword(forward, names, held)
    return forward, of_the_others, floats, reference and in_torch
