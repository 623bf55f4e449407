"""One call for any layer: what it takes, what it finds out by itself, and what it says."""

import inspect
import re
import sys
from functools import partial

import numpy as np
import pytest
import torch
from project import run

import normlib
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

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 4))
LABELS = np.array([0, 3, 1, 1, 2, 0])
RMS = own_layer.rms_norm, own_layer.rms_norm_backward
NORM = layer_norm, layer_norm_backward
THREE = {"shapes": ((8, 3), (3,), (3,))}


def said(*layer, **options) -> verify.Verdict:
    """The verdict, green or red."""
    return verify.check(*layer, raises=False, **options)


def caught(*layer, **options) -> bool:
    return "central differences" in said(*layer, **options).caught_by


# One call.


@pytest.mark.parametrize("seed", [{}, {"seed": 3}, {"rng": np.random.default_rng(4)}])
def test_a_call_needs_no_more_than_a_layer_and_shapes_and_asks_the_exact_witness_too(seed):
    verdict = said(*NORM, **THREE, **seed)
    ran = {"exact", "complex step", "central differences", "autograd", "second order", "layouts"}
    assert not verdict.red and ran <= set(verdict.ran)
    assert "SymPy 3×3" in repr(verdict)


def test_either_arguments_or_shapes_are_given():
    for given, got in (({}, "none"), ({"args": (X,), "shapes": ((6, 4),)}, "both")):
        with pytest.raises(ValueError, match=rf"args or shapes must be given, but got {got}; try"):
            verify.check(*NORM, **given)


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
    drawn = [((6, 4), seed) for seed in range(30)] + [((16, 16), seed) for seed in range(3)]
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
    for seed in range(50):
        options = {"seed": seed, "witnesses": ("central differences",)}
        assert not said(*NORM, shapes=((6, 2), (2,), (2,)), **options).red, seed


def test_a_wrong_layer_norm_of_two_features_is_red():
    wrong = evidence.layer_norm.twins()["dx without the variance term"]
    for seed in range(20):
        shapes = (6, 2), (2,), (2,)
        assert caught(wrong.forward, wrong.backward, shapes=shapes, seed=seed, small=())


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


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        ((writes_in_forward, RMS[1]), ("x", "forward writes to it")),
        ((RMS[0], writes_in_backward), ("dy", "backward writes to it")),
    ],
)
def test_who_writes_to_what_it_was_given_is_told(layer, told):
    for ask in (said, partial(verify.layer, rng=np.random.default_rng(0), raises=False)):
        verdict = ask(*layer, shapes=((6, 4), (4,)))
        assert [(c.argument, c.failure) for c in verdict.red] == [told]
    args = X.copy(), np.ones(4)
    verdict = verify.backward(*layer, args, rng=np.random.default_rng(0), raises=False)
    assert told in {(c.argument, c.failure) for c in verdict.red}
    assert np.array_equal(args[0], X)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (0,)])
def test_an_argument_without_numbers_is_refused(shape):
    with pytest.raises(ValueError, match=rf"x must hold at least one number, but got .*{shape[0]}"):
        said(*NORM, shapes=(shape, shape[-1:], shape[-1:]))


def test_the_buffers_of_a_module_follow_its_input_and_stay_as_they_were():
    module = torch.nn.BatchNorm1d(4)
    before = {name: b.clone() for name, b in module.named_buffers()}
    for dtype in (float, np.float32):
        assert not said(module, shapes=((6, 4), (4,), (4,)), dtype=dtype).red
    for name, b in module.named_buffers():
        assert torch.equal(b, before[name]) and b.dtype == before[name].dtype


# A layer that was written elsewhere: what it takes is found out.

MODULE = "normbook.studies.own_layer"
SHAPES = ((6, 4), (4,))
PAIR = own_layer.rms_norm, own_layer.rms_norm_backward


def seeded(seed=0):
    return {"rng": np.random.default_rng(seed)}


def verdict(*pair, **options) -> verify.Verdict:
    """The same without small shapes of its own: what is not given is not asked."""
    return verify.layer(*pair, **{"shapes": SHAPES, "raises": False} | seeded() | options)


def test_a_plain_numpy_layer_passes_and_what_it_cannot_serve_is_named():
    said = verdict(*PAIR, small=((2, 2), (2,)))
    assert said.ran == ("complex step", "central differences", "properties", "layouts")
    lacking = dict(reversed(said.not_run))
    assert {"forward", "general size", "exact", "autograd", "second order"} <= set(lacking)
    assert "takes no symbols (TypeError" in lacking["exact"]
    assert "takes no torch tensors" in lacking["second order"]


