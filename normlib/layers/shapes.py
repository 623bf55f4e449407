"""Which axes a layer means, and which shapes its parameters must have."""

from normlib.layers.core import Array
from normlib.layers.guard import check_array, check_shape


def batch_axes(x: Array) -> tuple[int, ...]:
    """All axes but the channels': (0,) for (N, C), (0, 2, 3) for (N, C, H, W)."""
    return (0, *range(2, x.ndim))


def per_channel(parameter: Array, x: Array) -> Array:
    """(C,) as (1, C, 1, ...), to stand beside x."""
    return parameter.reshape(1, -1, *[1] * (x.ndim - 2))


def check_channels(x: Array, **parameters: Array) -> None:
    check_array("x", x, min_ndim=2, form="(N, C, *spatial)")
    for name, parameter in parameters.items():
        why = f"one value for each channel of x {tuple(x.shape)}"
        check_shape(name, parameter, (x.shape[1],), why)


def last_axes(x: Array, gamma: Array) -> tuple[int, ...]:
    """The axes that gamma spans: its own number, counted from the end of x."""
    return tuple(range(x.ndim - gamma.ndim, x.ndim))


def leading_axes(x: Array, gamma: Array) -> tuple[int, ...]:
    """All axes before those that gamma spans."""
    return tuple(range(x.ndim - gamma.ndim))


def check_trailing(x: Array, **parameters: Array) -> None:
    check_array("x", x, min_ndim=1, form="(*leading, *features)")
    for name, parameter in parameters.items():
        check_array(name, parameter, min_ndim=1, form="(*features,)")
        shape = tuple(x.shape)[max(x.ndim - parameter.ndim, 0) :]
        check_shape(name, parameter, shape, f"the last axes of x {tuple(x.shape)}")
