"""The evidence for each layer: one module for each layer, and in it one Case or more.

The cases are found here, so a new module is enough. Each is an attribute by the name of its layer,
such as `evidence.batch_norm`, and CASES holds them all, in the order of the modules' names.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pkgutil import iter_modules

from normlib.evidence.case import Case

CASES: tuple[Case, ...] = tuple(
    value
    for module in iter_modules(__path__)
    for value in vars(import_module(f"{__name__}.{module.name}")).values()
    if isinstance(value, Case)
)


def __getattr__(name: str) -> Case:
    found = {case.name: case for case in CASES}
    if name not in found:
        raise AttributeError(f"expected a layer among {sorted(found)}, got {name!r}")
    return found[name]


def of(forward: Callable) -> dict:
    """Options of `verify.check`, for a layer with the keywords that are bound to it."""
    bound = forward.keywords if isinstance(forward, partial) else {}
    return __getattr__(getattr(forward, "func", forward).__name__)(**bound)