def test_a_layer_with_var_is_not_blamed_for_what_var_does_to_complex_numbers():
    said = verdict(own_layer.variance_norm, own_layer.variance_norm_backward, shapes=((6, 4),))
    assert not said.red and "central differences" in said.ran
    assert "not analytic" in dict(said.not_run)["complex step"]


def on_real_numbers(forward, kinds="f"):
    """The same layer as a compiled kernel: it takes float arrays, and nothing else."""

    def kernel(*args, **keywords):
        for a in args:
            if not isinstance(a, np.ndarray) or a.dtype.kind not in kinds:
                raise TypeError("expected an array of floats")
        return forward(*args, **keywords)

    kernel.__signature__ = inspect.signature(forward)
    return kernel


BATCH = {"shapes": ((8, 3), (3,), (3,))}
REFERENCE = {"reference": evidence.batch_norm.reference}


def test_a_kernel_for_real_numbers_has_all_witnesses_that_real_numbers_allow():
    said = verdict(on_real_numbers(batch_norm), batch_norm_backward, **BATCH, **REFERENCE)
    assert not said.red
    assert {"forward", "central differences", "autograd", "second order"} <= set(said.ran)
    assert "no complex numbers (TypeError: expected an array of floats)" in str(said.not_run)


def real_part(x, gamma, beta):
    y, cache = batch_norm(x, gamma, beta)
    return y.real + 0 * y, cache


def test_a_forward_that_is_not_analytic_is_not_asked_for_complex_numbers():
    said = verdict(real_part, batch_norm_backward, **BATCH)
    assert not said.red
    assert "complex step" in dict(said.not_run) and "complex step" not in said.ran


def unbiased_on_tensors(x, gamma, beta):
    if isinstance(x, torch.Tensor):
        return (x - x.mean(0)) / torch.sqrt(x.var(0) + 1e-5) * gamma + beta, None
    return batch_norm(x, gamma, beta)


def test_a_forward_that_means_something_else_by_tensors_is_not_differentiated_there():
    said = verdict(unbiased_on_tensors, batch_norm_backward, **BATCH)
    assert not said.red and "autograd" not in said.ran
    assert dict(said.not_run)["autograd"] == "on torch tensors the forward gives another y"


def test_a_setting_with_a_default_may_stand_in_its_place_and_the_reference_gets_its_value():
    def forward(x, gamma, beta, eps=0.3):
        return batch_norm(x, gamma, beta, eps=eps)

    said = verdict(forward, batch_norm_backward, **BATCH, **REFERENCE)
    assert not said.red and "forward" in said.ran
    said = verdict(partial(forward, eps=0.1), batch_norm_backward, **BATCH, **REFERENCE)
    assert not said.red
    other = partial(evidence.batch_norm.reference, eps=0.2)
    fixed = lambda x, gamma, beta: other(x, gamma, beta)  # noqa: E731
    assert "forward" in verdict(forward, batch_norm_backward, **BATCH, reference=fixed).caught_by


def test_only_what_is_named_is_varied():
    """A gain is a number above 0, as eps is: 0 in its place would make the layer another one."""

    def forward(x, gamma, beta, *, eps=1e-5, gain=2.0):
        y, cache = batch_norm(x, gamma * gain, beta, eps=eps)
        return y, (cache, gain)

    def backward(dy, cache):
        dx, dgamma, dbeta = batch_norm_backward(dy, cache[0])
        return dx, dgamma * cache[1], dbeta

    options = {"flat": evidence.batch_norm()["flat"]}
    small = {"small": ((2, 1), (1,), (1,)), "varied": ("eps",)}
    said = verdict(forward, backward, **BATCH, **options, **small)
    assert not said.red and "exact" in said.ran
    assert "properties" in verdict(forward, backward, **BATCH, **options).caught_by  # eps stayed
    with pytest.raises(ValueError, match=r"varied must name settings .*'gain'.*got \['epsilon'\]"):
        verify.layer(forward, backward, **BATCH, **seeded(), varied=("epsilon",))


def test_float32_has_bounds_of_its_own_and_they_are_printed():
    said = verdict(batch_norm, batch_norm_backward, **BATCH, **REFERENCE, dtype=np.float32)
    assert not said.red
    printed = set(re.findall(r"\d\S*e-\d+", repr(said)))
    assert printed == {"1e-04", "1e-02"}
    double = verdict(batch_norm, batch_norm_backward, **BATCH, **REFERENCE)
    assert set(re.findall(r"\d\S*e-\d+", repr(double))) == {"1e-10", "1e-07"}


