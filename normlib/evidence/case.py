"""A layer together with everything that it is confirmed with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from normlib.verify.derivations import Derivation, Shapes
from normlib.verify.lines import Lines
from normlib.verify.numeric import Flat
from normlib.verify.planted import Plant, Planted, planted_errors
from normlib.verify.signature import keep_named, keyword_only, positional


def away_from_zero(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0.5, 2, shape) * rng.choice([-1.0, 1.0], shape)


# How arguments are drawn, by their names; all others are standard normal.
DRAWN: dict[str, Callable] = {
    "gamma": away_from_zero,
    "g": away_from_zero,
    "var": lambda shape, rng: rng.uniform(0.5, 2, shape),
}


def no_data(args: tuple[np.ndarray, ...], rng: np.random.Generator) -> dict:
    return {}


def with_keywords(function: Callable, keywords: dict) -> Callable:
    named = keep_named(function, keywords)
    return partial(function, **named) if named else function


@dataclass(frozen=True)
class Case:
    """One layer, its witnesses' knowledge of it, and the errors that are planted in it.

    A case is called, and returns options of `verify.check` and `verify.falsify`::

        verify.check(batch_norm, batch_norm_backward, args, **evidence.batch_norm())
        two = {"settings": {"groups": 2}}
        verify.check(group_norm, group_norm_backward, args, **two, **evidence.group_norm())

    `shapes`, `derivation` and `flat` are functions of those of the layer's settings that they
    name. A layer that hides its settings needs them in the call: `evidence.group_norm(groups=2)`.
    """

    forward: Callable
    backward: Callable
    reference: Callable  # torch's own layer: tensors for the arguments, the same keywords
    derivation: Callable[..., Derivation]
    shapes: Callable[..., tuple[Shapes, ...]]  # small shapes for the exact witness
    lines: Lines  # the layer in the notation of its page
    flat: Callable[..., Flat]
    plants: tuple[Plant, ...]
    errors: int  # how many planted errors change something: counted, so that none drops out unseen
    arguments: Callable[..., Shapes]  # the shapes of all arguments, for a shape of the first
    examples: tuple[Shapes, ...]  # the shapes that tests try, the first of them a plain one
    forms: tuple[str, ...]  # what the layer is made for: "matrix", "images", or both
    keywords: dict[str, Any] = field(default_factory=dict)  # those that the layer needs
    data: Callable[..., dict] = no_data  # arrays that are bound to the layer, from its arguments
    reference_twice: bool = True  # False where torch's own double backward is wrong

    @property
    def name(self) -> str:
        return self.forward.__name__

    def __call__(self, **keywords) -> dict:
        """Options of `verify.check` and `verify.falsify`.

        Errors: ValueError for a keyword that the layer does not take.
        """
        known = {*keyword_only(self.forward), *self.keywords, *self.data_names}
        if unknown := set(keywords) - known:
            raise ValueError(
                f"expected keywords of {self.name}, among {sorted(known)}, got {sorted(unknown)}; "
                f"pass those that are bound to the layer"
            )
        return {
            "reference": self.reference,
            "small": with_keywords(self.shapes, keywords),
            "derivation": with_keywords(self.derivation, keywords),
            "flat": with_keywords(self.flat, keywords),
            "reference_twice": self.reference_twice,
            "varied": ("eps",) if "eps" in keyword_only(self.forward) else (),
            "plants": self.plants,
            "lines": self.lines,
        }

    @property
    def data_names(self) -> list[str]:
        """Keyword-only parameters are known by their defaults; bound arrays stand last of all
        parameters, after the arguments."""
        return positional(self.forward)[len(self.examples[0]) :]

    def drawn(self, shapes: Shapes, rng: np.random.Generator, **keywords) -> tuple[Callable, tuple]:
        """The forward with its keywords bound, and random arguments of these shapes."""
        names = positional(self.forward)
        args = tuple(
            DRAWN[name](shape, rng) if name in DRAWN else rng.standard_normal(shape)
            for name, shape in zip(names, shapes, strict=False)
        )
        bound = self.keywords | self.data(args, rng) | keywords
        return partial(self.forward, **bound) if bound else self.forward, args

    def twins(self, **keywords) -> dict[str, Planted]:
        """The wrong twins of the layer by the names of their errors, with these keywords bound."""
        bound = self.keywords | keywords
        forward = partial(self.forward, **bound) if bound else self.forward
        return {twin.name: twin for twin in planted_errors(forward, self.backward, self.plants)}
