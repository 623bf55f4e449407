"""The layers: pure functions in pairs, forward and backward, in NumPy alone."""

from normlib.layers.batch import (
    batch_norm,
    batch_norm_backward,
    batch_norm_inference,
    batch_norm_inference_backward,
    update_running,
)
from normlib.layers.core import standardize, standardize_backward

__all__ = [
    "batch_norm",
    "batch_norm_backward",
    "batch_norm_inference",
    "batch_norm_inference_backward",
    "standardize",
    "standardize_backward",
    "update_running",
]