def test_a_layer_that_rounds_to_float32_does_not_pass_as_one_of_float64():
    def forward(x, gamma, beta, eps=1e-5):
        y, cache = batch_norm(*(a.astype(np.float32) for a in (x, gamma, beta)), eps=eps)
        return y.astype(float), cache

    assert verdict(forward, batch_norm_backward, **BATCH, **REFERENCE).red


# Layers of torch.


def test_a_function_of_torch_passes_and_its_arguments_have_its_names():
    said = verdict(own_layer.RMSNorm)
    assert not said.red
    assert {"complex step", "second order", "layouts"} <= set(said.ran)
    assert {"dx", "dweight"} <= {c.argument for c in said.checks}
    assert "the gradients under test are its own" in dict(said.not_run)["autograd"]


@pytest.mark.parametrize("module", [torch.nn.LayerNorm(4), torch.nn.BatchNorm1d(4).double()])
def test_a_module_passes_with_its_parameters_as_arguments(module):
    said = verdict(module, shapes=((6, 4), (4,), (4,)))
    assert not said.red and {"dx", "dweight", "dbias"} <= {c.argument for c in said.checks}
    assert {"central differences", "second order", "layouts"} <= set(said.ran)


class NoGradient(torch.autograd.Function):
    """The newer form, in which forward has no ctx; and it gives no gradient for the weight."""

    @staticmethod
    def forward(x, weight):
        return x * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, dy):
        return dy * ctx.saved_tensors[1], None


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ((torch.nn.LayerNorm,), "a module itself, but got the class LayerNorm; make one"),
        ((NoGradient,), "dweight must be an array, but got a NoneType"),
        ((lambda x, weight: (x * weight, None),), "return a tensor, .* but got a tuple; wrap it"),
        (
            (lambda x, weight: (torch.tensor(x * weight), None), PAIR[1]),
            r"y must be a NumPy array, but got .*Tensor; wrap",
        ),
    ],
)
def test_what_is_no_layer_is_refused(layer, message):
    with pytest.raises(ValueError, match=message):
        verdict(*layer)


class OnlyOnce(own_layer.RMSNorm):
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        return own_layer.RMSNorm.backward(ctx, dy)


def test_a_function_that_can_be_differentiated_only_once_is_told_so():
    said = verdict(OnlyOnce)
    assert not said.red and "second order" not in said.ran
    assert "no double backward" in dict(said.not_run)["second order"]


# Three errors, and other strides.


@pytest.mark.parametrize(
    ("pair", "witnesses"),
    [
        ((PAIR[0], own_layer.weight_twice_backward), {"complex step", "central differences"}),
        ((own_layer.OtherStrides,), {"layouts"}),
        ((own_layer.SavedOnTheWay,), {"second order"}),
    ],
)
def test_each_error_of_the_page_is_found_by_these_witnesses_alone(pair, witnesses):
    assert set(verdict(*pair).caught_by) == witnesses


def spoilt(change):
    """RMSNorm whose upstream, or whose x, passes through `change` on its way in."""
    return lambda dy, cache: PAIR[1](change(dy), cache)


AS_PLAIN = {  # what a kernel computes that takes every array for a plain one
    "by the order of the axes": lambda a: a.ravel(order="K")[: a.size].reshape(a.shape),
    "by the first stride": lambda a: a if a.strides[0] else 2 * a,
    "by the last stride": lambda a: a if a.strides[-1] == a.itemsize else 2 * a,
}


@pytest.mark.parametrize("reads", AS_PLAIN)
def test_a_backward_that_reads_other_strides_wrongly_is_seen(reads):
    said = verdict(PAIR[0], spoilt(AS_PLAIN[reads]))
    assert said.caught_by == ("layouts",)
    assert all(c.how.startswith("dy,") for c in said.red)


def test_a_forward_that_reads_other_strides_wrongly_is_seen():
    forward = lambda x, weight: PAIR[0](AS_PLAIN["by the last stride"](x), weight)  # noqa: E731
    said = verdict(forward, PAIR[1])
    assert "y" in {c.argument for c in said.red} and said.caught_by == ("layouts",)


def test_a_layer_that_answers_otherwise_the_second_time_is_seen():
    noise = np.random.default_rng(0)

    def backward(dy, cache):  # as a buffer that nobody has filled with zeros
        dx, dweight = PAIR[1](dy, cache)
        return dx, dweight + noise.standard_normal(dweight.shape)

    said = verdict(PAIR[0], backward)
    assert ("dweight", "the same once more") in {(c.argument, c.how) for c in said.red}


# Where the first disagreement is.


