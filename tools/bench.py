"""What checking and computing cost: ratios measured in one run, on one thread.

Absolute times differ between machines, and from minute to minute; a ratio of two medians that
were measured in turns is what can be compared.
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy and torch read it

import time
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from statistics import median

import numpy as np
import torch

import normlib
from normlib.verify import evidence
from normlib.verify.run import backward as verify_backward

ROUNDS = 9
MATRIX, IMAGES = (4096, 256), (32, 64, 16, 16)


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
    args = rng.standard_normal((16, 32)), rng.standard_normal(32), rng.standard_normal(32)
    known = evidence.batch_norm()
    options = {"rng": rng, "reference": known["reference"], "flat": known["flat"]}
    pair = normlib.batch_norm, normlib.batch_norm_backward
    tensors = [torch.tensor(a, requires_grad=True) for a in args]
    ours, theirs = in_turns(
        lambda: verify_backward(*pair, args, **options),
        lambda: torch.autograd.gradcheck(known["reference"], tensors),
    )
    report("all numeric witnesses, against torch's gradcheck", ours, theirs)


def layers(rng: np.random.Generator) -> list[tuple]:
    """Each layer: its name, forward, backward, torch's own, and the shapes of its arguments."""
    w = (256, 256)
    u, v = normlib.power_iteration(*map(rng.standard_normal, (w, w[:1], w[1:])), iterations=9)
    u, v = u.astype(np.float32), v.astype(np.float32)
    normalized = partial(normlib.spectral_norm, u=u, v=v)
    groups = partial(normlib.group_norm, groups=8)
    matrix, images = (MATRIX, MATRIX[1:], MATRIX[1:]), (IMAGES, IMAGES[1:2], IMAGES[1:2])
    n = normlib
    return [
        ("batch norm", n.batch_norm, n.batch_norm_backward, evidence.batch_norm(), matrix),
        ("batch norm", n.batch_norm, n.batch_norm_backward, evidence.batch_norm(), images),
        ("layer norm", n.layer_norm, n.layer_norm_backward, evidence.layer_norm(), matrix),
        ("RMSNorm", n.rms_norm, n.rms_norm_backward, evidence.rms_norm(), matrix[:2]),
        ("partial RMSNorm", partial(n.partial_rms_norm, fraction=Fraction(1, 16)),
         n.partial_rms_norm_backward, evidence.partial_rms_norm(Fraction(1, 16)), matrix[:2]),
        ("group norm", groups, n.group_norm_backward, evidence.group_norm(8), images),
        ("instance norm", n.instance_norm, n.instance_norm_backward,
         evidence.instance_norm(4), images),
        ("mean-only batch norm", n.mean_only_batch_norm, n.mean_only_batch_norm_backward,
         evidence.mean_only_batch_norm(), matrix[:2]),
        ("weight norm", n.weight_norm, n.weight_norm_backward, evidence.weight_norm(),
         (w, w[:1])),
        ("spectral norm", normalized, n.spectral_norm_backward, evidence.spectral_norm(u, v),
         (w,)),
    ]  # fmt: skip


def layer_against_torch(name: str, forward, backward, known, shapes, rng) -> None:
    """The layer in float32, forward alone and then with its backward, against torch's own."""
    args = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    tensors = [torch.tensor(a, requires_grad=True) for a in args]
    dy = rng.standard_normal(shapes[0]).astype(np.float32)
    upstream, reference = torch.tensor(dy), known["reference"]
    size = "×".join(map(str, shapes[0]))
    alone = in_turns(lambda: forward(*args), lambda: reference(*tensors))
    both = in_turns(
        lambda: backward(dy, forward(*args)[1]),
        lambda: torch.autograd.grad(reference(*tensors), tensors, upstream),
    )
    report(f"{name} {size}, forward", *alone)
    report(f"{name} {size}, forward and backward", *both)


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    print(f"{f'median of {ROUNDS} rounds, in turns':<58} {'ours':>12} {'torch':>12}   ratio")
    witnesses_against_gradcheck(rng)
    for layer in layers(rng):
        layer_against_torch(*layer, rng)


if __name__ == "__main__":
    main()
