"""What PyTorch's normalization layers do on a device: run once on a GPU, kept, and shown.

    python -m normbook.studies.on_a_gpu cuda > normbook/data/gpu.json

Everything but the times is also run on this machine's CPU when the book is tested, so that the
questions stay the ones that were asked of the GPU.
"""

import json
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from normbook.studies import precision
from normlib import verify

F = torch.nn.functional
KEPT = Path(__file__).parents[1] / "data/gpu.json"
HALVES = torch.bfloat16, torch.float16


def layer_named(name: str) -> Callable:
    return lambda x, w, b: precision.LAYERS[name](x, w, b, F)


LAYERS = {name: layer_named(name) for name in precision.LAYERS}


def short(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


def drawn(device: str, *shape: int, kind=torch.float32, seed: int = 0, mean: float = 0) -> Tensor:
    rng = np.random.default_rng(seed)
    return torch.tensor(mean + rng.standard_normal(shape)).to(device, kind)


def parameters(device: str, size: int, kind=torch.float32) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(9)
    w, b = (torch.tensor(rng.uniform(0.5, 1.5, size)).to(device, kind) for _ in range(2))
    return w, b


def gradients(layer: Callable, x: Tensor, w: Tensor, b: Tensor, dy: Tensor) -> list[Tensor | None]:
    """dx, dgamma and dbeta; None where an argument is not used."""
    leaves = [a.detach().requires_grad_() for a in (x, w, b)]
    y = layer(*leaves)
    return [*torch.autograd.grad(y, leaves, dy.to(y.dtype), allow_unused=True)]


def autocast(device: str) -> dict[str, str]:
    """What each layer returns under autocast to bfloat16, from bfloat16 with float32 parameters."""
    x = drawn(device, 512, 32, kind=torch.bfloat16)
    with torch.autocast(device, dtype=torch.bfloat16):
        return {
            name: short(layer(x, *parameters(device, 32)).dtype) for name, layer in LAYERS.items()
        }


def rounding(device: str) -> dict[str, str | float]:
    """The worst error of an entry in units of u, rows with the mean 3 and the deviation 1; or what
    PyTorch says where it refuses parameters of another type."""
    found: dict[str, str | float] = {}
    for name, layer in precision.LAYERS.items():
        for kind in (torch.float32, torch.bfloat16):
            try:
                error = precision.units(layer, torch.bfloat16, kind, device)[1]
                found[f"{name}, parameters in {short(kind)}"] = round(error, 1)
            except RuntimeError as error:
                found[f"{name}, parameters in {short(kind)}"] = str(error)
    return found


def sums(device: str) -> dict[str, dict[str, float | None]]:
    """The largest error of dgamma and dbeta relative to their largest entry, 4,096 rows of 32,
    input and parameters of one type, against float64."""
    found: dict = {}
    for kind in HALVES:
        x, dy = (drawn(device, 4096, 32, kind=kind, seed=s) for s in (1, 2))
        for name, layer in LAYERS.items():
            w, b = parameters(device, 32, kind)
            true = gradients(layer, x.double(), w.double(), b.double(), dy.double())
            got = gradients(layer, x, w, b, dy)
            found[f"{name}, {short(kind)}"] = {
                which: t if t is None else float((g.double() - t).abs().max() / t.abs().max())
                for which, g, t in zip(("dgamma", "dbeta"), got[1:], true[1:], strict=True)
            }
    return found


def rows_counted(device: str) -> dict[str, float]:
    """dbeta of layer norm for 4,096 rows of upstream ones: right is 4,096."""
    found = {}
    for kind in HALVES:
        x, dy = drawn(device, 4096, 32, kind=kind), torch.ones(4096, 32, device=device, dtype=kind)
        found[short(kind)] = float(
            gradients(LAYERS["layer norm"], x, *parameters(device, 32, kind), dy)[2].double().mean()
        )
    return found


def strided_gamma(device: str) -> dict[str, bool]:
    """Whether batch norm passes back the same if gamma is every second entry of an array."""
    found, layer = {}, LAYERS["batch norm"]
    for how, shape in (("(N, C)", (6, 4)), ("(N, C, H, W)", (6, 4, 3, 3))):
        x, dy = (drawn(device, *shape, seed=s) for s in (1, 2))
        wide, b = parameters(device, 8)[0], parameters(device, 4)[1]
        true, got = (gradients(layer, x, w, b, dy) for w in (wide[::2].contiguous(), wide[::2]))
        found[how] = all(torch.allclose(a, g, 1e-4, 1e-5) for a, g in zip(true, got, strict=True))
    return found


def same(a: Tensor, b: Tensor) -> bool:
    return bool(torch.equal(a, b))


def last_bits(device: str) -> dict[str, bool]:
    """Whether two ways to the same numbers give the same bits."""
    size, rows, layer, batch = 2048, 1024, LAYERS["layer norm"], LAYERS["batch norm"]
    x, dy = (drawn(device, rows, size, seed=s) for s in (1, 2))
    w, b = parameters(device, size)
    image, small = drawn(device, 32, 64, 28, 28, seed=3), parameters(device, 64)
    last = image.to(memory_format=torch.channels_last)
    matrix = drawn(device, size, size, seed=4)

    def alone(ask: Callable) -> bool:
        whole = ask(x)
        return all(same(whole[:n], ask(x[:n])) for n in (1, 2, 7, 8, 32, 64, 128, 500))

    var = x.var(1, keepdim=True, correction=0)
    apart = (x - x.mean(1, keepdim=True)) * torch.rsqrt(var + 1e-5) * w + b
    return {
        "layer norm, taken apart": same(layer(x, w, b), apart),
        "batch norm, channels last": same(batch(image, *small), batch(last, *small)),
        "layer norm's dγ once more": same(*(gradients(layer, x, w, b, dy)[1] for _ in range(2))),
        "batch norm's dγ once more": same(*(gradients(batch, x, w, b, dy)[1] for _ in range(2))),
        "layer norm, rows alone": alone(lambda x: layer(x, w, b)),
        "RMSNorm, rows alone": alone(lambda x: LAYERS["RMSNorm"](x, w, b)),
        "group norm, rows alone": alone(lambda x: LAYERS["group norm"](x, w, b)),
        "matrix product, rows alone": alone(lambda x: x @ matrix),
        "in bfloat16, rows alone": alone(lambda x: x.bfloat16() @ matrix.bfloat16()),
    }


def verdicts(device: str) -> dict[str, list[str]]:
    """The witnesses that disagree with PyTorch's layers, put before them as own kernels."""
    layers = {
        "layer norm": lambda x, gamma, beta: F.layer_norm(x, x.shape[1:], gamma, beta),
        "RMSNorm": lambda x, gamma: F.rms_norm(x, x.shape[1:], gamma, 1e-6),
        "group norm": lambda x, gamma, beta: F.group_norm(x, 4, gamma, beta),
    }
    found = {}
    for name, layer in layers.items():
        shapes = ((256, 64), *((64,),) * (layer.__code__.co_argcount - 1))
        for kind in (*HALVES, torch.float32):
            verdict = verify.kernel(layer, shapes=shapes, dtype=kind, device=device, raises=False)
            red = {f"{c.witness}: {c.argument}" for c in verdict.checks if c.failure}
            found[f"{name}, {short(kind)}"] = sorted(red)
    return found


def median_time(call: Callable, rounds: int = 30) -> float:
    for _ in range(5):
        call()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(10):
            call()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / 10)
    return float(np.median(times))


