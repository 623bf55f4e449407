"""One call for any layer: what it takes, what it finds out by itself, and what it says."""

import re
import warnings
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest
import torch
from cases import take_floats_alone

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
PLACES = {"args": (X, np.array([0, 3, 1, 1, 2, 0]))}  # rows of X
RMS = own_layer.rms_norm, own_layer.rms_norm_backward
NORM = layer_norm, layer_norm_backward
BATCH = batch_norm, batch_norm_backward
# Shapes: of x alone, with a weight for each column, and with the parameters of a normalization.
ALONE, WEIGHTED = {"shapes": ((6, 4),)}, {"shapes": ((6, 4), (4,))}
THREE, AFFINE = {"shapes": ((8, 3), (3,), (3,))}, {"shapes": ((6, 4), (4,), (4,))}
MAPS = {"shapes": ((6, 4, 5), (4,), (4,))}
REFERENCE = {"reference": evidence.batch_norm.reference}
FLAT = {"flat": evidence.batch_norm()["flat"]}


def judge(*layer, **options) -> verify.Verdict:
    """The verdict, green or red."""
    return verify.check(*layer, raises=False, **options)


def catch(*layer, **options) -> bool:
    return "central differences" in judge(*layer, **options).caught_by


def in_groups(groups):
    return partial(group_norm, groups=groups), group_norm_backward


def change(backward, what):
    """The same backward, its gradients changed."""
    return lambda dy, cache: what(backward(dy, cache))


@pytest.mark.parametrize("seed", [{}, {"seed": 3}, {"rng": np.random.default_rng(4)}])
def test_a_call_needs_no_more_than_a_layer_and_shapes_and_asks_the_exact_witness_too(seed):
    verdict = judge(*NORM, **THREE, **seed)
    ran = {"exact", "complex step", "central differences", "autograd", "second order", "layouts"}
    assert not verdict.red and ran <= set(verdict.ran)
    assert "SymPy 3×3" in repr(verdict)


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
    assert "properties" in judge(*pair, args, settings=settings, **wrong).caught_by
    table = verify.falsify(*pair, args, settings=settings, **fast)
    assert len(table.errors) == 16 and table.caught.any(axis=1).all()


# A layer, its shapes, and the small ones.
SMALL = [
    (NORM, THREE["shapes"], ((3, 3), (3,), (3,))),
    (NORM, ((4, 5, 6), (5, 6), (5, 6)), ((3, 3, 1), (3, 1), (3, 1))),
    (BATCH, ((8, 6, 5, 5), (6,), (6,)), ((3, 3, 1, 1), (3,), (3,))),
    # four channels, for each of two groups of one value would have no gradient
    (in_groups(2), ((4, 8), (8,), (8,)), ((3, 4), (4,), (4,))),
    (in_groups(3), ((4, 6), (6,), (6,)), ((2, 6), (6,), (6,))),
    (in_groups(32), ((4, 64), (64,), (64,)), None),
]


@pytest.mark.parametrize(("layer", "shapes", "small"), SMALL)
def test_small_shapes_are_cut_from_the_large_ones_where_the_layer_still_runs(layer, shapes, small):
    rng = np.random.default_rng(5)
    args = tuple(map(rng.standard_normal, shapes))
    assert smaller(Problem(*layer, args, rng)) == ((small,) if small else ())
    verdict = judge(*layer, args)
    assert not verdict.red and ("exact" in verdict.ran) is (small is not None)
    assert small or "no small shapes found" in dict(verdict.not_run)["exact"]


# Layers of every kind, which the tables below judge.


def make_cubes(number):
    """A layer with a rounded number in it."""

    def backward(dy, cache):
        x, w = cache
        d = dy * 3 * number**3 * (x @ w) ** 2
        return d @ w.T, x.T @ d

    return lambda x, w: ((number * x @ w) ** 3, (x, w)), backward


def embed(weight, at):
    return weight[at], (at, weight.shape)


def embed_backward(dy, cache):
    at, shape = cache
    dweight = np.zeros(shape, dy.dtype)
    for row, place in zip(dy, at, strict=True):
        dweight[place] = dweight[place] + row
    return dweight


def mean_square(weight, at):
    """A loss: a number, of data that have no gradient."""
    return (weight[at] ** 2).sum() / len(at), (weight, at)


