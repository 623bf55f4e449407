"""python -m normlib.verify: put a layer of your own before the witnesses.

The layer is named as module:function, from the folder where the command is run. Exit codes: 0 if
every witness that ran agrees, 1 if one disagrees, 2 if the question cannot be asked, or not be
decided: a gradient is zero to rounding, and zero is not claimed.
"""

import argparse
import ast
import importlib
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from normlib import verify

EXAMPLES = """examples:
  python -m normlib.verify mine:layer_norm mine:layer_norm_backward --shapes 8x3 3 3
  python -m normlib.verify mine:LayerNormFunction --shapes 8x3 3 3
  python -m normlib.verify mine:norm :norm_backward --shapes 8x3 3 --set groups=2 --small 3x2 2
"""


HALVES = "bfloat16", "float16"


def parse_shape(text: str) -> tuple[int, ...]:
    """8x3 is (8, 3); a number alone is a shape with one axis."""
    try:
        sizes = tuple(map(int, text.replace("×", "x").split("x")))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise argparse.ArgumentTypeError(f"expected a shape such as 8x3 or 3, got {text!r}")
    return sizes


def parse_setting(text: str) -> tuple[str, object]:
    """eps=1e-3 is the name and the value; what is no Python literal is a text."""
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected a setting such as eps=1e-3, got {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return name, value


def load_function(place: str, module: str = "") -> Callable:
    """Import the function at module:name; of :name the module is that of the layer."""
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


def put_layer_first(words: list[str]) -> list[str]:
    """Put module:function before the options: one that takes several words would take it, too."""
    after = dict(zip(words[1:], words, strict=False))
    places = [w for w in words if re.fullmatch(r"[\w.]*:\w+", w) and after.get(w) != "--reference"]
    return places + [w for w in words if w not in places]


def parse_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m normlib.verify",
        description="Check the backward pass of a layer against independent witnesses.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = {"nargs": "+", "default": [], "metavar": "NAME"}
    parser.add_argument("forward", help="module:function; alone, a layer of torch")
    parser.add_argument("backward", nargs="?", help="module:function, or :function")
    parser.add_argument("--shapes", nargs="+", type=parse_shape, required=True, metavar="8x3")
    parser.add_argument("--small", nargs="+", type=parse_shape, default=[], metavar="3x2",
                        help="smaller shapes, for the exact witness; else found")  # fmt: skip
    parser.add_argument("--reference", help="module:function of a right layer, on torch tensors")
    parser.add_argument("--set", nargs="+", type=parse_setting, default=[], metavar="eps=1e-3",
                        help="settings that the layer is called with")  # fmt: skip
    parser.add_argument("--varied", help="settings such as eps, symbols for exact ones", **several)
    parser.add_argument("--positive", help="arguments that have to be above 0", **several)
    parser.add_argument("--zero", help="arguments whose gradient is zero", **several)
    kinds = "float64", "float32", *HALVES
    parser.add_argument("--dtype", choices=kinds, default="float64")
    parser.add_argument("--device", help="of a kernel on tensors, such as cuda")
    parser.add_argument("--compiled", help="module:function of the same kernel, compiled")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(put_layer_first(words))


def run_kernel(given: argparse.Namespace) -> verify.Verdict:
    """The verdict on a kernel, which is a red one or not."""
    module = given.forward.partition(":")[0]
    places = given.backward, given.reference, given.compiled
    backward, reference, compiled = (place and load_function(place, module) for place in places)
    return verify.kernel(
        load_function(given.forward),
        backward,
        shapes=tuple(given.shapes),
        reference=reference,
        settings=dict(given.set),
        dtype=getattr(torch, given.dtype),
        device=given.device or "cpu",
        compiled=compiled,
        positive=tuple(given.positive),
        zero=tuple(given.zero),
        seed=given.seed,
        raises=False,
    )


def run_check(given: argparse.Namespace) -> tuple[verify.Verdict, str]:
    """Return the verdict, and what is wrong if it is red."""
    if given.dtype in HALVES or given.device or given.compiled:
        return run_kernel(given), ""
    module = given.forward.partition(":")[0]
    pair = (
        load_function(given.forward),
        load_function(given.backward, module) if given.backward else None,
    )
    options = {
        "shapes": tuple(given.shapes),
        "settings": dict(given.set),
        "positive": tuple(given.positive),
        "seed": given.seed,
    }
    verdict = verify.check(
        *pair,
        **options,
        small=tuple(given.small) or None,
        reference=load_function(given.reference, module) if given.reference else None,
        varied=tuple(given.varied),
        zero=tuple(given.zero),
        dtype=np.dtype(given.dtype),
        raises=False,
    )
    return verdict, str(verify.diagnose(*pair, **options)) if verdict.red else ""


def format_report(verdict: verify.Verdict) -> str:
    """Say what each witness found, which could not be asked and why, and where the layer is
    wrong."""
    parts = [repr(replace(verdict, not_run=()))]
    reasons: dict[str, list[str]] = {}
    for witness, why in verdict.not_run:
        reasons.setdefault(why, []).append(witness)
    lacking = (f"{', '.join(dict.fromkeys(names))}: {why}" for why, names in reasons.items())
    lines = (textwrap.fill(line, 80, subsequent_indent="    ") for line in lacking)
    parts += ["\n".join(["not run:", *(f"  {line}" for line in lines)])] if reasons else []
    return "\n\n".join([*parts, verdict.differences() or "no witness that ran disagrees"])


def main(arguments: list[str] | None = None) -> int:
    given = parse_arguments(sys.argv[1:] if arguments is None else arguments)
    sys.path.insert(0, os.getcwd())
    try:
        verdict, wrong = run_check(given)
    except ValueError as error:
        print(f"normlib.verify: {error}", file=sys.stderr)
        return 2
    except Exception:  # the layer itself fails; its traceback says where
        traceback.print_exc()
        return 2
    print(format_report(verdict))
    print(
        f"\ndiagnosis:\n{textwrap.indent(wrong, '  ')}" if wrong else "", end="\n" if wrong else ""
    )
    return 1 if verdict.red else 2 if verdict.undecided else 0


if __name__ == "__main__":
    sys.exit(main())
