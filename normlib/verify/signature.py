"""Read the signature of a layer: its arguments, its settings, and data bound to it."""

import inspect
from collections.abc import Callable
from functools import partial

import numpy as np


def parameters(function: Callable) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except ValueError:  # a compiled function may have no signature
        return [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]


def positional_parameters(function: Callable) -> list[inspect.Parameter]:
    """The parameters that can be given by their place."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in parameters(function) if p.kind in kinds]


def positional(function: Callable) -> list[str]:
    return [p.name for p in positional_parameters(function)]


def argument_names(forward: Callable, count: int) -> list[str]:
    """The names of the first `count` arguments. What comes after them has to have a default.

    Errors: ValueError if forward takes fewer arguments, or needs more.
    """
    places = positional_parameters(forward)
    names, rest = [p.name for p in places[:count]], places[count:]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters(forward)):
        names += [f"argument_{n}" for n in range(len(names), count)]
    needed = [p.name for p in places if p.default is p.empty]
    if len(names) < count or any(p.default is p.empty for p in rest):
        raise ValueError(
            f"args must hold one array for each of {needed or names}, but got {count}; give other "
            f"parameters by settings={{'eps': 1e-3}}, or bind them with functools.partial"
        )
    return names


def keyword_only(forward: Callable) -> dict:
    """The keyword-only parameters, with the values in use: their defaults, or what
    functools.partial has bound."""
    return {
        p.name: p.default
        for p in parameters(forward)
        if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
    }


def settings(forward: Callable, arguments: list[str]) -> dict:
    """What forward is set to beside its arguments, such as eps: the values in use."""
    places = {p.name: p.default for p in positional_parameters(forward) if p.name not in arguments}
    return places | keyword_only(forward)


def keep_named(function: Callable, keywords: dict) -> dict:
    """Those of the keywords that a function names."""
    names = {p.name for p in parameters(function)}
    return {name: value for name, value in keywords.items() if name in names}


def unwrap(forward: Callable) -> tuple[Callable, dict]:
    """A function, and the keywords that functools.partial has bound to it."""
    bound = isinstance(forward, partial) and not forward.args
    return (forward.func, forward.keywords) if bound else (forward, {})


def data(forward: Callable) -> dict[str, np.ndarray]:
    """Arrays that are bound by keyword: data, for which no gradient is asked."""
    keywords = getattr(forward, "keywords", {})
    return {name: value for name, value in keywords.items() if isinstance(value, np.ndarray)}


def as_called(reference: Callable, forward: Callable, count: int) -> Callable:
    """The reference, with those settings of a forward of `count` arguments that it names: its
    eps is the forward's."""
    named = keep_named(reference, settings(forward, argument_names(forward, count)))
    return partial(reference, **named) if named else reference


def above_zero(forward: Callable, count: int, varied: tuple[str, ...]) -> dict[str, float]:
    """The settings that are named as `varied`, where they are above 0. The exact witnesses put
    a positive symbol in their place, the properties 0; every other number stays what it is.

    Errors: ValueError for a name that is no setting of forward.
    """
    found = settings(forward, argument_names(forward, count))
    unknown = [name for name in varied if name not in found]
    if unknown:
        raise ValueError(
            f"varied must name settings of forward, among {list(found)}, but got {unknown}; "
            f"a tuple is needed: varied=('eps',)"
        )
    return {name: found[name] for name in varied if found[name] > 0}
