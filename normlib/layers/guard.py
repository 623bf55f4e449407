"""What every layer asks of its input, in one place.

The guard is duck-typed: anything with a shape and a dtype passes, so that arrays of
SymPy symbols, complex arrays and torch tensors do. Each message says what was
expected, what it got, and the likely fix.
"""

from typing import Any

import numpy as np


def has_fractions(dtype: Any) -> bool:
    """Floats, complex numbers and objects in NumPy; elsewhere the name tells, as in
    torch.float32 and bfloat16."""
    if getattr(dtype, "kind", "") in {*"fcO"}:
        return True
    return any(word in str(dtype) for word in ("float", "complex"))


def check_array(name: str, x: Any, *, min_ndim: int = 0, form: str = "") -> None:
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        raise ValueError(
            f"{name} must be an array, but got a {type(x).__name__}; "
            f"try numpy.asarray({name}, dtype=float)"
        )
    if not hasattr(x, "mean"):  # an array of the bare standard has functions only
        raise ValueError(
            f"{name} must be an array with methods such as mean, as in NumPy and "
            f"torch, but got a {type(x).__name__}; try numpy.asarray({name})"
        )
    if not has_fractions(x.dtype):
        raise ValueError(
            f"{name} must hold floating-point numbers, but its dtype is {x.dtype}; "
            f"try {name}.astype(float), or {name}.double() for a tensor"
        )
    if x.ndim < min_ndim:
        raise ValueError(
            f"{name} must have the shape {form}, but got {tuple(x.shape)}; "
            f"a single sample needs a leading axis: {name}[None]"
        )


def check_shape(name: str, x: Any, shape: tuple[int, ...], why: str) -> None:
    check_array(name, x)
    if tuple(x.shape) != tuple(shape):
        raise ValueError(
            f"{name} must have the shape {tuple(shape)}, {why}, but got "
            f"{tuple(x.shape)}; check the order of the arguments, or reshape {name}"
        )


def check_like(name: str, x: Any, like: Any) -> None:
    check_shape(name, x, like.shape, "that of the forward pass")


def check_cache(cache: Any, kind: type) -> None:
    if not isinstance(cache, kind):
        raise ValueError(
            f"cache must be the {kind.__name__} that the forward pass returned, "
            f"but got a {type(cache).__name__}; pass (dy, cache) in this order"
        )


def check_axes(x: Any, axes: tuple[int, ...]) -> tuple[int, ...]:
    given = axes if isinstance(axes, (tuple, list)) else (axes,)
    if any(
        isinstance(axis, bool) or not isinstance(axis, (int, np.integer))
        for axis in given
    ):
        raise ValueError(
            f"axes must be an integer or a tuple of them, but got {axes!r}; "
            f"try axes={tuple(range(x.ndim))}"
        )
    axes = tuple(int(axis) for axis in given)
    if not axes or any(not -x.ndim <= axis < x.ndim for axis in axes):
        raise ValueError(
            f"axes must name at least one axis of x, whose shape is "
            f"{tuple(x.shape)}, but got {axes}; axes run from {-x.ndim} to "
            f"{x.ndim - 1}"
        )
    axes = tuple(axis % x.ndim for axis in axes)
    if len(set(axes)) < len(axes):
        raise ValueError(
            f"axes must differ from each other, but got {axes}; name each once"
        )
    if any(x.shape[axis] == 0 for axis in axes):
        raise ValueError(
            f"x must have at least one value along the axes {axes}, but its shape "
            f"is {tuple(x.shape)}; a mean of nothing is undefined, so leave empty "
            f"batches out"
        )
    return axes


def check_number(
    name: str, value: Any, low: float, high: float = float("inf")
) -> Any:
    """A real number is checked and made a float; a symbol or a tensor passes."""
    if isinstance(value, bool) or value is None or hasattr(value, "__len__"):
        raise ValueError(
            f"{name} must be a number, but got {value!r}; give a single float, "
            f"such as 1e-5"
        )
    if not isinstance(value, (int, float, np.number)):
        return value
    if not low <= value <= high or value == float("inf"):
        raise ValueError(
            f"{name} must lie between {low} and {high}, but got {value}; check its "
            f"sign and the order of the arguments"
        )
    return float(value)  # a numpy.float64 would turn float32 results into float64


def check_eps(eps: Any) -> Any:
    return check_number("eps", eps, 0.0)
