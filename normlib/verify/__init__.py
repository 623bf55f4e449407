"""The witnesses: independent ways to find a gradient, and what they say of a shipped one.

They never import a layer; they are given functions.
"""

from normlib.verify.derivations import Derivation
from normlib.verify.numeric import Flat, central_differences, complex_step, properties
from normlib.verify.planted import falsify, planted_errors
from normlib.verify.problem import Problem
from normlib.verify.run import backward
from normlib.verify.symbolic import exact, general_size
from normlib.verify.verdict import Check, Verdict, VerificationError
