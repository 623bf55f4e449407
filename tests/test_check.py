"""One call for any layer: what it takes, what it finds out by itself, and what it says."""

import re
import sys
import warnings
from functools import partial

import numpy as np
import pytest
import torch

from normbook.studies import own_layer
from normlib import (
    batch_norm,
    batch_norm_backward,
    evidence,
    group_norm,
    group_norm_backward,
    layer_norm,
    layer_norm_backward,
    verify,
)
from normlib.verify import __main__ as command
from normlib.verify.problem import Problem
from normlib.verify.small import smaller
from normlib.verify.verdict import Difference

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, 6, 4))
LABELS = np.array([0, 3, 1, 1, 2, 0])
RMS = own_layer.rms_norm, own_layer.rms_norm_backward
NORM = layer_norm, layer_norm_backward
THREE = {"shapes": ((8, 3), (3,), (3,))}


def said(*layer, **options) -> verify.Verdict:
    """The verdict, green or red."""
    return verify.check(*layer, raises=False, **options)


def caught(*layer, **options) -> bool:
    return "central differences" in said(*layer, **options).caught_by


# One call, and its older names.


@pytest.mark.parametrize("seed", [{}, {"seed": 3}, {"rng": np.random.default_rng(4)}])
def test_a_call_needs_no_more_than_a_layer_and_shapes_and_asks_the_exact_witness_too(seed):
    verdict = said(*NORM, **THREE, **seed)
    ran = {"exact", "complex step", "central differences", "autograd", "second order", "layouts"}
    assert not verdict.red and ran <= set(verdict.ran)
    assert "SymPy 3×3" in repr(verdict)


def test_the_arguments_of_a_seed_are_those_of_its_generator():
    drawn = []

    def forward(x):
        drawn.append(x)
        return 2 * x, None

    for seed in ({}, {"rng": np.random.default_rng(0)}, {"seed": 1}):
        said(forward, lambda dy, cache: 2 * dy, shapes=((3, 2),), **seed)
        drawn.append(None)
    ends = [n for n, x in enumerate(drawn) if x is None]
    first, second, third = (drawn[n] for n in (0, ends[0] + 1, ends[1] + 1))
    assert np.array_equal(first, second) and not np.array_equal(first, third)


def test_the_evidence_of_a_layer_can_be_handed_to_every_name():
    options = evidence.layer_norm()
    args, rng = (X, Y[0], Y[1]), np.random.default_rng(0)
    shapes = tuple(a.shape for a in args)
    verdict = verify.check(*NORM, args, **options)
    assert not verdict.not_run and re.search(r"exact +SymPy 2×3, 1×2×2 +0", repr(verdict))
    options |= {"derivation": None, "small": options["small"]()[:1]}
    for verdict in (
        verify.check(*NORM, shapes=shapes, **options),
        verify.layer(*NORM, shapes=shapes, rng=rng, **options),
        verify.backward(*NORM, args, rng=rng, **options),
    ):
        assert [name for name, _ in verdict.not_run] == ["general size"]
    assert len(verify.falsify(*NORM, args, **options | {"small": ()}).errors) == 16


def test_a_set_of_small_shapes_may_stand_alone_and_none_turns_the_witness_off():
    for small in (((2, 3), (3,), (3,)), (((2, 3), (3,), (3,)),)):
        assert "SymPy 2×3" in repr(said(*NORM, **THREE, small=small))
    verdict = said(*NORM, **THREE, small=())
    assert dict(verdict.not_run)["exact"] == "no small shapes given"


def test_either_arguments_or_shapes_are_given():
    for given, got in (({}, "none"), ({"args": (X,), "shapes": ((6, 4),)}, "both")):
        with pytest.raises(ValueError, match=rf"args or shapes must be given, but got {got}; try"):
            verify.check(*NORM, **given)


def test_no_module_has_the_name_of_a_function():
    for name in verify.__all__:
        assert f"normlib.verify.{name}" not in sys.modules
    assert callable(verify.layer) and callable(verify.check)


