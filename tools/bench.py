"""What checking and computing cost: ratios measured in one run, on one thread.

Absolute times differ between machines, and from minute to minute; a ratio of two medians that
were measured in turns is what can be compared.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy and torch read it

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch.nn import functional

from normlib import batch_norm, batch_norm_backward
from normlib.verify import evidence, numeric
from normlib.verify.run import backward as verify_backward

ROUNDS = 9


def in_turns(*functions: Callable) -> list[float]:
    """The median time of each, after one call to warm up, measured alternately."""
    times = [[] for _ in functions]
    for round_ in range(ROUNDS + 1):
        for function, taken in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            if round_:
                taken.append(time.perf_counter() - start)
    return [median(taken) for taken in times]


def report(what: str, ours: float, theirs: float) -> None:
    print(f"{what:<58} {1e3 * ours:9.2f} ms {1e3 * theirs:9.2f} ms {ours / theirs:7.2f}")


def witnesses_against_gradcheck(rng: np.random.Generator) -> None:
    """Every numeric witness on a 16×32 layer, and torch's gradcheck on the same layer."""
    args = rng.standard_normal((16, 32)), rng.standard_normal(32), rng.standard_normal(32)
    known = evidence.batch_norm()
    options = {"reference": known["reference"], "flat": known["flat"]}
    tensors = [torch.tensor(a, requires_grad=True) for a in args]
    ours, theirs = in_turns(
        lambda: verify_backward(batch_norm, batch_norm_backward, args, rng=rng, **options),
        lambda: torch.autograd.gradcheck(known["reference"], tensors),
    )
    report("all numeric witnesses, against torch's gradcheck", ours, theirs)


def layer_against_torch(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    """The layer in float32, forward and then forward with backward, against torch's own."""
    x, dy = rng.standard_normal((2, *shape)).astype(np.float32)
    gamma, beta = rng.standard_normal((2, shape[1])).astype(np.float32)
    tensors = [torch.tensor(a, requires_grad=True) for a in (x, gamma, beta)]
    upstream = torch.tensor(dy)

    def torch_forward():
        y, g, b = tensors
        return functional.batch_norm(y, None, None, g, b, training=True)

    pairs = {
        "forward": (lambda: batch_norm(x, gamma, beta), torch_forward),
        "forward and backward": (
            lambda: batch_norm_backward(dy, batch_norm(x, gamma, beta)[1]),
            lambda: torch.autograd.grad(torch_forward(), tensors, upstream),
        ),
    }
    for name, pair in pairs.items():
        size = "×".join(map(str, shape))
        report(f"batch norm {size}, {name}", *in_turns(*pair))


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    print(f"{'median of ' + str(ROUNDS) + ' rounds in turns':<58} {'ours':>12} {'torch':>12} ratio")
    witnesses_against_gradcheck(rng)
    for shape in ((4096, 256), (32, 64, 16, 16)):
        layer_against_torch(shape, rng)
    print(f"bounds: rounding {numeric.ROUNDING:.0e}, central differences {numeric.CENTRAL:.0e}")


if __name__ == "__main__":
    main()
