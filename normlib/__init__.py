"""normlib: the library behind the book on normalization layers."""

from typing import TYPE_CHECKING

from normlib.layers import (
    apply_scaling,
    batch_norm,
    batch_norm_backward,
    batch_norm_inference,
    batch_norm_inference_backward,
    fit_min_max,
    fit_standard,
    group_norm,
    group_norm_backward,
    instance_norm,
    instance_norm_backward,
    layer_norm,
    layer_norm_backward,
    mean_only_batch_norm,
    mean_only_batch_norm_backward,
    partial_rms_norm,
    partial_rms_norm_backward,
    power_iteration,
    rms_norm,
    rms_norm_backward,
    spectral_norm,
    spectral_norm_backward,
    standardize,
    standardize_backward,
    update_running,
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
__version__ = "0.2.0"

if not TYPE_CHECKING:  # a type checker knows these packages, and would take any other name for one

    def __getattr__(name):
        """Import a part that needs more than NumPy when it is asked for, such as normlib.verify."""
        if name in ("audit", "distributed", "evidence", "fused", "recipes", "verify"):
            from importlib import import_module

            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
