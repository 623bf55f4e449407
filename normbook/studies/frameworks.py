"""The conventions of a framework's normalization layers, each found by a run that decides it.

The probes know no framework. A framework makes a layer, and every answer comes from what that layer
returns for numbers on which the conventions differ.
"""

import re
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from normlib import layers


class Made(NamedTuple):
    """One layer of one framework; its arrays have the framework's own names."""

    call: Callable  # (x, dtype, training=None) -> y as float64, and the name of its dtype
    learned: Callable[[], dict]
    kept: Callable[[], dict]


class Framework(NamedTuple):
    """`make` takes a layer, its channels or its kernel (out, in), and a dtype; a probe may also set
    `groups` and `momentum`, and what it does not set is the framework's default."""

    make: Callable[..., Made]
    last: tuple[str, ...]  # the layers that have the channels on the last axis
    absent: dict[str, str]  # the layers that it does not have, and how one sees it


# The axis of (N, C, L) along which the values of one statistic are laid.
ALONG = {"batch": 0, "layer": 1, "RMS": 1, "group": 1, "instance": 2}
LAYERS = (*ALONG, "weight", "spectral")
HALVES = ["float16", "bfloat16"]


def place_channels(of: Framework, layer: str, x: np.ndarray) -> np.ndarray:
    return np.moveaxis(x, 1, -1) if layer in of.last else x


def run(of: Framework, layer: str, values, dtype="float32", fed="", training=True):
    """The output for values that share one statistic, and the name of its dtype."""
    x = np.moveaxis(np.reshape(values, (-1, 1, 1)), 0, ALONG[layer])
    made = of.make(layer, x.shape[1], dtype, groups=1)
    y, name = made.call(place_channels(of, layer, x), fed or dtype, training)
    return np.ravel(y), name


def outcome(answer: Callable[[], str]) -> str:
    """An error is an answer too."""
    try:
        return answer()
    except Exception as error:
        return type(error).__name__


def short(value: float) -> str:
    """Three digits: 0.001, 1e-5."""
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def nearest(value: float, known: dict[float, str]) -> str:
    found = min(known, key=lambda number: abs(number - value))
    if abs(found - value) > 1e-3:
        raise ValueError(f"expected one of {known}, got {value}")
    return known[found]


# eps


def divisor(of: Framework, layer: str, s: float, dtype: str = "float32") -> float:
    """What the layer divides by where the deviation, or the root mean square, is s."""
    return s / run(of, layer, [-s, s, -s, s], dtype)[0][1]


def eps_place(of: Framework, layer: str) -> str:
    """At none let the divisor be d; at a deviation of d it is √2 d, 2 d, or still d."""
    d = divisor(of, layer, 1e-18)
    places = {2**0.5: "under the root", 2: "behind the root", 1: "a lower limit"}
    return nearest(divisor(of, layer, d) / d, places)


def eps(of: Framework, layer: str) -> str:
    power = 2 if eps_place(of, layer) == "under the root" else 1
    single, double = (short(divisor(of, layer, 1e-18, d) ** power) for d in ("float32", "float64"))
    return single if single == double else f"{single}; in float64 {double}"


# What is shared, learned and kept


def outputs_moved(of: Framework, layer: str, x: np.ndarray, channels: int, **options) -> np.ndarray:
    """Which outputs move with the first entry."""
    step = np.zeros_like(x)
    step[(0,) * x.ndim] = 1
    made = of.make(layer, channels, "float32", **options)
    both = [made.call(each, "float32", True)[0] for each in (x + step, x)]
    return np.abs(both[0] - both[1]) > 1e-4


def axes(of: Framework, layer: str) -> str:
    """Of 4 × 4 × 4 numbers, with two groups."""
    x = np.random.default_rng(0).standard_normal((4, 4, 4))
    seen = outputs_moved(of, layer, x, 4, groups=2)
    names = "NLC" if layer in of.last else "NCL"
    counts = [int(seen.any(axis=others).sum()) for others in ((1, 2), (0, 2), (0, 1))]
    words = {1: "", 2: "half of {}", 4: "{}"}
    over = (words[n].format(name) for name, n in zip(names, counts, strict=True))
    return f"{', '.join(filter(None, over))} of ({', '.join(names)})"