def mean_square_backward(dy, cache):
    weight, at = cache
    return embed_backward(2 * dy * weight[at] / len(at), (at, weight.shape))


RETURNS = {"bare": lambda d: d, "with None": lambda d: (d, None), "in a list": lambda d: [d, None]}


def overwrite(dy, cache):
    at, shape = cache
    dweight = np.zeros(shape, dy.dtype)
    dweight[at] = dy  # the last of equal indices alone
    return dweight


def real_part(x, gamma, beta):
    y, cache = batch_norm(x, gamma, beta)
    return y.real + 0 * y, cache


def unbiased_on_tensors(x, gamma, beta):
    if isinstance(x, torch.Tensor):
        return (x - x.mean(0)) / torch.sqrt(x.var(0) + 1e-5) * gamma + beta, None
    return batch_norm(x, gamma, beta)


def with_gain(x, gamma, beta, *, eps=1e-5, gain=2.0):
    """A gain is a number above 0, as eps is: 0 in its place would make the layer another one."""
    y, cache = batch_norm(x, gamma * gain, beta, eps=eps)
    return y, (cache, gain)


def with_gain_backward(dy, cache):
    dx, dgamma, dbeta = batch_norm_backward(dy, cache[0])
    return dx, dgamma * cache[1], dbeta


def round_to_float32(x, gamma, beta, eps=1e-5):
    y, cache = batch_norm(*(a.astype(np.float32) for a in (x, gamma, beta)), eps=eps)
    return y.astype(float), cache


class OnlyOnce(own_layer.RMSNorm):
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, dy):
        return own_layer.RMSNorm.backward(ctx, dy)


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


def square_and_sum(x):
    """Two outputs."""
    return (x * x, x.sum(0)), x


def square_and_sum_backward(dy, x):
    return 2 * x * dy[0] + dy[1]


class Row(NamedTuple):
    layer: tuple
    options: dict
    seen: frozenset | set = frozenset()  # witnesses that run, and gradients
    lacking: Mapping = MappingProxyType({})  # by name a part of the reason


