"""The witnesses: independent ways to find a gradient, and what they say of a shipped one.

They never import a layer; they are given functions.
"""

from normlib.verify.numeric import Flat, central_differences, complex_step, properties
from normlib.verify.problem import Problem
from normlib.verify.run import backward
from normlib.verify.symbolic import Derivation, exact, general_size
from normlib.verify.verdict import Check, VerificationError, Verdict
