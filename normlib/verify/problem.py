"""What goes to the witnesses: a layer, its arguments and a random upstream gradient."""

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

TINY = 1e-200  # the complex step: its square vanishes beside any number, so nothing is rounded


class Bounds(NamedTuple):
    """How far two sides may be apart, relative to the size of the terms that cancel; calibrated
    in tests/test_calibration.py."""

    rounding: float
    central: float


DOUBLE, SINGLE = Bounds(1e-10, 1e-7), Bounds(1e-4, 1e-2)


def as_tuple(value) -> tuple:
    """Layers with one argument return its gradient alone. A NamedTuple is not meant."""
    return value if type(value) is tuple else (value,)


def parameters(forward: Callable) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(forward).parameters.values())
    except ValueError:  # a compiled function may have no signature
        return [inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)]


def in_place(forward: Callable) -> list[inspect.Parameter]:
    """The parameters that can be given by their place."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p for p in parameters(forward) if p.kind in kinds]


def positional(forward: Callable) -> list[str]:
    return [p.name for p in in_place(forward)]


def argument_names(forward: Callable, count: int) -> list[str]:
    """The names of the first `count` arguments. What comes after them has to have a default.

    Errors: ValueError if forward takes fewer arguments, or needs more.
    """
    places = in_place(forward)
    names, rest = [p.name for p in places[:count]], places[count:]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters(forward)):
        names += [f"argument_{n}" for n in range(len(names), count)]
    needed = [p.name for p in places if p.default is p.empty]
    if len(names) < count or any(p.default is p.empty for p in rest):
        raise ValueError(
            f"args must hold one array for each of {needed or names}, but got {count}; bind "
            f"keyword parameters with functools.partial"
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
    places = {p.name: p.default for p in in_place(forward) if p.name not in arguments}
    return places | keyword_only(forward)


def taken(function: Callable, keywords: dict) -> dict:
    """Those of the keywords that a function names."""
    names = {p.name for p in parameters(function)}
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


def central_step(a: np.ndarray) -> float:
    """The step at which rounding and truncation are equal, for a function that varies over
    `spread(a)`: the cube root of 3 times the machine epsilon, in that unit."""
    return float(3 * np.finfo(a.dtype).eps) ** (1 / 3) * spread(a)


def central_columns(f: Callable, a: np.ndarray) -> Iterator[tuple[tuple, np.ndarray]]:
    """For every entry of `a` its index, and (f(a + h) - f(a - h)) / 2h; f returns an array."""
    a, h = a.copy(), central_step(a)
    for entry in np.ndindex(a.shape):
        middle = a[entry]
        a[entry] = up = middle + h
        above = f(a)
        a[entry] = down = middle - h
        yield entry, (above.astype(float) - f(a)) / float(up - down)
        a[entry] = middle


def is_single(a) -> bool:
    return isinstance(a, np.ndarray) and a.dtype == np.float32


def described(a) -> str:
    """What came in place of an array: float32, list, torch.float64 in a Tensor."""
    if isinstance(a, np.ndarray):
        return str(a.dtype)
    kind = type(a).__name__
    return (
        f"{a.dtype} in {type(a).__module__.partition('.')[0]}'s {kind}"
        if hasattr(a, "dtype")
        else kind
    )


def reason(error: Exception) -> str:
    """An error in one short line."""
    line = (str(error).splitlines() or [""])[0]
    line = line if len(line) <= 48 else line[:45] + "..."
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def as_called(reference: Callable, forward: Callable, count: int) -> Callable:
    """The reference, with those settings of a forward of `count` arguments that it names: its
    eps is the forward's."""
    named = taken(reference, settings(forward, argument_names(forward, count)))
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


