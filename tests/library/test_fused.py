"""The kernels compute what the readable layers compute, to the last digits, for every witness."""

import inspect
import sys
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import test_bad_input as bad
import test_family as family
import torch
from project import run

from normlib import evidence, fused, verify
from normlib.fused import core, kernels

NAMES = ("batch_norm", "group_norm", "layer_norm", "rms_norm")
CASES = [
    replace(
        getattr(evidence, name),
        forward=getattr(fused, name),
        backward=getattr(fused, f"{name}_backward"),
    )
    for name in NAMES
]
BLOCKS = [(17, 6), (200, 6), (515, 6)]  # rows that leave a block over, and do not
EXAMPLES = [
    pytest.param(case, shapes, id=f"{case.name}-{'x'.join(map(str, shapes[0]))}-{number}")
    for case in CASES
    for number, shapes in enumerate([*case.examples, *map(case.arguments, BLOCKS)])
]
each_case = pytest.mark.parametrize("case", CASES, ids=family.name_of)


def find_readable(case, forward=None):
    """The case of the readable layer, or its forward with the keywords of another."""
    own = getattr(evidence, case.name)
    return partial(own.forward, **getattr(forward, "keywords", {})) if forward else own


def compute(case, forward, args, dy):
    y, cache = forward(*args)
    return (y, *case.backward(dy, cache))


