"""RMSNorm: layer normalization without the mean."""

from typing import NamedTuple

from normlib.layers.core import Array, StandardizeCache, standardize, standardize_backward, summed
from normlib.layers.guard import check_cache, check_like
from normlib.layers.layer import check_trailing, last_axes, leading_axes


class RMSNormCache(NamedTuple):
    standardized: StandardizeCache  # xhat as x, rstd with 1 along the last gamma.ndim axes
    gamma: Array  # the last axes of x


def rms_norm(x: Array, gamma: Array, *, eps: float = 1e-6) -> tuple[Array, RMSNormCache]:
    """RMSNorm over the last ``gamma.ndim`` axes.

    y = gamma · xhat,   xhat = x / sqrt(mean(x²) + eps)

    Shapes: `x` and y (*leading, *features); `gamma` (*features,).
    Errors: ValueError for shapes that do not fit, integers, no features, negative `eps`.
    Source: Zhang and Sennrich (2019), equation 4; chapter "Divide by the root mean square".
    """
    check_trailing(x, gamma=gamma)
    xhat, standardized = standardize(x, axes=last_axes(x, gamma), eps=eps, center=False)
    return gamma * xhat, RMSNormCache(standardized, gamma)


def rms_norm_backward(dy: Array, cache: RMSNormCache) -> tuple[Array, Array]:
    """The gradients dx, dgamma from the upstream gradient `dy`.

    dgamma = sum(dy · xhat),   dx = rstd · (d - xhat · mean(d · xhat)),   d = gamma · dy

    Shapes: `dy` and dx as x; dgamma as gamma.
    Errors: ValueError if `dy` is not shaped like y.
    Source: Zhang and Sennrich (2019), section 4; chapter "Divide by the root mean square".
    """
    check_cache(cache, RMSNormCache)
    standardized, gamma = cache
    xhat = standardized.xhat
    check_like("dy", dy, xhat)
    dgamma = summed(dy * xhat, leading_axes(dy, gamma))
    d = gamma * dy
    dx = standardize_backward(d, standardized)
    return dx, dgamma