# Settings are given once.


def test_settings_are_given_once_and_reach_the_evidence():
    x, gamma, beta = (np.random.default_rng(1).standard_normal(s) for s in ((3, 6, 4), 6, 6))
    args, pair = (x, gamma, beta), (group_norm, group_norm_backward)
    settings, known = {"groups": 1, "eps": 0.1}, evidence.group_norm()
    assert not verify.check(*pair, args, settings=settings, **known).not_run
    fast = known | {"small": (), "derivation": None}
    in_use = verify.check(*pair, args, settings=settings, **fast)
    bound = partial(group_norm, **settings)
    assert repr(verify.check(bound, pair[1], args, **fast)) == repr(in_use)
    wrong = fast | {"flat": evidence.group_norm.flat(2)}
    assert "properties" in said(*pair, args, settings=settings, **wrong).caught_by
    table = verify.falsify(*pair, args, settings=settings, **fast)
    assert len(table.errors) == 16 and table.caught.any(axis=1).all()


# Small shapes are found.


@pytest.mark.parametrize(
    ("forward", "backward", "shapes", "found"),
    [
        (*NORM, ((8, 3), (3,), (3,)), ((3, 3), (3,), (3,))),
        (*NORM, ((4, 5, 6), (5, 6), (5, 6)), ((3, 3, 1), (3, 1), (3, 1))),
        (batch_norm, batch_norm_backward, ((8, 6, 5, 5), (6,), (6,)), ((3, 3, 1, 1), (3,), (3,))),
        # four channels, for each of two groups of one value would have no gradient
        (partial(group_norm, groups=2), group_norm_backward, ((4, 8), *[(8,)] * 2),
         ((3, 4), (4,), (4,))),
        (partial(group_norm, groups=3), group_norm_backward, ((4, 6), *[(6,)] * 2),
         ((2, 6), (6,), (6,))),
        (partial(group_norm, groups=32), group_norm_backward, ((4, 64), *[(64,)] * 2), None),
    ],
)  # fmt: skip
def test_small_shapes_are_cut_from_the_large_ones_where_the_layer_still_runs(
    forward, backward, shapes, found
):
    rng = np.random.default_rng(5)
    args = tuple(map(rng.standard_normal, shapes))
    assert smaller(Problem(forward, backward, args, rng)) == ((found,) if found else ())
    verdict = said(forward, backward, args)
    assert not verdict.red and ("exact" in verdict.ran) is (found is not None)
    if not found:
        assert "no small shapes found" in dict(verdict.not_run)["exact"]


def test_a_layer_whose_algebra_would_take_hours_is_not_asked_for_it():
    def forward(x, gamma, beta):
        once, first = layer_norm(x, gamma, beta)
        twice, second = layer_norm(once @ once.T @ once, gamma, beta)
        return twice, (first, second, once)

    def backward(dy, cache):
        first, second, h = cache
        d, dgamma, dbeta = layer_norm_backward(dy, second)
        dh = d @ h.T @ h + h @ d.T @ h + h @ h.T @ d
        dx, more, again = layer_norm_backward(dh, first)
        return dx, dgamma + more, dbeta + again

    verdict = said(forward, backward, **THREE)
    assert not verdict.red and "too long" in dict(verdict.not_run)["exact"]


@pytest.mark.parametrize("options", [{}, {"small": ((2, 3), (3,), (3,))}], ids=["found", "given"])
def test_a_kernel_of_float32_alone_is_not_asked_for_algebra(options):
    def kernel(x, gamma, beta):
        if not isinstance(x, np.ndarray) or x.dtype != np.float32:
            raise TypeError("float32 only")
        return layer_norm(x, gamma, beta)

    verdict = said(kernel, layer_norm_backward, **THREE, dtype=np.float32, **options)
    assert not verdict.red and "TypeError: float32 only" in dict(verdict.not_run)["exact"]