LONG = 0.7978845608028654
CUBES = {"shapes": ((6, 4), (4, 3))}
LOG = lambda x: (np.log(x), x), lambda dy, x: dy / x
SQUARES = square_and_sum, square_and_sum_backward
SCALED = lambda x, alpha: (alpha * x, (x, alpha)), lambda dy, c: (c[1] * dy, (c[0] * dy).sum())
SCALAR = {"shapes": ((6, 4), ())}
IN_PLACE = lambda x, gamma, beta, eps=0.3: batch_norm(x, gamma, beta, eps=eps), BATCH[1]
GAIN = with_gain, with_gain_backward
MODULE_SEEN = {"dx", "dweight", "dbias", "central differences", "second order", "layouts"}
RIGHT = {
    "no algebra": Row(
        (lambda x: (abs(x) * x, x), lambda dy, x: 2 * dy * abs(x)), {"shapes": ((3, 2),)},
        lacking={"exact": "not algebraic: Abs"}),
    **{f"the number {number}": Row(make_cubes(number), CUBES)
       for number in (1 / 3, 1e-12, 0.044715, 3**-0.5)},
    "a rounded number inside": Row(
        (lambda x: ((1 / 3 * x) ** 3, x), lambda dy, x: 3 * dy * (1 / 3) ** 3 * x**2), ALONE),
    "a long number": Row(make_cubes(LONG), CUBES, lacking={"exact": "rounded numbers, such as"}),
    **{f"a loss, its gradient {how}": Row(
        (mean_square, change(mean_square_backward, form)), PLACES)
       for how, form in RETURNS.items()},
    "indices": Row((embed, embed_backward), PLACES, {"dweight"}, {"dat": ""}),
    "indices in front": Row(
        (lambda at, weight: embed(weight, at), embed_backward), {"args": PLACES["args"][::-1]}),
    "a number": Row(SCALED, SCALAR, {"layouts", "dalpha"}),
    "a number in torch": Row((lambda x, alpha: torch.tanh(alpha * x),), SCALAR),
    "several outputs": Row(
        SQUARES, ALONE | {"reference": lambda x: square_and_sum(x)[0]},
        {"forward", "autograd", "second order"}),
    "several outputs in torch": Row((lambda x: square_and_sum(x)[0],), ALONE),
    "no small shapes": Row(NORM, THREE | {"small": ()}, lacking={"exact": "shapes given"}),
    "numbers above 0": Row(LOG, ALONE | {"positive": ("x",)}),
    "plain NumPy": Row(
        RMS, WEIGHTED | {"small": ((2, 2), (2,))},
        {"complex step", "central differences", "properties", "layouts"},
        {"forward": "no reference given", "general size": "derivation given",
         "exact": "takes no symbols (TypeError",
         "autograd": "", "second order": "takes no torch tensors"}),
    "var, which is not analytic": Row(
        (own_layer.variance_norm, own_layer.variance_norm_backward), ALONE,
        {"central differences"}, {"complex step": "not analytic"}),
    "a kernel for real numbers": Row(
        (take_floats_alone(batch_norm), BATCH[1]), THREE | REFERENCE,
        {"forward", "central differences", "autograd", "second order"},
        {"complex step": "no complex numbers (TypeError: expected an array of floats)"}),
    "a real part": Row((real_part, BATCH[1]), THREE, lacking={"complex step": ""}),
    "something else on tensors": Row(
        (unbiased_on_tensors, BATCH[1]), THREE,
        lacking={"autograd": "on torch tensors the forward gives another y"}),
    "a setting that the reference gets": Row(IN_PLACE, THREE | REFERENCE, {"forward"}),
    "a setting that is bound": Row(
        (partial(IN_PLACE[0], eps=0.1), BATCH[1]), THREE | REFERENCE, {"forward"}),
    "a setting that is not varied": Row(
        GAIN, THREE | FLAT | {"small": ((2, 1), (1,), (1,)), "varied": ("eps",)}, {"exact"}),
    "a function of torch": Row(
        (own_layer.RMSNorm,), WEIGHTED,
        {"dx", "dweight", "complex step", "second order", "layouts"},
        {"autograd": "the gradients under test are its own"}),
    "a function that can be differentiated once": Row(
        (OnlyOnce,), WEIGHTED, lacking={"second order": "no double backward"}),
    "a module": Row((torch.nn.LayerNorm(4),), AFFINE, MODULE_SEEN),
    "a module of indices": Row(
        (torch.nn.Sequential(torch.nn.Embedding(6, 4), torch.nn.BatchNorm1d(3).eval()),),
        {"args": (np.arange(6).reshape(2, 3), X, X[0, :3], X[1, :3])},
        {"dlayer_0_weight", "second order"}, {"complex step": "no complex numbers"}),
    "a module of doubles": Row((torch.nn.BatchNorm1d(4).double(),), MAPS, MODULE_SEEN),
}  # fmt: skip


@pytest.mark.parametrize("case", RIGHT)
def test_a_right_layer_passes_and_what_it_cannot_serve_is_named_with_the_reason(case):
    layer, options, seen, lacking = RIGHT[case]
    verdict = judge(*layer, **options)
    found = {*verdict.ran, *(check.argument for check in verdict.checks)}
    assert not verdict.red and seen <= found and not found & {*lacking}
    for witness, words in lacking.items():
        reasons = [why for name, why in verdict.not_run if name == witness]
        assert not words or any(words in why for why in reasons), reasons


def test_an_embedding_that_meets_complex_numbers_warns_of_nothing():
    def scatter(dy, cache):
        dweight = np.zeros(cache[1])
        np.add.at(dweight, cache[0], dy)
        return dweight

    def look_up(x, weight):
        return weight[x.long().abs()[:, 0]] * x

    torch.set_warn_always(True)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert not judge(embed, scatter, **PLACES).red
        assert not judge(look_up, shapes=((6, 4), (6, 4))).red
    torch.set_warn_always(False)
    assert not seen, [str(warning.message) for warning in seen]


