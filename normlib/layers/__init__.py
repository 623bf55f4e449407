"""The layers: pure functions in pairs, forward and backward, in NumPy alone."""

from normlib.layers.batch import (
    batch_norm,
    batch_norm_backward,
    batch_norm_inference,
    batch_norm_inference_backward,
    update_running,
)
from normlib.layers.core import standardize, standardize_backward
from normlib.layers.group import (
    group_norm,
    group_norm_backward,
    instance_norm,
    instance_norm_backward,
)
from normlib.layers.layer import layer_norm, layer_norm_backward
from normlib.layers.rms import (
    partial_rms_norm,
    partial_rms_norm_backward,
    rms_norm,
    rms_norm_backward,
)
from normlib.layers.scaling import apply_scaling, fit_min_max, fit_standard
from normlib.layers.spectral import (
    power_iteration,
    spectral_norm,
    spectral_norm_backward,
)
from normlib.layers.weight import (
    mean_only_batch_norm,
    mean_only_batch_norm_backward,
    weight_norm,
    weight_norm_backward,
)

__all__ = [
    "apply_scaling",
    "batch_norm",
    "batch_norm_backward",
    "batch_norm_inference",
    "batch_norm_inference_backward",
    "fit_min_max",
    "fit_standard",
    "group_norm",
    "group_norm_backward",
    "instance_norm",
    "instance_norm_backward",
    "layer_norm",
    "layer_norm_backward",
    "mean_only_batch_norm",
    "mean_only_batch_norm_backward",
    "partial_rms_norm",
    "partial_rms_norm_backward",
    "power_iteration",
    "rms_norm",
    "rms_norm_backward",
    "spectral_norm",
    "spectral_norm_backward",
    "standardize",
    "standardize_backward",
    "update_running",
    "weight_norm",
    "weight_norm_backward",
]
