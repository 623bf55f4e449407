"""What checking and computing cost: ratios measured in one run, on one thread; then the kernels of
normlib.fused, on one thread and on two, whose table normbook/data/kernels.json is written anew.

Absolute times differ between machines, and from minute to minute; a ratio of two medians that
were measured in turns is what can be compared.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy and torch read it

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from statistics import median

import kernel_bench
import numpy as np
import torch

from normlib import evidence, verify
from normlib.evidence import CASES
from normlib.evidence.case import Case
from normlib.verify.signature import as_called, data

ROUNDS = 9
WEIGHTS = (256, 256)
SHAPES = {"matrix": (4096, 256), "images": (32, 64, 16, 16)}
SHAPES |= {"weight_norm": WEIGHTS, "spectral_norm": WEIGHTS}


def in_turns(*functions: Callable) -> list[float]:
    """The median time of each, after one call to warm up, measured alternately."""
    times: list[list[float]] = [[] for _ in functions]
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
    case = evidence.batch_norm
    forward, args = case.drawn(case.arguments((16, 32)), rng)
    options = {"rng": rng} | {name: case()[name] for name in ("reference", "flat", "varied")}
    tensors = [torch.tensor(a, requires_grad=True) for a in args]
    reference = as_called(case.reference, forward, len(args))
    ours, theirs = in_turns(
        lambda: verify.backward(forward, case.backward, args, **options),
        lambda: torch.autograd.gradcheck(reference, tensors),
    )
    report("all numeric witnesses, against torch's gradcheck", ours, theirs)


def memory_of_witnesses(rng: np.random.Generator) -> None:
    """The most that the numeric witnesses hold on a 64×256 layer, and gradcheck's Jacobian."""
    case = evidence.batch_norm
    forward, args = case.drawn(case.arguments((64, 256)), rng)
    options = {"rng": rng} | {name: case()[name] for name in ("reference", "flat", "varied")}
    tracemalloc.start()
    verify.backward(forward, case.backward, args, **options)
    ours, theirs = tracemalloc.get_traced_memory()[1], args[0].nbytes * args[0].size
    tracemalloc.stop()
    print(
        f"{'their memory at 64×256, against a Jacobian':<58} {ours / 1e6:9.2f} MB "
        f"{theirs / 1e6:9.2f} MB {ours / theirs:7.4f}"
    )


def layer_against_torch(case: Case, form: str, rng: np.random.Generator) -> None:
    """The layer in float32, forward alone and then with its backward, against torch's own."""
    shape = SHAPES.get(case.name, SHAPES[form])
    forward, args = case.drawn(case.arguments(shape), rng)
    bound = {n: a.astype(np.float32) for n, a in data(forward).items()}
    forward, args = partial(forward, **bound), [a.astype(np.float32) for a in args]
    tensors = [torch.tensor(a, requires_grad=True) for a in args]
    dy = rng.standard_normal(shape).astype(np.float32)
    upstream, reference = torch.tensor(dy), as_called(case.reference, forward, len(args))
    alone = in_turns(lambda: forward(*args), lambda: reference(*tensors))
    both = in_turns(
        lambda: case.backward(dy, forward(*args)[1]),
        lambda: torch.autograd.grad(reference(*tensors), tensors, upstream, allow_unused=True),
    )
    name = f"{case.name} {'×'.join(map(str, shape))}"
    report(f"{name}, forward", *alone)
    report(f"{name}, forward and backward", *both)


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    print(f"{f'median of {ROUNDS} rounds, in turns':<58} {'ours':>12} {'torch':>12}   ratio")
    witnesses_against_gradcheck(rng)
    memory_of_witnesses(rng)
    for case in CASES:
        for form in case.forms:
            layer_against_torch(case, form, rng)
    print()
    kernel_bench.main()


if __name__ == "__main__":
    main()
