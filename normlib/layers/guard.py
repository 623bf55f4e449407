"""Check the input of every layer, in one place.

The guard is duck-typed: anything with a shape and a dtype passes, so that arrays of
SymPy symbols, complex arrays and torch tensors do. Each message says what was
expected, what it got, and the likely fix.
"""

import operator
from numbers import Real
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
    if isinstance(cache, kind):
        return
    expected, got = kind.__name__, type(cache).__name__
    fix = "pass (dy, cache) in this order"
    if expected == got:
        expected, got = (f"{k.__module__}.{got}" for k in (kind, type(cache)))
        fix = "take both passes from one module"
    raise ValueError(
        f"cache must be the {expected} that the forward pass returned, but got a "
        f"{got}; {fix}"
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
    """A real number is checked, and made a float; SymPy's stay exact. A symbol or a
    tensor passes."""
    several = hasattr(value, "__len__") and getattr(value, "ndim", 1)
    if several or isinstance(value, (bool, np.bool_, np.ndarray)) or value is None:
        raise ValueError(
            f"{name} must be a number, but got {value!r}; give a single float, "
            f"such as 1e-5"
        )
    if not isinstance(value, Real):
        return value
    if not low <= value <= high or value == float("inf"):
        raise ValueError(
            f"{name} must lie between {low} and {high}, but got {value}; check its "
            f"sign and the order of the arguments"
        )
    # a numpy.float64 would make float32 results float64, and a Fraction objects
    return value if hasattr(value, "free_symbols") else float(value)


def sees(condition: Any) -> bool:
    """Whether it is true of a value; while JAX compiles, there are none to see."""
    try:
        return bool(condition.any())
    except TypeError:
        return False


def is_no_divisor(size: Any, x: Any) -> bool:
    """Whether a size by which floats of x are divided is 0 or infinite, as a sum of
    squares is that under- or overflows."""
    is_float = "float" in str(x.dtype)
    return is_float and (sees(size == 0) or sees(abs(size) == float("inf")))


def check_eps(eps: Any) -> Any:
    return check_number("eps", eps, 0.0)


def check_count(name: str, value: Any, fix: str) -> int:
    """A whole number of at least 1, also one of NumPy's."""
    try:
        is_count = operator.index(value) >= 1
    except TypeError:
        is_count = False
    if not is_count or isinstance(value, (bool, np.bool_)):
        raise ValueError(
            f"{name} must be a whole number of at least 1, but got {value!r}; {fix}"
        )
    return operator.index(value)