def test_what_is_no_algebra_is_not_asked_for_it():
    forward = lambda x: (abs(x) * x, x)  # noqa: E731
    verdict = said(forward, lambda dy, x: 2 * dy * abs(x), shapes=((3, 2),))
    assert not verdict.red and dict(verdict.not_run)["exact"] == "not algebraic: Abs"


LONG = 0.7978845608028654


@pytest.mark.parametrize("number", [1 / 3, 1e-12, 0.044715, LONG, 3**-0.5])
def test_a_rounded_number_in_a_right_layer_does_not_make_it_red(number):
    forward = lambda x, w: ((number * x @ w) ** 3, (x, w))  # noqa: E731

    def backward(dy, cache):
        x, w = cache
        d = dy * 3 * number**3 * (x @ w) ** 2
        return d @ w.T, x.T @ d

    verdict = said(forward, backward, shapes=((6, 4), (4, 3)))
    assert not verdict.red
    if number == LONG:
        assert "rounded numbers, such as" in dict(verdict.not_run)["exact"]


def test_a_short_number_that_is_wrong_is_still_seen_by_the_algebra():
    verdict = said(lambda x: (x**3 / 3, x), lambda dy, x: 1.01 * dy * x**2, shapes=((6, 4),))
    assert "exact" in verdict.caught_by


# Outputs and arguments of every form.


def cross_entropy(x, labels):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    p, rows = e / e.sum(axis=1, keepdims=True), np.arange(len(x))
    return -np.mean(np.log(p[rows, labels])), (p, rows, labels)


def cross_entropy_backward(dy, cache):
    p, rows, labels = cache
    d = p.copy()
    d[rows, labels] -= 1
    return dy * d / len(d)


def of_first(change):
    """The backward of the cross-entropy, spoilt."""
    return lambda dy, cache: change(cross_entropy_backward(dy, cache))


@pytest.mark.parametrize(
    "returned",
    [lambda d: d, lambda d: (d, None), lambda d: [d, None]],
    ids=["bare", "none", "list"],
)
def test_a_loss_is_a_number_and_labels_are_data(returned):
    assert not said(cross_entropy, of_first(returned), (X, LABELS)).red
    assert caught(cross_entropy, of_first(lambda d: returned(2 * d)), (X, LABELS))


def test_a_loss_of_torch_takes_labels_and_a_reference():
    reference = torch.nn.functional.cross_entropy
    layer = lambda x, labels: reference(x, labels)  # noqa: E731
    assert not said(layer, args=(X, LABELS)).red
    verdict = said(cross_entropy, cross_entropy_backward, (X, LABELS), reference=reference)
    assert not verdict.red and {"forward", "autograd"} <= set(verdict.ran)
    summed = partial(torch.nn.functional.cross_entropy, reduction="sum")
    other = lambda x, labels: summed(x, labels)  # noqa: E731
    again = said(cross_entropy, cross_entropy_backward, (X, LABELS), reference=other)
    assert {"forward", "autograd", "second order"} == set(again.caught_by)


def embedding(weight, at):
    return weight[at], (at, weight.shape)


def embedding_backward(dy, cache):
    at, shape = cache
    dweight = np.zeros(shape, dy.dtype)
    for row, place in zip(dy, at, strict=True):
        dweight[place] = dweight[place] + row
    return dweight


def test_indices_are_data_even_for_the_exact_witness():
    def overwrites(dy, cache):
        at, shape = cache
        dweight = np.zeros(shape, dy.dtype)
        dweight[at] = dy  # the last of equal indices alone
        return dweight

    verdict = said(embedding, embedding_backward, (X, LABELS % 4))
    assert not verdict.red and {c.argument for c in verdict.checks} >= {"dweight"}
    assert "dat" not in {c.argument for c in verdict.checks}
    assert caught(embedding, overwrites, (X, LABELS % 4))
    in_front = lambda at, weight: embedding(weight, at)  # noqa: E731
    assert not said(in_front, embedding_backward, (LABELS % 4, X)).red


