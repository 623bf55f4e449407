"""The witnesses: independent ways to find a gradient, and what they say of a shipped one.

They never import a layer; they are given functions.
"""

try:
    import sympy
    import torch
except ImportError as missing:
    raise ImportError(
        f"expected sympy and torch for normlib.verify, found no {missing.name}; "
        f"install them with: pip install 'normlib[verify]'"
    ) from None

from normlib.verify.derivations import Derivation
from normlib.verify.layer import layer
from normlib.verify.numeric import Flat, central_differences, complex_step, properties
from normlib.verify.planted import Plant, PlantingError, falsify, plant, planted_errors
from normlib.verify.problem import Problem
from normlib.verify.run import backward
from normlib.verify.symbolic import exact, general_size
from normlib.verify.torch_layer import from_torch
from normlib.verify.verdict import Check, Verdict, VerificationError
