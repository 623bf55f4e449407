"""normlib: the library behind the book on normalization layers."""

from normlib import layers
from normlib.layers import *  # noqa: F403  (the layers' own __all__)

__all__ = list(layers.__all__)
