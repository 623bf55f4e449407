"""Hold what the witnesses are given: a layer, its arguments and a random upstream gradient."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from normlib.verify.pair import as_tuple, join_outputs, with_one_output, without_integers
from normlib.verify.signature import (
    above_zero,
    argument_names,
    as_called,
    keep_named,
    settings,
    unwrap,
)

TINY = 1e-200  # the complex step: its square vanishes beside any number, so nothing is rounded
HALVINGS = 4  # of a step: it has to become shorter than the way to a kink


class Bounds(NamedTuple):
    """How far two sides may be apart, relative to the size of the terms that cancel; calibrated
    in tests/library/test_calibration.py."""

    rounding: float
    central: float


ROUNDINGS = 8  # that a small gradient may be off; layers of two values reach 2 at eps = 1e-5
DOUBLE, SINGLE = Bounds(1e-10, 1e-7), Bounds(1e-4, 1e-2)


def spread(a: np.ndarray) -> float:
    """The natural unit of an argument: the smallest of its standard deviations along one axis,
    rounding aside; or its size, where all its values are alike."""
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


def slopes(quotient: Callable, h: float, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """The lowest and the highest slope of each output at 0: the same to rounding, but on a kink.

    `quotient(step)` is (f(step) - f(0)) / step. Each halving of the step gives three estimates:
    from the right, from the left, both as 2q(h/2) - q(h), and from both sides by Richardson's
    extrapolation. A smooth f changes them by more than they are off. A kink between -h and h is
    seen by one side alone, which changes, too; what it does to their mean is no more than the
    mean changes, and half of the distance between the sides. So these are the errors, with that
    of rounding: the changes of two halvings, for in one a kink and a curvature may cancel. The
    estimates count whose error is at most three times the smallest.
    """
    found, errors, before = [], [], [np.inf] * 3
    right, left = quotient(h), quotient(-h)
    for _ in range(HALVINGS):
        h /= 2
        nearer_right, nearer_left = quotient(h), quotient(-h)
        both, nearer = (right + left) / 2, (nearer_right + nearer_left) / 2
        one, other = 2 * nearer_right - right, 2 * nearer_left - left
        found += [one, other, nearer + (nearer - both) / 3]
        changes = [np.abs(nearer_right - right), np.abs(nearer_left - left)]
        changes += [np.abs(nearer - both) + np.abs(one - other) / 2]
        errors += [now + last + rounding / h for now, last in zip(changes, before, strict=True)]
        right, left, before = nearer_right, nearer_left, changes
    errors = np.where(np.isnan(errors), np.inf, errors)
    counts = errors / 3 <= errors.min(axis=0)
    low, high = (np.where(counts, found, beyond) for beyond in (np.inf, -np.inf))
    return low.min(axis=0), high.max(axis=0)


@contextmanager
def complex_kept() -> Iterator[None]:
    """An error, where NumPy drops an imaginary part with a warning: the step would be lost."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        yield


def is_single(a) -> bool:
    return isinstance(a, np.ndarray) and a.dtype == np.float32


def describe_kind(a) -> str:
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


@cache
def call_cached(function: Callable, *keywords: tuple):
    return function(**dict(keywords))


def with_settings(value, known: dict):
    """What is given, or what it returns for those of the settings that it names."""
    return call_cached(value, *keep_named(value, known).items()) if callable(value) else value


class Steps(NamedTuple):
    """What steps find, for one argument."""

    gradient: np.ndarray | None  # by complex steps alone
    terms: np.ndarray  # for each entry the sum of the absolute terms of its gradient
    reached: dict[bytes, list[int]]  # which outputs are moved, as bits: the entries that do so


