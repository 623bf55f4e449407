"""The witnesses: independent ways to find a gradient, and what they say of a shipped one.

They never import a layer; they are given functions.
"""

try:
    import sympy
    import torch
except ImportError as missing:
    raise ImportError(
        f"expected sympy and torch for normlib.verify, found no {missing.name}; "
        f"install them with: pip install 'normlib[verify]'",
        name=__name__,  # so that `python -m` ends in this line, without a traceback
    ) from None

from normlib.verify.derivations import Derivation
from normlib.verify.diagnose import Diagnosis, Finding
from normlib.verify.kernels import kernel
from normlib.verify.lines import Lines
from normlib.verify.numeric import Flat, central_differences, complex_step, properties
from normlib.verify.planted import Plant, PlantingError, falsify, plant, planted_errors
from normlib.verify.problem import Problem
from normlib.verify.run import backward, check, diagnose, layer
from normlib.verify.symbolic import exact, general_size
from normlib.verify.torch_layer import from_torch
from normlib.verify.verdict import Check, Verdict, VerificationError

__all__ = [
    "Check",
    "Derivation",
    "Diagnosis",
    "Finding",
    "Flat",
    "Lines",
    "Plant",
    "PlantingError",
    "Problem",
    "Verdict",
    "VerificationError",
    "backward",
    "central_differences",
    "check",
    "complex_step",
    "diagnose",
    "exact",
    "falsify",
    "from_torch",
    "general_size",
    "kernel",
    "layer",
    "plant",
    "planted_errors",
    "properties",
]