class Steps(NamedTuple):
    """What steps find, for one argument."""

    gradient: np.ndarray | None  # by complex steps alone
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
    varied: tuple[str, ...] = ()

    def __post_init__(self):
        if not isinstance(self.rng, np.random.Generator):
            raise ValueError(
                f"rng must be a numpy Generator, but got {type(self.rng).__name__}; "
                f"try numpy.random.default_rng(0)"
            )
        wanted = np.float32 if all(is_single(a) for a in self.args) else np.float64
        for name, a in zip(self.names, self.args, strict=True):
            if not (isinstance(a, np.ndarray) and a.dtype == wanted):
                raise ValueError(
                    f"{name} must be a NumPy array of float64, or all arguments of float32, for "
                    f"the bounds are calibrated for these, but got {described(a)}; "
                    f"try numpy.asarray({name}, dtype=float)"
                )
        _ = self.above_zero  # refuses a name that is no setting
        unknown = [name for name in self.zero if name not in self.names]
        if unknown:
            raise ValueError(
                f"zero must name arguments among {self.names}, but got {unknown}; "
                f"write x, not dx, and a tuple: zero=('x',)"
            )

    @cached_property
    def names(self) -> list[str]:
        return argument_names(self.forward, len(self.args))

    @cached_property
    def in_torch(self) -> Callable | None:
        return self.reference and as_called(self.reference, self.forward, len(self.args))

    @property
    def above_zero(self) -> dict[str, float]:
        return above_zero(self.forward, len(self.args), self.varied)

    @cached_property
    def y(self) -> np.ndarray:
        pair = self.forward(*self.args)
        if type(pair) is not tuple or len(pair) != 2:
            raise ValueError(
                f"forward must return the pair y, cache, but got a {type(pair).__name__}; "
                f"return y, None if backward needs no cache"
            )
        if not isinstance(pair[0], np.ndarray):
            raise ValueError(
                f"y must be a NumPy array, but got a {type(pair[0]).__name__}; wrap forward and "
                f"backward so that they return numpy.asarray(...)"
            )
        return pair[0]

    @cached_property
    def dy(self) -> np.ndarray:
        # a stream of its own, for x may have been drawn from another generator of the same seed
        return self.rng.spawn(1)[0].standard_normal(self.y.shape).astype(self.args[0].dtype)

    @property
    def by_torch(self) -> bool:
        """Whether the backward that is tested is torch's own differentiation of the forward."""
        return getattr(getattr(self.forward, "func", self.forward), "by_torch", False)

    @property
    def bounds(self) -> Bounds:
        return SINGLE if is_single(self.args[0]) else DOUBLE

    @property
    def double(self) -> list[np.ndarray]:
        """The arguments in float64, for the witnesses that compute as exactly as they can."""
        return [a.astype(float) for a in self.args]

    @cached_property
    def along(self) -> list[np.ndarray]:
        """One direction in which all arguments can move at once, dense in every entry."""
        rng = np.random.default_rng(0)  # a fixed one, for what a forward takes is no chance
        return [spread(a) * rng.standard_normal(a.shape) for a in self.args]

    @cached_property
    def lacks_complex(self) -> str:
        """Why the complex step cannot be taken; empty where it can.

        Code may run on complex numbers and compute another function there: abs, max, var and
        a conjugate are not analytic. So the slope along one direction is compared with that of
        real numbers. No gradient has a part in this.
        """
        y, slope, rounding = self.y, *self.slope
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", np.exceptions.ComplexWarning)
                found = self.forward(*(a + TINY * 1j * v for a, v in self.moves))[0]
        except Exception as error:
            return f"the forward takes no complex numbers ({reason(error)})"
        if not np.iscomplexobj(found) or np.shape(found) != y.shape:
            return "the forward takes no complex numbers: y is then real, or of another shape"
        near = 10 * self.bounds.central * np.max(np.abs(slope)) + rounding
        far = max(np.max(np.abs(found.imag / TINY - slope)), np.max(np.abs(found.real - y)))
        return "" if far <= near else "not analytic: abs, max, var or a conjugate in the forward?"

    @property
    def slope(self) -> tuple[np.ndarray, float]:
        """How fast y changes while all arguments move, by a central difference, and the rounding
        that is in it."""
        eps = np.finfo(self.y.dtype).eps
        h = float(3 * eps) ** (1 / 3)
        up, down = ([(a + s * h * v).astype(a.dtype) for a, v in self.moves] for s in (1, -1))
        difference = self.forward(*up)[0].astype(float) - self.forward(*down)[0]
        return difference / (2 * h), float(100 * eps / h * np.max(np.abs(self.y)))

    @property
    def moves(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return zip(self.args, self.along, strict=True)

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
        """What complex steps find; central differences where forward takes real numbers only."""
        step = self._difference if self.lacks_complex else self._step
        return [step(index) for index in range(len(self.args))]

    def _difference(self, index: int) -> Steps:
        terms = np.empty(self.args[index].shape)
        before, after = self.args[:index], self.args[index + 1 :]
        y = lambda a: self.forward(*before, a, *after)[0]  # noqa: E731
        for entry, column in central_columns(y, self.args[index]):
            terms[entry] = np.abs(column * self.dy).sum()
        every = np.packbits(np.ones(self.y.size, bool)).tobytes()  # which are reached is not known
        return Steps(None, terms, {every: [*range(terms.size)]})

    def _step(self, index: int) -> Steps:
        gradient, terms = (np.empty(self.args[index].shape) for _ in range(2))
        args = [a.astype(complex) for a in self.args]  # a compiled forward may take no mixture
        reached: dict[bytes, list[int]] = {}
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