def test_a_gradient_of_integers_is_refused():
    backward = lambda dy, cache: (embedding_backward(dy, cache), np.zeros(6))  # noqa: E731
    with pytest.raises(ValueError, match=r"at must be an array of float64 where .*got int64; try"):
        said(embedding, backward, (X, LABELS % 4))


def dyt(x, alpha):
    y = np.tanh(alpha * x)
    return y, (x, alpha, y)


def dyt_backward(dy, cache):
    x, alpha, y = cache
    d = dy * (1 - y * y)
    return alpha * d, (d * x).sum()


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_an_argument_may_be_a_single_number(dtype):
    verdict = said(dyt, dyt_backward, shapes=((6, 4), ()), dtype=dtype)
    assert not verdict.red and "layouts" in verdict.ran
    mean = lambda dy, cache: (dyt_backward(dy, cache)[0], dyt_backward(dy, cache)[1] / 24)  # noqa: E731
    assert "dalpha" in said(dyt, mean, shapes=((6, 4), ()), dtype=dtype).differences()
    assert not said(lambda x, alpha: torch.tanh(alpha * x), shapes=((6, 4), ())).red


def test_the_gradient_of_a_single_number_has_its_algebra():
    forward = lambda x, a: (a * x, (x, a))  # noqa: E731
    backward = lambda dy, cache: (cache[1] * dy, (dy * cache[0]).sum())  # noqa: E731
    verdict = said(forward, backward, shapes=((6, 4), ()))
    assert not verdict.red and "exact" in verdict.ran
    wrong = lambda dy, cache: (cache[1] * dy, (dy * cache[0]).sum() / 9)  # noqa: E731
    assert "exact" in said(forward, wrong, shapes=((6, 4), ())).caught_by


def with_statistics(x):
    """Standardized rows, and the deviations by which they were divided."""
    c = x - x.mean(-1, keepdims=True)
    std = ((c * c).mean(-1) + 0.1) ** 0.5
    return (c / std[:, None], std), (c, std)


def with_statistics_backward(dy, cache):
    (dy, dstd), (c, std) = dy, cache
    along = (dstd - (dy * c).sum(-1) / std**2) / (std * c.shape[-1])
    d = dy / std[:, None] + along[:, None] * c
    return d - d.mean(-1, keepdims=True)


def test_several_outputs_have_an_upstream_gradient_each():
    pair = with_statistics, with_statistics_backward
    verdict = said(*pair, shapes=((6, 4),), reference=lambda x: with_statistics(x)[0])
    assert not verdict.red and {"forward", "autograd", "second order"} <= set(verdict.ran)
    forgets = lambda dy, cache: pair[1]((dy[0], 0 * dy[1]), cache)  # noqa: E731
    assert {"central differences", "autograd"} <= set(
        said(pair[0], forgets, shapes=((6, 4),)).caught_by
    )
    wrong = lambda x: with_statistics(2 * x)[0]  # noqa: E731
    assert "forward" in said(*pair, shapes=((6, 4),), reference=wrong).caught_by
    assert not said(lambda x: with_statistics(x)[0], shapes=((6, 4),)).red
    with pytest.raises(
        ValueError, match=r"must return the pair y, cache, .*\(y, z\), cache for two"
    ):
        said(lambda x: (x, x, None), pair[1], shapes=((6, 4),))


class TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, times):
        ctx.save_for_backward(x)
        ctx.times = times
        return x * times, x.square().sum()

    @staticmethod
    def backward(ctx, dy, dsum):
        return dy * ctx.times + 2 * ctx.saved_tensors[0] * dsum, None


def test_a_function_of_torch_may_have_several_outputs_and_a_setting():
    for settings in ({"times": 3}, {"times": 2}):
        assert not said(TwoOutputs, shapes=((6, 4),), settings=settings).red
    assert not said(partial(TwoOutputs, times=3), shapes=((6, 4),)).red
    with pytest.raises(ValueError, match=r"for each of .*'times'.*settings="):
        said(TwoOutputs, shapes=((6, 4),))


# Kinks, and slices whose scale is shorter than the step.