def check_same_bits(results, others):
    for one, other in zip(results, others, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


# Rounding: y and dx are computed from x, gamma, dy and the statistics in at most eight operations,
# each with an error of at most u, relative to the size of the terms. The sums are float64: those of
# float32 numbers add nothing, those of n float64 numbers at most n · u. The mean is kept in two
# parts, so the condition number |mean| / deviation does not enter, wherever x lies.


def measure_terms(case, forward, args, dy):
    """The size of the terms of y and of each gradient: absolute values in place of all terms."""
    _, (standardized, *_) = find_readable(case, forward)(*args)
    gamma, beta = args[1], (args[2] if len(args) > 2 else 0 * args[1])
    largest = np.abs(standardized.xhat).max()
    d = np.abs(gamma).max() * np.abs(dy).max()
    dx = standardized.rstd.max() * d * (2 + largest * largest)
    terms = dy.size / gamma.size * np.abs(dy).max()
    sums = [terms * largest, terms][: len(args) - 1]
    return [np.abs(gamma).max() * largest + np.abs(beta).max(), dx, *sums]


def measure_errors(case, forward, args, dy):
    """The largest errors, in units of u and the terms, against the readable path in more digits."""
    exact = {np.float32: np.float64, np.float64: np.longdouble}[args[0].dtype.type]
    true_args, true_dy = [a.astype(exact) for a in args], dy.astype(exact)
    truth = compute(find_readable(case), find_readable(case, forward), true_args, true_dy)
    ours = compute(case, forward, args, dy)
    scales = measure_terms(case, forward, true_args, true_dy)
    u = np.finfo(args[0].dtype).eps / 2
    return [float(np.abs(a - b).max() / s / u) for a, b, s in zip(ours, truth, scales, strict=True)]


def allow_units(args):
    return 8 + (args[0].size if args[0].dtype == np.float64 else 0)


def draw(case, shapes, dtype=np.float32, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    forward, (x, *parameters) = case.drawn(shapes, rng)
    dy = rng.standard_normal(x.shape).astype(dtype)
    return forward, [a.astype(dtype) for a in (x + offset, *parameters)], dy


@pytest.mark.parametrize("offset", [0.0, 1e4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("case", "shapes"), EXAMPLES)
def test_every_result_is_that_of_the_readable_path_but_for_rounding(case, shapes, dtype, offset):
    forward, args, dy = draw(case, shapes, dtype, offset)
    assert max(measure_errors(case, forward, args, dy)) <= allow_units(args)


MILLION = {
    "layer_norm": [(1, 1_000_000), (2000, 500)],
    "rms_norm": [(1, 1_000_000)],
    "batch_norm": [(1_000_000, 1), (100, 2, 5000)],
    "group_norm": [(1, 2, 500_000), (1000, 1000)],
}


@pytest.mark.parametrize(
    ("case", "shape"), [(case, shape) for case in CASES for shape in MILLION[case.name]]
)
def test_a_million_float32_values_lose_no_digits_to_the_order_of_summation(case, shape):
    forward, args, dy = draw(case, case.arguments(shape), np.float32, 3.0)
    assert max(measure_errors(case, forward, args, dy)) <= allow_units(args)


@pytest.mark.parametrize("scale", [1e30, 1e-30])
@pytest.mark.parametrize(("case", "shapes"), [(c, s) for c in CASES for s in c.examples[:2]])
def test_a_float32_whose_square_is_none_is_normalized_as_any_other(case, shapes, scale):
    forward, (x, *parameters), dy = draw(case, shapes, np.float32, 0.0)
    args = [np.float32(scale) * x, *parameters]
    assert max(measure_errors(case, partial(forward, eps=0.0), args, dy)) <= allow_units(args)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_case
def test_the_number_of_threads_changes_no_bit(case, dtype, monkeypatch):
    monkeypatch.setattr(core, "ALONE", 0)
    for shape in {"matrix": [(200, 6)], "images": [(5, 6, 30)]}[case.forms[-1]] + [(200, 6)]:
        forward, args, dy = draw(case, case.arguments(shape), dtype, 1.0)
        results = []
        for threads in (1, 2, 3, 300):
            monkeypatch.setattr(core, "get_num_threads", lambda threads=threads: threads)
            results.append(compute(case, forward, args, dy))
            check_same_bits(results[0], results[-1])


def test_an_error_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(core, "get_num_threads", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        core.share(lambda start, stop: 1 / start, core.ALONE + 1, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@each_case
def test_constant_slices_and_nan_do_what_they_do_in_the_readable_path(case, dtype):
    family.test_nan_stays_in_its_slice(case)
    for value in (0.0, 0.1, 1e4 + 0.1, -3e7):
        forward, (x, *parameters), dy = draw(case, case.examples[2], dtype)
        args = [np.full_like(x, value), *parameters]
        y, *gradients = compute(case, forward, args, dy)
        if case.name != "rms_norm":  # beta
            np.testing.assert_array_equal(y, find_readable(case, forward)(*args)[0])
        assert all(np.isfinite(g).all() for g in gradients)


# The witnesses. A kernel takes floats. Complex numbers and symbols go through the same source, not
# compiled; what torch differentiates is the reference.


def load_uncompiled(shipped="", planted=""):
    """The kernels and what stands around them as plain Python, with an edit in it."""
    texts = [inspect.getsource(module) for module in (kernels, core)]
    if shipped:
        assert sum(text.count(shipped) for text in texts) == 1, f"{shipped!r} stands there once"
        texts = [text.replace(shipped, planted) for text in texts]
    loops = type(sys)("loops")
    loops.njit = lambda **options: lambda function: function
    exec(texts[0].replace("from numba import njit\n", ""), vars(loops))
    around = type(sys)("around")
    around.kernels = loops
    exec(texts[1].replace("from normlib.fused import kernels\n", ""), vars(around))
    around.in_order = lambda **arrays: [
        np.ascontiguousarray(a, np.result_type(*arrays.values())) for a in arrays.values()
    ]
    around.get_num_threads = lambda: 1
    return around


def rebuild_over(around, function):
    """A public function of normlib.fused over other kernels."""
    scope = vars(fused) | {n: v for n, v in vars(around).items() if n in vars(fused)}
    made = type(function)(function.__code__, scope, function.__name__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def as_python(case, *edit):
    around = load_uncompiled(*edit)
    return rebuild_over(around, case.forward), rebuild_over(around, case.backward)


SEEN = {  # shapes for every layout of every layer
    "batch_norm": ((4, 3), (2, 3, 4)),
    "group_norm": ((3, 4, 5), (3, 4)),
    "layer_norm": ((4, 5),),
    "rms_norm": ((4, 5),),
}


def judge(case, shape, pair, **options):
    rng = np.random.default_rng(3)
    forward, args = case.drawn(case.arguments(shape), rng)
    forward = partial(pair[0], **getattr(forward, "keywords", {}))
    options = {"reference": case.reference, "small": ()} | options
    return verify.check(forward, pair[1], args, rng=rng, raises=False, **options)


@pytest.mark.parametrize(
    ("case", "shape"), [(case, shape) for case in CASES for shape in SEEN[case.name]]
)
def test_every_witness_confirms_the_kernels(case, shape):
    bound, _ = case.drawn(case.arguments(shape), np.random.default_rng(3))
    options = find_readable(case)(**getattr(bound, "keywords", {}))
    options["small"] = options["small"]()[:1]
    pairs = (case.forward, case.backward), as_python(case)
    floats, numbers = (judge(case, shape, pair, **options) for pair in pairs)
    assert not floats.red and not numbers.red
    assert {"exact", "general size", "complex step"} <= set(numbers.ran)
    assert set(floats.ran) >= {*verify.run.WITNESSES} - {"exact", "general size", "complex step"}


LAYER, BATCH, IMAGES = ("layer_norm", 0), ("batch_norm", 0), ("batch_norm", 1)
GROUP, GROUP_ROWS = ("group_norm", 0), ("group_norm", 1)
PLANTS = {
    "dx without the mean term": ("(d - mean_d) - c * along", "d - c * along", LAYER),
    "dx without the variance term": ("(d - mean_d) - c * along", "d - mean_d", LAYER),
    "variance term with a plus": ("(d - mean_d) - c", "(d - mean_d) + c", BATCH),
    "variance divided by n - 1": ("q / n - d * d", "q / (n - 1) - d * d", GROUP),
    "eps outside the root": (
        "(q / n - d * d + eps) ** 0.5", "((q / n - d * d) ** 0.5 + eps)", IMAGES),
    "what rounding left, forgotten in columns": ("((shift - hi) + s)", "(shift + s)", BATCH),
    "every group with the gamma of the first": (
        "at = at + n if at + n < gamma.size else 0", "at = 0", GROUP_ROWS),
    "gamma forgotten in the sums": ("d = gamma[i] * dy[i]", "d = dy[i]", LAYER),
    "gamma forgotten in dx": ("g[i] * up[i], (row", "up[i], (row", LAYER),
    "dgamma without rstd, in rows": ("(((row[i] - hi) - lo) * k)", "((row[i] - hi) - lo)", LAYER),
    "dgamma without rstd, in pieces": ("= a, b * k", "= a, b", IMAGES),
    "gamma forgotten in a piece's sum": ("s += g * a", "s += a", GROUP),
    "the next channel's gamma": ("g = gamma[(i *", "g = gamma[(1 + i *", GROUP),
    "dgamma and dbeta swapped": (
        "dbeta, dgamma = sums.sum(axis=0)", "dgamma, dbeta = sums.sum(axis=0)", LAYER),
    "dbeta averaged over the samples": ("sums.sum(axis=2)", "sums.mean(axis=2)", IMAGES),
    "columns: one rstd too few": ("rstd * (rstd * p) / len(x)", "rstd * p / len(x)", BATCH),
    "columns: eps outside the root": (
        "(q - s * s + eps) ** -0.5", "((q - s * s) ** 0.5 + eps) ** -1", BATCH),
}  # fmt: skip


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_error_turns_a_witness_red(plant):
    shipped, planted, (name, which) = PLANTS[plant]
    case = CASES[NAMES.index(name)]
    assert judge(case, SEEN[name][which], as_python(case, shipped, planted)).red


# What is refused.


OTHER_NUMBERS = {  # of which the readable layer takes some
    "complex128": lambda a: a + 0j,
    "float16": lambda a: a.astype(np.float16),
    "object": lambda a: a.astype(object),
    "Tensor": torch.tensor,
}


@pytest.mark.parametrize("function", fused.__all__)
def test_bad_input_is_refused_as_in_the_readable_path_and_other_numbers_are_sent_there(function):
    good = dict(bad.GOOD[function])
    if "cache" in good:
        case = CASES[NAMES.index(function.removesuffix("_backward"))]
        forward, args = case.drawn(case.arguments((5, 4)), np.random.default_rng(0))
        good["cache"] = forward(*args)[1]
    first = next(iter(good))
    other = [
        (first, into(good[first]), f"float32 or float64 for normlib.fused, but got {got}; convert")
        for got, into in OTHER_NUMBERS.items()
    ]
    own = [row for name, *row in bad.OWN if name == function]
    rows = [*bad.wrong_values(function), *own, *other]
    bad.check_refusals(getattr(fused, function), good, rows)


@each_case
def test_a_cache_of_the_other_path_is_told_from_its_own(case):
    forward, args, dy = draw(case, case.examples[0], np.float64, 0.0)
    plain = find_readable(case, forward)
    for path, other in ((case.backward, plain), (find_readable(case).backward, forward)):
        cache = other(*args)[1]
        name = f"{type(cache).__module__}.{type(cache).__name__}"
        with pytest.raises(ValueError, match=f"but got a {name}; take both passes from one"):
            path(dy, cache)


def test_without_numba_one_line_says_what_to_install():
    code = "import sys; sys.modules['numba'] = None; import normlib; import normlib.fused"
    last = run(sys.executable, "-c", code).stderr.splitlines()[-1]
    assert "found no numba" in last and "pip install 'normlib[fused]'" in last
