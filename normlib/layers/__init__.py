"""The layers: pure functions in pairs, forward and backward, in NumPy alone.

Each module says in its own __all__ what is public; this package offers all of it.
"""

from importlib import import_module
from pkgutil import iter_modules

_found = {
    name: getattr(module, name)
    for module in (
        import_module(f"{__name__}.{m.name}") for m in iter_modules(__path__)
    )
    for name in getattr(module, "__all__", ())
}
globals().update(_found)
__all__ = sorted(_found)