def of_reals(f):
    """As a compiled kernel, which leaves central differences alone to judge."""

    def kernel(x):
        if x.dtype.kind != "f":
            raise TypeError("floats only")
        return f(x)

    return kernel


def relu(x, threshold=0.0):
    return np.maximum(x, 0), x > threshold


def row_maximum(x):
    y = x.max(axis=1, keepdims=True)
    return y, x == y


def masked(dy, mask):
    return dy * mask


KINKS = {"relu": relu, "row maximum": row_maximum}


@pytest.mark.parametrize("dtype", [np.float32, float])
@pytest.mark.parametrize("layer", KINKS)
def test_a_kink_within_the_step_makes_no_right_layer_red(layer, dtype):
    drawn = [((6, 4), seed) for seed in range(100)] + [((16, 16), seed) for seed in range(10)]
    for shape, seed in drawn:
        for forward in (KINKS[layer], of_reals(KINKS[layer])):
            verdict = said(forward, masked, shapes=(shape,), seed=seed, dtype=dtype, small=())
            assert not verdict.red, seed


@pytest.mark.parametrize("dtype", [np.float32, float])
def test_a_kink_in_the_wrong_place_is_red_wherever_an_entry_lies_between(dtype):
    """Also where it lies within the step; in float32 one whose upstream gradient is a hundredth
    of the largest is below the bound, in the middle of a slope too."""
    between = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, threshold = rng.standard_normal((16, 16)).astype(dtype), 10 ** rng.uniform(-4, -1)
        problem = Problem(partial(of_reals(partial(relu, threshold=threshold))), masked, (x,), rng)
        wrong = (x > 0) & (x <= threshold)
        seen = np.abs(problem.dy[wrong]) > 3 * problem.bounds.central * problem.scales[0]
        between += seen.any()
        red = any(c.failure for c in verify.central_differences(problem))
        assert red or not seen.any(), seed
        assert wrong.any() or not red, seed
    assert between >= 10


def test_at_a_kink_itself_every_value_between_the_slopes_is_right_and_no_other():
    x = np.array([[0.0, 1.0, -1.0, 0.0]])
    for value, red in ((0.0, False), (0.5, False), (1.0, False), (1.1, True), (-0.1, True)):
        forward = of_reals(lambda x, v=value: (np.maximum(x, 0), np.where(x == 0, v, x > 0)))
        assert caught(forward, masked, (x,)) is red, value


def test_layer_norm_of_two_features_is_never_red():
    """Where the two are close, y turns within sqrt(eps), far less than the spread of x."""
    for seed in range(200):
        options = {"seed": seed, "witnesses": ("central differences",)}
        assert not said(*NORM, shapes=((6, 2), (2,), (2,)), **options).red, seed


def test_a_wrong_layer_norm_of_two_features_is_red():
    wrong = evidence.layer_norm.twins()["dx without the variance term"]
    for seed in range(20):
        shapes = (6, 2), (2,), (2,)
        assert caught(wrong.forward, wrong.backward, shapes=shapes, seed=seed, small=())


def test_two_numbers_that_differ_are_not_printed_alike():
    text = str(Difference((0, 1), 34.1450012, 34.1450049))
    expected, got = re.findall(r"34\.\d+", text)
    assert expected != got and str(Difference((0,), 1.0, 2.0)).endswith("expected 1, got 2")


# What is said of a layer that cannot be judged.


def test_a_layer_that_draws_numbers_is_told_that_first_and_nothing_else():
    noise = np.random.default_rng(0)

    def dropout(x):
        mask = noise.random(x.shape) > 0.5
        return x * mask, mask

    for layer, options in (((dropout, masked), {}), ((torch.nn.Dropout(),), {})):
        verdict = said(*layer, shapes=((6, 4),), **options)
        assert [c.argument for c in verdict.red] == ["y"] and len(verdict.checks) == 1
        assert "the layer gives different outputs for the same input" in verdict.differences()
        assert verdict.not_run[0][0] == "all others"
    with pytest.raises(verify.VerificationError, match="different outputs for the same input"):
        verify.backward(dropout, masked, (X,), rng=np.random.default_rng(0))


