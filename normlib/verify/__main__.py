"""python -m normlib.verify: put a layer of your own before the witnesses.

The layer is named as module:function, from the folder where the command is run. Exit codes: 0 if
every witness that ran agrees, 1 if one disagrees, 2 if the question cannot be asked.
"""

import argparse
import ast
import importlib
import os
import sys
import textwrap
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from normlib import verify

EXAMPLES = """examples:
  python -m normlib.verify mine:layer_norm mine:layer_norm_backward --shapes 8x3 3 3
  python -m normlib.verify mine:LayerNormFunction --shapes 8x3 3 3
  python -m normlib.verify mine:norm :norm_backward --shapes 8x3 3 --set groups=2 --small 3x2 2
"""


def shape(text: str) -> tuple[int, ...]:
    """8x3 is (8, 3); a number alone is a shape with one axis."""
    try:
        sizes = tuple(map(int, text.replace("×", "x").split("x")))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"expected a shape such as 8x3 or 3, got {text!r}")
    return sizes


def setting(text: str) -> tuple[str, object]:
    """eps=1e-3 is the name and the value; what is no Python literal is a text."""
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected a setting such as eps=1e-3, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def found(place: str, module: str = "") -> Callable:
    """The function at module:name; of :name the module is that of the layer."""
    own, sign, name = place.partition(":")
    own = own or module
    if not sign or not own or not name:
        raise ValueError(f"expected module:function, got {place!r}; try my_module:{own or 'norm'}")
    try:
        thing = importlib.import_module(own)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"expected a module that can be imported from {os.getcwd()}, got {own!r}: {error}"
        ) from None
    if not callable(getattr(thing, name, None)):
        known = [n for n, f in vars(thing).items() if callable(f) and not n.startswith("_")]
        raise ValueError(f"expected a function of {own}, among {known}, got {name!r}")
    return getattr(thing, name)


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m normlib.verify",
        description="Check the backward pass of a layer against independent witnesses.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = {"nargs": "+", "default": [], "metavar": "NAME"}
    parser.add_argument("forward", help="module:function; alone, a layer of torch")
    parser.add_argument("backward", nargs="?", help="module:function, or :function")
    parser.add_argument("--shapes", nargs="+", type=shape, required=True, metavar="8x3")
    parser.add_argument("--small", nargs="+", type=shape, default=[], metavar="3x2",
                        help="smaller shapes, for the exact witness")  # fmt: skip
    parser.add_argument("--reference", help="module:function of a right layer, on torch tensors")
    parser.add_argument("--set", nargs="+", type=setting, default=[], metavar="eps=1e-3",
                        help="settings that the layer is called with")  # fmt: skip
    parser.add_argument("--varied", help="settings such as eps, symbols for exact ones", **several)
    parser.add_argument("--positive", help="arguments that have to be above 0", **several)
    parser.add_argument("--zero", help="arguments whose gradient is zero", **several)
    parser.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def asked(given: argparse.Namespace) -> verify.Verdict:
    """The verdict, green or red."""
    module = given.forward.partition(":")[0]
    forward = found(given.forward)
    backward = found(given.backward, module) if given.backward else None
    if given.backward is None:
        forward, backward = verify.from_torch(forward)
    forward = partial(forward, **dict(given.set)) if given.set else forward
    options = {
        n: tuple(getattr(given, n)) for n in ("shapes", "small", "varied", "positive", "zero")
    }
    options["reference"] = found(given.reference, module) if given.reference else None
    rng, dtype = np.random.default_rng(given.seed), np.dtype(given.dtype)
    try:
        return verify.layer(forward, backward, rng=rng, dtype=dtype, **options)
    except verify.VerificationError as error:
        return error.verdict


def told(verdict: verify.Verdict) -> str:
    """What each witness says, which could not be asked and why, and where the layer is wrong."""
    parts = [repr(replace(verdict, not_run=()))]
    reasons: dict[str, list[str]] = {}
    for witness, why in verdict.not_run:
        reasons.setdefault(why, []).append(witness)
    lacking = (f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in reasons.items())
    lines = (textwrap.fill(line, 80, subsequent_indent="    ") for line in lacking)
    parts += ["\n".join(["not run:", *(f"  {line}" for line in lines)])] if reasons else []
    return "\n\n".join([*parts, verdict.differences() or "no witness that ran disagrees"])


def main(arguments: list[str] | None = None) -> int:
    given = parsed(arguments)
    sys.path.insert(0, os.getcwd())
    try:
        verdict = asked(given)
    except ValueError as error:
        print(f"normlib.verify: {error}", file=sys.stderr)
        return 2
    except Exception:  # the layer itself fails; its traceback says where
        traceback.print_exc()
        return 2
    print(told(verdict))
    return 1 if verdict.red else 0


if __name__ == "__main__":
    sys.exit(main())