def times(device: str) -> dict[str, dict[str, float]]:
    """Times in copies of x (16,384 × 4,096, bfloat16): PyTorch's kernel, the formula in PyTorch's
    single operations, and the formula compiled; forward, and forward with backward."""
    x, dy = (drawn(device, 16384, 4096, kind=torch.bfloat16, seed=s) for s in (1, 2))
    w, b = parameters(device, 4096, torch.bfloat16)

    def parts_layer(x, w, b):
        x = x.float()
        xhat = (x - x.mean(1, keepdim=True)) * torch.rsqrt(
            x.var(1, keepdim=True, correction=0) + 1e-5
        )
        return (xhat * w + b).to(w.dtype)

    def parts_rms(x, w, b):
        x = x.float()
        return (x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6) * w).to(w.dtype)

    copy = median_time(x.clone)
    found = {}
    for name, parts in (("layer norm", parts_layer), ("RMSNorm", parts_rms)):
        ways = {"PyTorch's": LAYERS[name], "in parts": parts, "compiled": torch.compile(parts)}
        for how, layer in ways.items():
            try:
                with torch.no_grad():
                    forward = median_time(lambda layer=layer: layer(x, w, b)) / copy
                both = median_time(lambda layer=layer: gradients(layer, x, w, b, dy)) / copy
            except Exception as error:
                print(f"{name}, {how}: {error!r}"[:500], file=sys.stderr)
                continue
            found[f"{name}, {how}"] = {"forward": forward, "with backward": both}
    return found


QUESTIONS = (autocast, rounding, sums, rows_counted, strided_gamma, last_bits, verdicts)


def ask(device: str) -> dict[str, dict]:
    return {question.__name__: question(device) for question in QUESTIONS}


def rows(found: dict) -> list[list[str]]:
    """For each layer what it returns under autocast, and its error for parameters of each type."""
    kinds = "float32", "bfloat16"
    errors = {
        n: [found["rounding"][f"{n}, parameters in {kind}"] for kind in kinds] for n in LAYERS
    }
    said = {
        n: ["refused" if isinstance(e, str) else f"{e:.0f}" for e in pair]
        for n, pair in errors.items()
    }
    return [[name, found["autocast"][name], *said[name]] for name in LAYERS]


def main() -> None:
    device = sys.argv[1]
    machine = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "date": date.today().isoformat(),
    }
    found = {"machine": machine, **ask(device), "times": times(device)}
    print(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
