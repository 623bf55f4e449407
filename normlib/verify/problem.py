"""What goes to the witnesses: a layer, its arguments and a random upstream gradient."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

TINY = 1e-200  # the complex step: its square vanishes beside any number, so nothing is rounded


def as_tuple(value) -> tuple:
    """Layers with one argument return its gradient alone. A NamedTuple is not meant."""
    return value if type(value) is tuple else (value,)


def positional(forward: Callable) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(forward).parameters.values()
    return [p.name for p in parameters if p.kind in kinds]


def keyword_only(forward: Callable) -> dict:
    """The keyword-only parameters, with the values in use: their defaults, or what
    functools.partial has bound."""
    parameters = inspect.signature(forward).parameters.values()
    return {
        p.name: p.default
        for p in parameters
        if p.kind is p.KEYWORD_ONLY and p.default is not p.empty
    }


def varied(forward: Callable) -> dict[str, float]:
    """eps, where the layer has one above 0: a symbol for the exact witness, 0 for the properties.
    It is known by its name; another number that a layer takes stays what it is."""
    return {n: v for n, v in keyword_only(forward).items() if n == "eps" and v > 0}


def taken(function: Callable, keywords: dict) -> dict:
    """Those of the keywords that a function names."""
    try:
        names = inspect.signature(function).parameters
    except ValueError:  # a compiled function may have no signature
        names = ()
    return {name: value for name, value in keywords.items() if name in names}


def data(forward: Callable) -> dict[str, np.ndarray]:
    """Arrays that the caller has bound by keyword: data, for which no gradient is asked."""
    keywords = getattr(forward, "keywords", {})
    return {name: value for name, value in keywords.items() if isinstance(value, np.ndarray)}


def spread(a: np.ndarray) -> float:
    """The natural unit of an argument: how far its values lie apart along the axis along which
    they lie closest, rounding aside; or their size, where they are all alike."""
    size = float(np.max(np.abs(a)))
    along = [np.sqrt(np.mean(np.var(a, axis=n))) for n in range(a.ndim) if a.shape[n] > 1]
    return min((float(s) for s in along if s > 1e-7 * size), default=size) or 1.0


def as_called(reference: Callable, forward: Callable) -> Callable:
    """The reference, with the keywords in use that it names: its eps is the forward's."""
    named = taken(reference, keyword_only(forward))
    return partial(reference, **named) if named else reference


class Steps(NamedTuple):
    """What complex steps find, for one argument."""

    gradient: np.ndarray
    terms: np.ndarray  # for each entry the sum of the absolute terms of its gradient
    reached: dict[bytes, list[int]]  # which outputs are moved, as bits: the entries that do so


@dataclass(frozen=True)
class Problem:
    """A layer with everything the witnesses need, computed once."""

    forward: Callable
    backward: Callable
    args: tuple[np.ndarray, ...]
    rng: np.random.Generator
    reference: Callable | None = None
    zero: tuple[str, ...] = ()
    reference_twice: bool = True

    def __post_init__(self):
        if not isinstance(self.rng, np.random.Generator):
            raise ValueError(
                f"rng must be a numpy Generator, but got {type(self.rng).__name__}; "
                f"try numpy.random.default_rng(0)"
            )
        for name, a in zip(self.names, self.args, strict=True):
            if not (isinstance(a, np.ndarray) and a.dtype == np.float64):
                kind = getattr(a, "dtype", type(a).__name__)
                raise ValueError(
                    f"{name} must be a NumPy array of float64, for the bounds are calibrated for "
                    f"it, but got {kind}; try numpy.asarray({name}, dtype=float)"
                )
        unknown = [name for name in self.zero if name not in self.names]
        if unknown:
            raise ValueError(
                f"zero must name arguments among {self.names}, but got {unknown}; "
                f"write x, not dx, and a tuple: zero=('x',)"
            )

    @cached_property
    def names(self) -> list[str]:
        names = positional(self.forward)
        if len(names) != len(self.args):
            raise ValueError(
                f"args must hold one array for each of {names}, but got {len(self.args)}; bind "
                f"keyword parameters with functools.partial"
            )
        return names

    @cached_property
    def in_torch(self) -> Callable | None:
        return self.reference and as_called(self.reference, self.forward)

    @cached_property
    def y(self) -> np.ndarray:
        pair = self.forward(*self.args)
        if type(pair) is not tuple or len(pair) != 2:
            raise ValueError(
                f"forward must return the pair y, cache, but got a {type(pair).__name__}; "
                f"return y, None if backward needs no cache"
            )
        return pair[0]

    @cached_property
    def dy(self) -> np.ndarray:
        # a stream of its own, for x may have been drawn from another generator of the same seed
        return self.rng.spawn(1)[0].standard_normal(self.y.shape)

    @cached_property
    def gradients(self) -> tuple[np.ndarray, ...]:
        """What the shipped backward says, one gradient for each argument."""
        return self.gradients_for(self.dy, self.forward(*self.args)[1])

    def gradients_for(self, dy: np.ndarray, cache) -> tuple[np.ndarray, ...]:
        """One call of the shipped backward, its answer checked."""
        given = self.backward(dy, cache)
        gradients = as_tuple(given)
        if len(gradients) != len(self.args):
            kind = type(given)
            got = str(len(gradients)) if kind is tuple else f"a {kind.__name__}"
            raise ValueError(
                f"backward must return a tuple with one gradient for each of {self.names}, "
                f"but got {got}; return them in the order of forward's arguments"
            )
        for name, gradient in zip(self.names, gradients, strict=True):
            if not hasattr(gradient, "shape"):
                raise ValueError(
                    f"d{name} must be an array, but got a {type(gradient).__name__}; "
                    f"a gradient that is zero is an array of zeros"
                )
        return gradients

    @cached_property
    def steps(self) -> list[Steps]:
        return [self._step(index) for index in range(len(self.args))]

    def _step(self, index: int) -> Steps:
        gradient, terms = (np.empty(self.args[index].shape) for _ in range(2))
        args, reached = list(self.args), {}
        args[index] = args[index].astype(complex)
        for place, entry in enumerate(np.ndindex(gradient.shape)):
            args[index][entry] += TINY * 1j
            column = self.forward(*args)[0].imag / TINY * self.dy
            args[index][entry] -= TINY * 1j
            gradient[entry], terms[entry] = column.sum(), np.abs(column).sum()
            reached.setdefault(np.packbits(column != 0).tobytes(), []).append(place)
        return Steps(gradient, terms, reached)

    @cached_property
    def scales(self) -> list[float]:
        """The size of the terms that cancel, for each argument: every error is relative to it.

        Where the layer is flat and all terms vanish, the natural unit of a derivative remains.
        """
        reach = float(np.max(np.abs(self.dy)) * (np.std(self.y) or np.max(np.abs(self.y)) or 1.0))
        return [
            max(float(np.max(steps.terms)), reach / spread(a))
            for a, steps in zip(self.args, self.steps, strict=True)
        ]
