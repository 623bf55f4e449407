"""Batch normalization over processes: every worker normalizes its part of one batch.

An extra on `torch.distributed`; gloo runs it on any machine. `launch` starts the workers of one
machine; under another launcher the layer works the same, in the group that it set up.
"""

try:
    import torch
except ImportError:
    raise ImportError(
        "expected torch for normlib.distributed, found none; install it with: "
        "pip install 'normlib[distributed]'"
    ) from None

from normlib.distributed.batch import batch_norm, batch_norm_backward
from normlib.distributed.engine import PeerError
from normlib.distributed.launcher import WorkerError, launch
from normlib.distributed.module import BatchNorm

__all__ = [
    "BatchNorm",
    "PeerError",
    "WorkerError",
    "batch_norm",
    "batch_norm_backward",
    "launch",
]