WRONG = {  # a layer, options, and what is red among others
    "a short number": (
        (lambda x: (x**3 / 3, x), lambda dy, x: 1.01 * dy * x**2), ALONE, {"exact"}),
    **{f"a loss, its gradient {how}": (
        (mean_square, change(mean_square_backward, lambda d, form=form: form(2 * d))),
        PLACES, {"central differences"}) for how, form in RETURNS.items()},
    "indices that overwrite": ((embed, overwrite), PLACES, {"central differences"}),
    **{f"a mean for a sum in {dtype.__name__}": (
        (SCALED[0], change(SCALED[1], lambda d: (d[0], d[1] / 24))),
        SCALAR | {"dtype": dtype}, {"dalpha"}) for dtype in (float, np.float32)},
    "a second output forgotten": (
        (square_and_sum, lambda dy, x: 2 * x * dy[0]), ALONE, {"central differences", "autograd"}),
    "several outputs beside another reference": (
        SQUARES, ALONE | {"reference": lambda x: square_and_sum(2 * x)[0]}, {"forward"}),
    "a reference with another eps": (
        IN_PLACE, THREE | {"reference": lambda *args: REFERENCE["reference"](*args, eps=0.2)},
        {"forward"}),
    "an eps that stayed in flat directions": (GAIN, THREE | FLAT, {"properties"}),
    "float32 inside": ((round_to_float32, BATCH[1]), THREE | REFERENCE, {"forward"}),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_layer_of_any_kind_is_red(case):
    layer, options, expected = WRONG[case]
    verdict = judge(*layer, **options)
    assert expected <= {*verdict.caught_by, *(check.argument for check in verdict.red)}


AS_PLAIN = {  # what a kernel computes that takes every array for a plain one
    "by the order of the axes": lambda a: a.ravel(order="K")[: a.size].reshape(a.shape),
    "by the first stride": lambda a: a if a.strides[0] else 2 * a,
    "by the last stride": lambda a: a if a.strides[-1] == a.itemsize else 2 * a,
}
SEEN_BY = {  # a layer, the only witnesses that see it, and where
    "a weight too many": (
        (RMS[0], own_layer.weight_twice_backward), {"complex step", "central differences"}, ""),
    "other strides in torch": ((own_layer.OtherStrides,), {"layouts"}, ""),
    "saved on the way": ((own_layer.SavedOnTheWay,), {"second order"}, ""),
    **{f"dy {how}": (
        (RMS[0], lambda dy, cache, read=read: RMS[1](read(dy), cache)), {"layouts"}, "dy,")
       for how, read in AS_PLAIN.items()},
    "x by the last stride": (
        (lambda x, w: RMS[0](AS_PLAIN["by the last stride"](x), w), RMS[1]), {"layouts"}, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", SEEN_BY)
def test_the_errors_of_the_page_and_of_strides_are_seen_by_these_witnesses_alone(case):
    layer, witnesses, place = SEEN_BY[case]
    verdict = judge(*layer, **WEIGHTED)
    assert set(verdict.caught_by) == witnesses
    assert all(check.how.startswith(place) for check in verdict.red)
    assert ("y" in {check.argument for check in verdict.red}) is case.startswith("x")


def test_a_layer_that_answers_otherwise_the_second_time_is_seen():
    noise = np.random.default_rng(0)  # as a buffer that nobody has filled with zeros
    backward = change(RMS[1], lambda d: (d[0], d[1] + noise.standard_normal(d[1].shape)))
    verdict = judge(RMS[0], backward, **WEIGHTED)
    assert ("dweight", "the same once more") in {(c.argument, c.how) for c in verdict.red}


REFUSED = {  # a layer, options, and the message
    "no numbers": (NORM, {}, "args or shapes must be given, but got none; try"),
    "numbers twice": (
        NORM, {"args": (X,)} | ALONE, "args or shapes must be given, but got both; try"),
    "a gradient of integers": (
        (embed, lambda dy, cache: (embed_backward(dy, cache), np.zeros(6))), PLACES,
        "at must be an array of float64 where .*got int64; try"),
    "three results": (
        (lambda x: (x, x, None), square_and_sum_backward), ALONE,
        r"must return the pair y, cache, .*\(y, z\), cache for two"),
    "nan": (LOG, ALONE, r"y must be finite, but got nan at entry \[0, .*positive="),
    **{f"an argument of shape {shape}": (
        NORM, {"shapes": (shape, shape[-1:], shape[-1:])},
        rf"x must hold at least one number, but got .*{shape[0]}")
       for shape in ((0, 3), (4, 0), (0,))},
    "a name that is no setting": (
        GAIN, THREE | {"varied": ("epsilon",)},
        r"varied must name settings .*'gain'.*got \['epsilon'\]"),
    "a class of modules": (
        (torch.nn.LayerNorm,), WEIGHTED, "a module itself, but got the class LayerNorm; make one"),
    "no gradient": ((NoGradient,), WEIGHTED, "dweight must be an array, but got a NoneType"),
    "a cache in torch": (
        (lambda x, weight: (x * weight, None),), WEIGHTED,
        "return a tensor, .* but got a tuple; wrap it"),
    "a tensor for an array": (
        (lambda x, weight: (torch.tensor(x * weight), None), RMS[1]), WEIGHTED,
        "y must be a NumPy array, but got .*Tensor; wrap"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_layer_or_no_input_of_it_is_refused(case):
    layer, options, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        verify.check(*layer, **options)


# Kinks, and slices whose scale is shorter than the step.


def relu(x, threshold=0.0):
    return np.maximum(x, 0), x > threshold


def row_maximum(x):
    y = x.max(axis=1, keepdims=True)
    return y, x == y


def mask_upstream(dy, mask):
    return dy * mask


@pytest.mark.parametrize("dtype", [np.float32, float])
@pytest.mark.parametrize("layer", [relu, row_maximum])
def test_a_kink_within_the_step_makes_no_right_layer_red(layer, dtype):
    """A kernel leaves central differences alone to judge."""
    many = [((6, 4), seed) for seed in range(30)] + [((16, 16), seed) for seed in range(3)]
    for shape, seed in many:
        options = {"shapes": (shape,), "seed": seed, "dtype": dtype, "small": ()}
        for forward in (layer, take_floats_alone(layer)):
            assert not judge(forward, mask_upstream, **options).red, seed


@pytest.mark.parametrize("dtype", [np.float32, float])
def test_a_kink_in_the_wrong_place_is_red_where_an_entry_lies_between(dtype):
    """In float32 one whose upstream gradient is a hundredth of the largest is below the bound."""
    for seed in range(10):
        x = np.random.default_rng(seed).standard_normal((16, 16)).astype(dtype)
        forward = take_floats_alone(partial(relu, threshold=0.03))
        assert ((x > 0) & (x <= 0.03)).any() == catch(forward, mask_upstream, (x,), seed=seed)


def test_at_a_kink_itself_every_value_between_the_slopes_is_right_and_no_other():
    x = np.array([[0.0, 1.0, -1.0, 0.0]])
    for value, red in ((0.0, False), (0.5, False), (1.0, False), (1.1, True), (-0.1, True)):
        relu_at = lambda x, v=value: (np.maximum(x, 0), np.where(x == 0, v, x > 0))  # noqa: E731
        assert catch(take_floats_alone(relu_at), mask_upstream, (x,)) is red, value


def test_layer_norm_of_two_features_is_red_where_it_is_wrong_and_nowhere_else():
    """Where the two are close, y turns within sqrt(eps), far less than the spread of x."""
    shapes = (6, 2), (2,), (2,)
    wrong = evidence.layer_norm.twins()["dx without the variance term"]
    for seed in range(50):
        assert not catch(*NORM, shapes=shapes, seed=seed, witnesses=("central differences",)), seed
    for seed in range(20):
        assert catch(wrong.forward, wrong.backward, shapes=shapes, seed=seed, small=())


# A layer that cannot be judged, and what must stay as it was.


def test_a_layer_that_draws_numbers_is_told_that_first_and_nothing_else():
    noise = np.random.default_rng(0)

    def dropout(x):
        mask = noise.random(x.shape) > 0.5
        return x * mask, mask

    for layer in ((dropout, mask_upstream), (torch.nn.Dropout(),)):
        verdict = judge(*layer, **ALONE)
        assert [c.argument for c in verdict.red] == ["y"] and len(verdict.checks) == 1
        assert "the layer gives different outputs for the same input" in verdict.differences()
        assert verdict.not_run[0][0] == "all others"
    with pytest.raises(verify.VerificationError, match="different outputs for the same input"):
        verify.backward(dropout, mask_upstream, (X,), rng=np.random.default_rng(0))


def write_in_forward(x, weight):
    x -= 0.1
    return RMS[0](x, weight)


def write_in_backward(dy, cache):
    dy *= 2
    return RMS[1](dy, cache)


@pytest.mark.parametrize(
    ("layer", "blame"),
    [
        ((write_in_forward, RMS[1]), ("x", "forward writes to it")),
        ((RMS[0], write_in_backward), ("dy", "backward writes to it")),
    ],
)
def test_who_writes_to_what_it_was_given_is_told(layer, blame):
    for ask in (judge, partial(verify.layer, rng=np.random.default_rng(0), raises=False)):
        assert [(c.argument, c.failure) for c in ask(*layer, **WEIGHTED).red] == [blame]
    args = X.copy(), np.ones(4)
    verdict = verify.backward(*layer, args, rng=np.random.default_rng(0), raises=False)
    assert blame in {(c.argument, c.failure) for c in verdict.red}
    assert np.array_equal(args[0], X)


def test_the_buffers_of_a_module_follow_its_input_and_stay_as_they_were():
    module = torch.nn.BatchNorm1d(4)
    before = {name: b.clone() for name, b in module.named_buffers()}
    for dtype in (float, np.float32):
        assert not judge(module, **MAPS, dtype=dtype).red
    for name, b in module.named_buffers():
        assert torch.equal(b, before[name]) and b.dtype == before[name].dtype


# The command.

MODULE = "normbook.studies.own_layer"
PAIR = f"{MODULE}:rms_norm", ":rms_norm_backward"


COMMANDS = {  # words, the exit code, and what is printed, or in one line said of an error
    "what ran, what did not, and why": (
        PAIR, 0, r"(?s)not run:.*forward: no reference given.*autograd, second order: the forward "
        r"takes no torch tensors.*no witness that ran disagrees$"),
    "where a layer is wrong": (
        (PAIR[0], ":weight_twice_backward"), 1,
        r"dx is wrong.*\n.*24 of 24.*\n +first entry \[0, 0\]"),
    "no such function": (
        [f"{MODULE}:f"], 2,
        r"^.*a function of .*among (?!.*'WITNESSES').*'rms_norm'.* got 'f'$"),
    "no such argument": (
        [f"{MODULE}:RMSNorm", "--positive", "var"], 2,
        r"^.*positive must name .*'weight'.* got .*'var'.*$"),
    "a kernel": (
        [f"{MODULE}:RMSNorm", "--set", "eps=0.1", "--dtype", "float16", "--reference",
         ":reference"],
        1, r"(?s)y is wrong .*rounding"),
    "a device that is not there": (
        [f"{MODULE}:RMSNorm", "--device", "nowhere", "--dtype", "float32"], 2,
        r"^.*device must be one that torch can use here.*$"),
    "a layer that fails": ([*PAIR, "--set", "eps=none"], 2, "Traceback"),
}  # fmt: skip


@pytest.mark.parametrize("case", COMMANDS)
def test_the_command_says_what_was_found_or_what_cannot_be_asked(case, capsys):
    words, code, message = COMMANDS[case]
    assert command.main([*words, "--shapes", "6x4", "4"]) == code
    said = capsys.readouterr()
    assert re.search(message, (said.err if code == 2 else said.out).rstrip("\n"))
    assert not (said.out if code == 2 else said.err)
    assert "NOT RUN" not in said.out


# Arrays of other libraries.


class Traced(np.ndarray):
    """As JAX has them while it compiles: no condition can be read."""

    def any(self, *args, **keywords):
        return self

    def __bool__(self):
        raise TypeError("attempted boolean conversion of a tracer")


ONES = np.ones(4)
ASKED = {
    "weight": lambda x: normlib.weight_norm(x, ONES[:3])[0],
    "power iteration": lambda x: normlib.power_iteration(x, ONES[:3], ONES)[1],
    "spectral": lambda x: normlib.spectral_norm(x, ONES[:3], ONES)[0],
    "inference": lambda x: normlib.batch_norm_inference(x, ONES, abs(x[0]), ONES, ONES)[0],
    "running": lambda x: normlib.update_running(ONES, abs(x[0]), x)[1],
}


@pytest.mark.parametrize("layer", ASKED)
def test_no_layer_asks_a_traced_array_for_its_values(layer):
    x = np.random.default_rng(0).standard_normal((3, 4))
    assert np.array_equal(ASKED[layer](x.view(Traced)), ASKED[layer](x))