@dataclass
class Problem:
    """A layer with everything the witnesses need, computed once. For the arguments see `check`."""

    forward: Callable
    backward: Callable
    args: tuple[np.ndarray, ...]
    rng: np.random.Generator
    reference: Callable | None = None
    zero: tuple[str, ...] = ()
    reference_twice: bool = True
    varied: tuple[str, ...] = ()
    small: tuple | Callable | None = ()
    derivation: Callable | tuple | None = None
    flat: Callable | tuple | None = None

    def __post_init__(self):
        if not isinstance(self.rng, np.random.Generator):
            raise ValueError(
                f"rng must be a numpy Generator, but got {type(self.rng).__name__}; "
                f"try numpy.random.default_rng(0)"
            )
        args = tuple(np.array(a) if isinstance(a, np.ndarray) else a for a in self.args)
        pair = with_one_output(self.forward, self.backward)
        self.forward, self.backward, self.args, self.reference = without_integers(
            *pair, args, self.reference
        )
        self.names = argument_names(self.forward, len(self.args))
        self.check_arguments()
        self.above_zero = above_zero(self.forward, len(self.args), self.varied)
        known = settings(self.forward, self.names)
        self.small, self.derivation, self.flat = (
            with_settings(value, known) for value in (self.small, self.derivation, self.flat)
        )

    def check_arguments(self) -> None:
        wanted = np.float32 if all(is_single(a) for a in self.args) else np.float64
        for name, a in zip(self.names, self.args, strict=True):
            if not (isinstance(a, np.ndarray) and a.dtype == wanted):
                raise ValueError(
                    f"{name} must be a NumPy array of float64, or all arguments of float32, for "
                    f"the bounds are calibrated for these, but got {describe_kind(a)}; "
                    f"try numpy.asarray({name}, dtype=float)"
                )
            if a.size == 0:
                raise ValueError(
                    f"{name} must hold at least one number, but got the shape {a.shape}; "
                    f"for none there is nothing to compare"
                )
        unknown = [name for name in self.zero if name not in self.names]
        if unknown:
            raise ValueError(
                f"zero must name arguments among {self.names}, but got {unknown}; "
                f"write x, not dx, and a tuple: zero=('x',)"
            )

    @cached_property
    def in_torch(self) -> Callable | None:
        """The reference, with one output."""
        reference = self.reference and as_called(self.reference, self.forward, len(self.args))
        return reference and (lambda *tensors: join_outputs(reference(*tensors)))

    @cached_property
    def y(self) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            y = self.forward(*map(np.array, self.args))[0]
        if not isinstance(y, np.ndarray) or y.dtype.kind != "f":
            raise ValueError(
                f"y must be a NumPy array, but got a {describe_kind(y)}; wrap forward and "
                f"backward so that they return numpy.asarray(...)"
            )
        if not np.all(np.isfinite(y)):
            at = tuple(map(int, np.unravel_index(np.argmin(np.isfinite(y)), y.shape)))
            raise ValueError(
                f"y must be finite, but got {y[at]} at entry {list(at)} of the forward pass; give "
                f"other args, or name the arguments that have to be above 0: positive=('x',), "
                f"on the command line --positive x"
            )
        return y

    @cached_property
    def dy(self) -> np.ndarray:
        # a stream of its own, for x may have been drawn from another generator of the same seed
        return self.rng.spawn(1)[0].standard_normal(self.y.shape).astype(self.args[0].dtype)

    @property
    def by_torch(self) -> bool:
        """Whether the backward that is tested is torch's own differentiation of the forward."""
        return getattr(unwrap(self.forward)[0], "by_torch", False)

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

    def moved(self, step: complex) -> list[np.ndarray]:
        """The arguments after a step along this direction."""
        pairs = zip(self.args, self.along, strict=True)
        kind = complex if isinstance(step, complex) else self.args[0].dtype
        return [np.asarray(a + step * v, dtype=kind) for a, v in pairs]

    @property
    def rounding(self) -> float:
        """That of y, as a number."""
        return float(np.finfo(self.y.dtype).eps * np.max(np.abs(self.y)))

    @cached_property
    def lacks_complex(self) -> str:
        """Why the complex step cannot be taken; empty where it can.

        Code may run on complex numbers and compute another function there: abs, max, var and
        a conjugate are not analytic. So the slope along one direction is compared with that of
        real numbers. No gradient has a part in this.
        """
        y = self.y
        try:
            with complex_kept():
                found = self.forward(*self.moved(TINY * 1j))[0]
        except Exception as error:
            return f"the forward takes no complex numbers ({reason(error)})"
        if not np.iscomplexobj(found) or np.shape(found) != y.shape:
            return "the forward takes no complex numbers: y is then real, or of another shape"
        h = central_step(np.ones(1, y.dtype))
        quotient = lambda step: (self.forward(*self.moved(step))[0].astype(float) - y) / step  # noqa: E731
        low, high = slopes(quotient, h, self.rounding)
        near = 10 * self.bounds.central * max(np.max(np.abs(low)), np.max(np.abs(high)))
        near += 100 * self.rounding / h
        by_step = found.imag / TINY
        far = max(np.max(low - by_step), np.max(by_step - high), np.max(np.abs(found.real - y)))
        return "" if far <= near else "not analytic: abs, max, var or a conjugate in the forward?"

    def slopes_of(self, index: int, place: int) -> tuple[float, float]:
        """The lowest and the highest slope of the loss along one entry of an argument."""
        before, a, after = self.args[:index], self.args[index].copy(), self.args[index + 1 :]
        middle = float(a.flat[place])

        def quotient(step: float) -> np.ndarray:
            a.flat[place] = middle + step
            y = self.forward(*before, a, *after)[0].astype(float)
            with np.errstate(invalid="ignore"):  # a step that is lost in rounding gives nan
                return (y - self.y) / (float(a.flat[place]) - middle)

        ends = np.multiply(slopes(quotient, central_step(a), self.rounding), self.dy)
        return float(ends.min(axis=0).sum()), float(ends.max(axis=0).sum())

    @cached_property
    def gradients(self) -> tuple[np.ndarray, ...]:
        """What the shipped backward says, one gradient for each argument."""
        return self.gradients_for(self.dy, self.forward(*self.args)[1])

    def gradients_for(self, dy: np.ndarray, cache) -> tuple[np.ndarray, ...]:
        """One call of the shipped backward, its answer checked."""
        given = self.backward(dy, cache)
        gradients = as_tuple(given)
        if len(gradients) != len(self.args):
            got = f"a {type(given).__name__}" if len(gradients) == 1 else str(len(gradients))
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

    @property
    def noises(self) -> list[float]:
        """What rounding leaves of terms that cancel, in units of `scales`: it moves each argument
        and y by an eps of their size, and the gradient by as much in its natural unit."""
        reach, unit = np.max(np.abs(self.dy)) * np.max(np.abs(self.y)), np.finfo(self.dy.dtype).eps
        return [
            float(ROUNDINGS * unit / spread(a) * (np.max(np.abs(a)) + reach / scale))
            for a, scale in zip(self.args, self.scales, strict=True)
        ]

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