def test_the_first_wrong_entry_and_the_worst_are_told_with_both_numbers():
    def backward(dy, cache):
        dx, dweight = PAIR[1](dy, cache)
        dx[1, 2] += 0.5
        dx[4, 0] -= 2.0
        return dx, dweight

    x, weight = (np.random.default_rng(0).standard_normal(s) for s in SHAPES)
    said = verdict(PAIR[0], backward)
    found = next(c for c in said.red if c.witness == "complex step")
    assert [d.entry for d in found.wrong] == [(1, 2), (4, 0)]
    assert found.share == "2 of 24 entries"
    problem = verify.Problem(*PAIR, (x, weight), np.random.default_rng(0))
    for difference, change in zip(found.wrong, (0.5, -2.0), strict=True):
        assert np.isclose(difference.got - difference.expected, change)
    text = said.differences()
    assert text.startswith("dx is wrong according to: complex step, central differences")
    assert re.search(r"first entry \[1, 2\]: expected \S+, got \S+\n +worst entry \[4, 0\]", text)
    assert problem.lacks_complex == ""


# The command.


def main(*words):
    return command.main([*words, "--shapes", "6x4", "4"])


def test_the_command_says_what_ran_what_did_not_and_why(capsys):
    assert main(f"{MODULE}:rms_norm", ":rms_norm_backward") == 0
    text = capsys.readouterr().out
    assert "no witness that ran disagrees" in text and "NOT RUN" not in text
    lacking = text.partition("not run:")[2]
    assert re.search(r"autograd, second order: the forward takes no torch tensors", lacking)
    assert "forward: no reference given" in lacking


def test_the_command_says_where_a_layer_is_wrong_and_fails(capsys):
    assert main(f"{MODULE}:rms_norm", ":weight_twice_backward") == 1
    assert re.search(
        r"dx is wrong.*\n.*24 of 24.*\n +first entry \[0, 0\]", capsys.readouterr().out
    )


BAD_WORDS = {
    "no such function": (
        [f"{MODULE}:f"], "expected a function of .*among (?!.*'WITNESSES').*'rms_norm'.* got 'f'",
    ),
    "another argument": (
        [f"{MODULE}:RMSNorm", "--positive", "var"],
        "positive must name .*'weight'.* got .*'var'",
    ),
    "not varied": (
        [f"{MODULE}:rms_norm", ":rms_norm_backward", "--varied", "groups"],
        "varied must name settings .*'eps'.* got .*'groups'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_WORDS)
def test_the_command_refuses_in_one_line_what_cannot_be_asked(case, capsys):
    words, message = BAD_WORDS[case]
    assert main(*words) == 2
    said = capsys.readouterr()
    assert re.search(message, said.err) and len(said.err.splitlines()) == 1 and not said.out


def test_the_command_shows_the_traceback_of_a_layer_that_fails(capsys):
    words = f"{MODULE}:rms_norm", ":rms_norm_backward", "--set", "eps=none"
    assert main(*words) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--shapes", "8by3"], ["--shapes", "0x3"], ["--set", "eps"]])
def test_the_command_refuses_words_that_it_cannot_read(words, capsys):
    with pytest.raises(SystemExit) as stopped:
        command.main([f"{MODULE}:RMSNorm", "--shapes", "4", *words])
    assert stopped.value.code == 2 and "expected a s" in capsys.readouterr().err


def test_the_command_runs_from_the_folder_of_the_layer(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def double(x):\n    return 2 * x, None\n\ndef back(dy, cache):\n    return 2 * dy\n"
    )
    words = ["-m", "normlib.verify", "mine:double", ":back", "--shapes", "3x2", "--small", "2x1"]
    done = run(sys.executable, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "exact" in done.stdout.partition("not run")[0]


# Arrays of other libraries.


class Traced(np.ndarray):
    """As JAX has them while it compiles: no condition can be read."""

    def any(self, *args, **keywords):
        return self

    def __bool__(self):
        raise TypeError("attempted boolean conversion of a tracer")


ONES = np.ones(4)


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: normlib.weight_norm(x, ONES[:3])[0],
        lambda x: normlib.power_iteration(x, ONES[:3], ONES)[1],
        lambda x: normlib.spectral_norm(x, ONES[:3], ONES)[0],
        lambda x: normlib.batch_norm_inference(x, ONES, abs(x[0]), ONES, ONES)[0],
        lambda x: normlib.update_running(ONES, abs(x[0]), x)[1],
    ],
    ids=["weight", "power iteration", "spectral", "inference", "running"],
)
def test_no_layer_asks_a_traced_array_for_its_values(layer):
    x = np.random.default_rng(0).standard_normal((3, 4))
    assert np.array_equal(layer(x.view(Traced)), layer(x))