def groups(of: Framework, layer: str) -> str:
    """Of 64 channels, with no number given."""
    x = np.random.default_rng(0).standard_normal((1, 64, 3))
    x = place_channels(of, layer, x)
    return outcome(lambda: str(x.size // int(outputs_moved(of, layer, x, 64).sum())))


def describe_arrays(arrays: dict) -> str:
    """Names with shapes, and the value where every entry is 0, or every entry is 1."""
    texts = []
    for name, array in arrays.items():
        shape = ", ".join(map(str, np.shape(array))) + "," * (np.ndim(array) == 1)
        value = np.ravel(array)[0]
        same = f" = {value:g}" if value in (0, 1) and np.ptp(array) == 0 else ""
        texts.append(f"{name} ({shape}){same}")
    return "; ".join(texts) or "nothing"


def four(of: Framework, layer: str) -> Made:
    """A layer of four channels, or around a kernel."""
    return of.make(layer, 4 if layer in ALONG else KERNEL, "float32", groups=2)


def describe_learned(of: Framework, layer: str) -> str:
    return describe_arrays(four(of, layer).learned())


def kept(of: Framework, layer: str) -> str:
    return describe_arrays(four(of, layer).kept())


# Running statistics, training and inference


def after_one_batch(of: Framework, **options) -> list[float]:
    """Running mean and variance after 0, 2, 0, 2, whose mean and biased variance are 1."""
    made = of.make("batch", 1, "float32", groups=1, **options)

    def now() -> list[float]:
        return [float(np.ravel(array)[0]) for array in made.kept().values()][:2]

    if (before := now()) != [0, 1]:
        raise ValueError(f"expected a running mean of 0 and a variance of 1, got {before}")
    made.call(np.reshape([0.0, 2, 0, 2], (4, 1, 1)), "float32", True)
    return now()


def momentum(of: Framework, layer: str) -> str:
    """The new batch got the weight w; a second run says whose weight an argument of 0.25 is."""
    weight, quarter = after_one_batch(of)[0], after_one_batch(of, momentum=0.25)[0]
    new, old = f"{weight:.3g}, of the new batch", f"{1 - weight:.3g}, of the old average"
    return nearest(quarter, {0.25: new, 0.75: old})


def running_variance(of: Framework, layer: str) -> str:
    weight, variance = after_one_batch(of)
    return nearest(1 + (variance - 1) / weight, {1: "biased", 4 / 3: "unbiased"})


def mode(of: Framework, layer: str) -> str:
    """The values have the mean 5: where it is still there, stored statistics were used."""

    def answer() -> str:
        y, _ = run(of, layer, [4.0, 6, 4, 6], training=None)
        return "trains" if abs(y.mean()) < 0.01 else "infers"

    return outcome(answer)


def inference(of: Framework, layer: str) -> str:
    first, second = (run(of, layer, [4.0, 6, 4, 6], training=t)[0] for t in (True, False))
    return "as in training" if np.allclose(first, second) else "stored statistics"


# Numbers at the edge


def one_value(of: Framework, layer: str) -> str:
    return outcome(lambda: f"{run(of, layer, [3.0])[0][0]:.3g}")


def far_from_zero(of: Framework, layer: str) -> str:
    """10,000 ± 1 in float32: where squares are averaged in one pass, rounding takes the 1."""
    y, _ = run(of, layer, 10_000 + np.tile([-1.0, 1], 32))
    return "right" if np.allclose(np.abs(y), 1, atol=0.01) else "wrong"


def half_out(of: Framework, layer: str, own: str = "") -> str:
    def answer(half: str) -> str:
        return outcome(lambda: run(of, layer, [-1.0, 1, -1, 1], own or half, half)[1])

    names = list(map(answer, HALVES))
    return "as fed" if names == HALVES else " / ".join(dict.fromkeys(names))


def half_fed(of: Framework, layer: str) -> str:
    return half_out(of, layer, "float32")


def squares_in_half(of: Framework, layer: str) -> str:
    """The square of 300 is beyond float16; in a wider type the outputs are ±1."""

    def answer() -> str:
        y = run(of, layer, [-300.0, 300, -300, 300], "float16")[0][1]
        return "right" if abs(y - 1) < 0.01 else "overflow"

    return outcome(answer)


def mean_in_half(of: Framework, layer: str, own: str = "bfloat16") -> str:
    """The mean of 256 and 258 is no bfloat16; in a wider type the outputs are ∓1."""

    def answer() -> str:
        y = run(of, layer, [256.0, 258, 256, 258], own, "bfloat16")[0]
        return "right" if abs(y[0] + y[1]) < 0.05 < y[1] else "rounded"

    return outcome(answer)


def mean_of_half_fed(of: Framework, layer: str) -> str:
    return mean_in_half(of, layer, own="float32")


def kept_in_half(of: Framework, layer: str) -> str:
    arrays = list(of.make(layer, 2, "float16", groups=1).kept().values())[:2]
    return " / ".join(dict.fromkeys(str(array.dtype) for array in arrays))


def double(of: Framework, layer: str) -> str:
    """The differences of the outputs are those of the inputs, all times one number."""
    x = np.random.default_rng(0).standard_normal(8)
    y, _ = run(of, layer, x, "float64")
    factors = np.diff(y) / np.diff(x)
    return "right" if np.ptp(factors) < 1e-12 * factors.max() else "float32 digits"


# Weights

KERNEL = np.random.default_rng(0).standard_normal((3, 4))  # (out, in)
SLOW = np.eye(3, 4) * [[5], [4.5], [4]]  # on it the power iteration needs many steps


def read_off_weights(of: Framework, layer: str, kernel: np.ndarray, calls: int = 1) -> np.ndarray:
    """The weights (out, in) that act after some training calls, read off the identity."""
    made = of.make(layer, kernel, "float32")
    return [made.call(np.eye(4), "float32", True)[0] for _ in range(calls)][-1].T


def weights_shared(of: Framework, layer: str) -> str:
    other = KERNEL.copy()
    other[0, 0] += 0.5
    gap = (
        np.abs(read_off_weights(of, layer, other, 20) - read_off_weights(of, layer, KERNEL, 20))
        > 1e-4
    )
    return "all weights" if gap[1:].any() else "the weights of an output"


def wrap_learned(of: Framework, layer: str) -> str:
    """What becomes of a layer that has learned something."""
    w = read_off_weights(of, layer, KERNEL)
    if np.allclose(w, KERNEL, atol=1e-5):
        return "unchanged"
    unit = np.allclose(np.linalg.norm(w, axis=1), 1, atol=1e-4)
    return "length 1 for each output" if unit else "changed"


def zero_row(of: Framework, layer: str) -> str:
    kernel = KERNEL.copy()
    kernel[0] = 0
    return outcome(lambda: f"{read_off_weights(of, layer, kernel)[0, 0]:g}")


def steps(of: Framework, layer: str, training: bool = True) -> str:
    """By how many power iterations the vector with one number an output moves in a call."""
    made = of.make(layer, SLOW, "float32")

    def u() -> np.ndarray:
        return next(np.ravel(a).copy() for a in made.kept().values() if np.size(a) == len(SLOW))

    expected = u()
    made.call(np.eye(4), "float32", training)
    for count in range(20):
        if np.allclose(expected, u(), atol=1e-5):
            return str(count)
        expected = SLOW @ (SLOW.T @ expected)
        expected /= np.linalg.norm(expected)
    raise ValueError("expected at most 20 steps of the power iteration")


def steps_at_inference(of: Framework, layer: str) -> str:
    return steps(of, layer, training=False)


def after_first_call(of: Framework, layer: str) -> str:
    norm = np.linalg.norm(read_off_weights(of, layer, SLOW), 2)
    return "1" if abs(norm - 1) < 0.005 else "above 1"


def stored_weights(of: Framework, layer: str) -> str:
    made = of.make(layer, KERNEL, "float32")
    made.call(np.eye(4), "float32", True)
    stored = [np.asarray(a) for a in made.learned().values() if np.size(a) == KERNEL.size]
    as_rows = [a if a.shape == KERNEL.shape else a.T for a in stored]
    same = any(np.allclose(a, KERNEL, atol=1e-5) for a in as_rows)
    return "kept" if same else "overwritten by the normalized ones"


class Question(NamedTuple):
    words: str
    ask: Callable[[Framework, str], str]
    layers: tuple[str, ...]


STATISTICS, CENTRED = tuple(ALONG), ("batch", "layer", "group", "instance")
BATCH, WEIGHT, SPECTRAL = ("batch",), ("weight",), ("spectral",)
QUESTIONS = {
    "eps": Question("ε", eps, STATISTICS),
    "momentum": Question("momentum, the weight", momentum, BATCH),
    "running variance": Question("running variance", running_variance, BATCH),
    "mode": Question("called without a mode, it", mode, BATCH),
    "axes": Question("statistics over", axes, STATISTICS),
    "groups": Question("groups, if none are named", groups, ("group",)),
    "shared": Question("one length for", weights_shared, WEIGHT + SPECTRAL),
    "learned": Question("learned, of 4 channels", describe_learned, STATISTICS),
    "weights": Question("learned, of 3 outputs and 4 inputs", describe_learned, WEIGHT + SPECTRAL),
    "kept": Question("kept", kept, BATCH + SPECTRAL),
    "inference": Question("at inference", inference, STATISTICS),
    "one value": Question("output for a single value", one_value, STATISTICS),
    "far from zero": Question("10,000 ± 1 in float32", far_from_zero, CENTRED),
    "half fed": Question("float32 layer: output for half precision", half_fed, STATISTICS),
    "mean of half fed": Question(
        "float32 layer: 256 and 258 in bfloat16", mean_of_half_fed, CENTRED
    ),
    "half own": Question("half-precision layer: output", half_out, STATISTICS),
    "mean in half": Question("bfloat16 layer: 256 and 258", mean_in_half, CENTRED),
    "squares in half": Question("float16 layer: ±300", squares_in_half, STATISTICS),
    "kept in half": Question("float16 layer: kept in", kept_in_half, BATCH),
    "double": Question("float64 layer", double, STATISTICS),
    "eps place": Question("ε stands", eps_place, STATISTICS),
    "wrapped": Question("weights when it is put on", wrap_learned, WEIGHT),
    "zero row": Question("a row of zeros becomes", zero_row, WEIGHT),
    "steps": Question("iterations in a training call", steps, SPECTRAL),
    "steps at inference": Question("iterations at inference", steps_at_inference, SPECTRAL),
    "after first call": Question("norm of W after the first call", after_first_call, SPECTRAL),
    "stored weights": Question("stored weights after a call", stored_weights, WEIGHT + SPECTRAL),
}


def answers(of: Framework) -> dict[str, dict[str, str]]:
    """The answer to every question by layer, for the layers that the framework has."""
    return {
        layer: {n: q.ask(of, layer) for n, q in QUESTIONS.items() if layer in q.layers}
        for layer in LAYERS
        if layer not in of.absent
    }


# What a page shows of the answers: rows of a layer, a question, and an answer by framework

FLAX = ("Flax nnx", "Flax linen")
COLUMNS = ("PyTorch", "Keras", "Flax", "ONNX", "normlib")


def told(rows: list[dict], framework: str) -> dict[str, dict[str, str]]:
    """The stored answers of one framework, in the form of `answers`."""
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        if row[framework] is not None:
            found.setdefault(row["layer"], {})[row["question"]] = row[framework]
    return found


def cell(answer: str | None) -> str:
    """A line for each array, its name as code; an error by this word."""
    lines = re.sub(r"\w+Error", "error", answer or "—").replace("; ", "<br>")
    return re.sub(r"([\w.]+)(?= \([\d, ]*\))", r"`\1`", lines)


def cells(row: dict) -> list[str]:
    """What the columns show: both kinds of Flax's modules in one, where they agree."""
    nnx, linen = (row[name] for name in FLAX)
    flax = nnx if nnx == linen else f"nnx: {nnx}<br>linen: {linen}"
    return [cell(flax if column == "Flax" else row[column]) for column in COLUMNS]


def rows_that_differ(rows: list[dict], layer: str) -> list[tuple[str, ...]]:
    """The questions to which the frameworks have several answers."""
    shown = [(QUESTIONS[r["question"]].words, *cells(r)) for r in rows if r["layer"] == layer]
    return [row for row in shown if len({*row[1:]} - {"—"}) > 1]


def rows_that_agree(rows: list[dict]) -> list[tuple[str, str, str]]:
    """The questions to which all have the same answer, and for which layers."""
    same: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        answers = {*cells(row)} - {"—"}
        if len(answers) == 1:
            words = QUESTIONS[row["question"]].words, answers.pop()
            same.setdefault(words, []).append(row["layer"])
    return [(*words, ", ".join(layers)) for words, layers in same.items()]


# PyTorch and normlib, which the book's own environment has


def arrays(tensors) -> dict:
    return {
        name.removeprefix("parametrizations."): t.detach().clone().numpy() for name, t in tensors
    }


def torch_module(layer: str, size, groups, options: dict) -> torch.nn.Module:
    if layer not in ALONG:
        torch.manual_seed(0)
        linear = torch.nn.Linear(*size.shape[::-1], bias=False)
        linear.weight.data = torch.tensor(size).float()
        return getattr(torch.nn.utils.parametrizations, f"{layer}_norm")(linear)
    if layer == "group":
        named = {} if groups is None else {"num_groups": groups}
        return torch.nn.GroupNorm(num_channels=size, **named)
    names = {"batch": "BatchNorm1d", "instance": "InstanceNorm1d"}
    kinds = names | {"layer": "LayerNorm", "RMS": "RMSNorm"}
    return getattr(torch.nn, kinds[layer])(size, **options)


def make_torch(layer: str, size, dtype: str, groups=None, **options) -> Made:
    module = torch_module(layer, size, groups, options).to(getattr(torch, dtype))

    def call(x, dtype, training=None):
        if training is not None:
            module.train(training)
        with warnings.catch_warnings():  # RMSNorm warns where types are mixed, and goes on
            warnings.simplefilter("ignore")
            y = module(torch.tensor(x).to(getattr(torch, dtype)))
        return y.detach().double().numpy(), str(y.dtype).removeprefix("torch.")

    return Made(
        call, lambda: arrays(module.named_parameters()), lambda: arrays(module.named_buffers())
    )


def make_normlib(layer: str, size, dtype: str, groups=None, **options) -> Made:
    """Its functions take tensors, and so every dtype that PyTorch has."""
    kind = getattr(torch, dtype)
    gamma, beta = torch.ones(size, dtype=kind), torch.zeros(size, dtype=kind)
    own = {"gamma": gamma} if layer == "RMS" else {"gamma": gamma, "beta": beta}
    state = {"mean": beta, "var": gamma} if layer == "batch" else {}
    named = {"groups": groups} if layer == "group" and groups else {}

    def call(x, dtype, training=None):
        x = torch.tensor(x).to(getattr(torch, dtype))
        if state and training is False:
            y, _ = layers.batch_norm_inference(x, *state.values(), *own.values())
        else:
            function = getattr(layers, f"{layer.lower()}_norm")
            y, _ = function(x, *own.values(), **named)
        if state and training and len(x) > 1:
            now = layers.update_running(*state.values(), x.to(kind), **options)
            state.update(zip(state, now, strict=True))
        return y.double().numpy(), str(y.dtype).removeprefix("torch.")

    return Made(call, lambda: arrays(own.items()), lambda: arrays(state.items()))


PYTORCH = Framework(make_torch, last=("layer", "RMS"), absent={})
NORMLIB = Framework(
    make_normlib,
    last=("layer", "RMS"),
    absent=dict.fromkeys(("weight", "spectral"), "functions of arrays that the caller keeps"),
)