def test_numbers_at_which_the_layer_is_nan_are_told():
    log = lambda x: (np.log(x), x)  # noqa: E731
    with pytest.raises(
        ValueError, match=r"y must be finite, but got nan at entry \[0, .*positive="
    ):
        said(log, lambda dy, x: dy / x, shapes=((6, 4),))
    assert not said(log, lambda dy, x: dy / x, shapes=((6, 4),), positive=("x",)).red


def writes_in_forward(x, weight):
    x -= 0.1
    return RMS[0](x, weight)


def writes_in_backward(dy, cache):
    dy *= 2
    return RMS[1](dy, cache)


def in_torch(x, weight):
    x -= 0.1
    return x * weight


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        ((writes_in_forward, RMS[1]), ("x", "forward writes to it")),
        ((RMS[0], writes_in_backward), ("dy", "backward writes to it")),
        ((in_torch,), ("x", "forward writes to it")),
    ],
    ids=["forward", "backward", "a leaf of torch"],
)
def test_who_writes_to_what_it_was_given_is_told(layer, told):
    for ask in (said, partial(verify.layer, rng=np.random.default_rng(0), raises=False)):
        verdict = ask(*layer, shapes=((6, 4), (4,)))
        assert [(c.argument, c.failure) for c in verdict.red] == [told]
    if len(layer) == 2:
        args = X.copy(), np.ones(4)
        verdict = verify.backward(*layer, args, rng=np.random.default_rng(0), raises=False)
        assert told in {(c.argument, c.failure) for c in verdict.red}
        assert np.array_equal(args[0], X)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (0,)])
def test_an_argument_without_numbers_is_refused(shape):
    with pytest.raises(ValueError, match=rf"x must hold at least one number, but got .*{shape[0]}"):
        said(*NORM, shapes=(shape, shape[-1:], shape[-1:]))


def test_a_function_without_a_signature_is_asked_all_the_same():
    verdict = said(torch.nn.functional.gelu, shapes=((6, 4),))
    assert not verdict.red and {c.argument for c in verdict.checks} >= {"dargument_0"}


def test_the_buffers_of_a_module_follow_its_input_and_stay_as_they_were():
    module = torch.nn.BatchNorm1d(4)
    before = {name: b.clone() for name, b in module.named_buffers()}
    for dtype in (float, np.float32):
        assert not said(module, shapes=((6, 4), (4,), (4,)), dtype=dtype).red
    for name, b in module.named_buffers():
        assert torch.equal(b, before[name]) and b.dtype == before[name].dtype


def test_an_index_that_was_drawn_as_a_float_is_explained():
    with pytest.raises(IndexError) as raised:
        said(embedding, embedding_backward, shapes=((5, 3), (6,)))
    assert "labels or indices, give args" in "".join(raised.value.__notes__)


def test_a_large_layer_is_announced():
    double = lambda x: (2 * x, None), lambda dy, cache: 2 * dy
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said(*double, shapes=((32, 64),))
        with pytest.raises(UserWarning, match=r"16384 entries .* smaller shapes show the same"):
            said(*double, shapes=((64, 256),))


# The command.


def test_the_usage_that_the_command_prints_is_a_call_that_works(capsys):
    pair = ["normbook.studies.own_layer:rms_norm", ":rms_norm_backward"]
    with pytest.raises(SystemExit):
        command.main(["--help"])
    usage = capsys.readouterr().out.partition("\n\n")[0]
    assert usage.index("--shapes") < usage.index("forward")
    reference = ["--reference", "normbook.studies.own_layer:reference"]
    for words in (
        ["--shapes", "6x4", "4", *pair],
        [*pair, "--shapes", "6x4", "4", *reference],
        ["--set", "eps=0.1", *reference, "--shapes", "6x4", "4", *pair],
    ):
        assert command.main(words) == 0, words
