"""The witnesses pass what is right, and each of them goes red on an error aimed at it."""

import inspect
import itertools
import re
from functools import partial

import numpy as np
import pytest
import sympy as sp
import torch
from cases import batch_norm_args

from normlib import (
    batch_norm,
    batch_norm_backward,
    evidence,
    layer_norm,
    layer_norm_backward,
    standardize,
    standardize_backward,
    verify,
)
from normlib.verify import numeric, symbolic
from normlib.verify.run import ALL, WITNESSES

BOUNDS = {f"{bound:.0e}" for bound in (numeric.ROUNDING, numeric.CENTRAL)}
ARGS = batch_norm_args((8, 3), np.random.default_rng(0))
EVIDENCE = evidence.batch_norm()
# without the symbolic witnesses
FAST = {name: EVIDENCE[name] for name in ("reference", "flat", "varied")}


def make_rng(seed: int = 1) -> dict:
    return {"rng": np.random.default_rng(seed)}


def spoil(change):
    """A backward whose gradients pass through `change`."""
    return lambda dy, cache: change(*batch_norm_backward(dy, cache))


def spoil_entry(index, entry, value):
    """A backward that adds to one entry of one gradient."""

    def backward(dy, cache):
        gradients = batch_norm_backward(dy, cache)
        gradients[index][entry] += value
        return gradients

    return backward


def fail(forward=batch_norm, backward=batch_norm_backward, args=ARGS, **options):
    """The error that `verify.backward` raises."""
    with pytest.raises(verify.VerificationError) as raised:
        verify.backward(forward, backward, args, **make_rng() | options)
    return raised.value


def list_red(*args, **options) -> set[str]:
    """The gradients that are wrong."""
    return {check.argument for check in fail(*args, **options).verdict.red}


# What is right passes.


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2)])
@pytest.mark.parametrize("center", [True, False])
def test_standardize_with_bound_keywords_passes_and_returns_a_bare_gradient(axes, center):
    x = np.random.default_rng(4).standard_normal((4, 5, 3)[: max(axes) + 2])
    forward = partial(standardize, axes=axes, eps=1e-3, center=center)
    shapes = (((3, 2),) if max(axes) < 2 else ((2, 1, 2),),)
    verdict = verify.backward(forward, standardize_backward, (x,), shapes=shapes, **make_rng())
    assert {check.argument for check in verdict.checks} == {"dx"}


@pytest.mark.parametrize("eps", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("case", evidence.CASES, ids=lambda case: case.name)
def test_the_evidence_serves_the_eps_and_the_axes_in_use(case, eps):
    takes_eps = "eps" in inspect.signature(case.forward).parameters
    for shapes in (case.examples[0], case.examples[3]) if takes_eps else ():
        forward, args = case.drawn(shapes, np.random.default_rng(5), eps=eps)
        known = {
            n: evidence.of(forward)[n] for n in ("reference", "flat", "reference_twice", "varied")
        }
        verify.backward(forward, case.backward, args, **known, **make_rng())


def test_evidence_refuses_a_keyword_that_the_layer_does_not_take():
    with pytest.raises(ValueError, match=r"expected keywords of batch_norm, among .*eps.* got"):
        evidence.batch_norm(groups=2)


X, GAMMA, BETA = ARGS
SEVEN = np.tile(X, 3)[:, :7]  # seven times 0.1 have a deviation that is not quite 0
HONEST = {
    "one gamma is zero": (1e6 * X, np.array([1.0, 0.0, -2.0]), BETA),
    "gamma all 0.1": (SEVEN, np.full(7, 0.1), np.zeros(7)),
    "beta all 0.1": (SEVEN, np.ones(7), np.full(7, 0.1)),
    "gamma just off 1": (X, 1 + 1e-9 * GAMMA, BETA),
    "channels far from each other": (X + np.array([0.0, 1000.0, -300.0]), GAMMA, BETA),
    "positions of one sample": batch_norm_args((1, 3, 2, 4), np.random.default_rng(2)),
}  # fmt: skip


@pytest.mark.parametrize("case", HONEST)
def test_the_right_backward_passes_on_awkward_data(case):
    verify.backward(batch_norm, batch_norm_backward, HONEST[case], **FAST, **make_rng())


# Each witness, alone and through the verdict, on an error that is aimed at it.


WITHOUT_VARIANCE = evidence.batch_norm.twins()["dx without the variance term"][1:3]


def right_at_one_point_only(dy, cache):
    """The statistics of ARGS, whatever came."""
    dx = standardize_backward(dy * GAMMA, standardize(X, axes=(0,), eps=1e-5)[1])
    return dx, *batch_norm_backward(dy, cache)[1:]


def larger_for_floats(x, gamma, beta, *, eps=1e-5):
    """Wrong for real arrays only, so that complex and torch numbers never see it."""
    y, cache = batch_norm(x, gamma, beta, eps=eps)
    return (y * 1.001 if y.dtype == float else y), cache


def detach_half(x, gamma, beta, *, eps=1e-5):
    """torch loses half of the way from gamma to y."""
    if isinstance(x, torch.Tensor):
        gamma = gamma / 2 + gamma.detach() / 2
    return batch_norm(x, gamma, beta, eps=eps)


def round_upstream(dy, cache):
    return batch_norm_backward(np.round(dy.real, 3) + 0 * dy, cache)


def double_eps(x, gamma, beta, *, eps=1e-5):
    return batch_norm(x, gamma, beta, eps=2 * eps)


AIMED = {
    "forward": (double_eps, batch_norm_backward),
    "general size": WITHOUT_VARIANCE,
    "exact": WITHOUT_VARIANCE,
    "complex step": (batch_norm, spoil(lambda dx, dgamma, dbeta: (dx, dgamma, 1.0001 * dbeta))),
    "central differences": (larger_for_floats, batch_norm_backward),
    "autograd": (detach_half, batch_norm_backward),
    "second order": (batch_norm, right_at_one_point_only),
    "properties": (batch_norm, round_upstream),
}


@pytest.mark.parametrize("witness", WITNESSES)
def test_each_witness_called_alone_goes_red_on_an_error_aimed_at_it(witness):
    known = {n: value for n, value in EVIDENCE.items() if n not in ("plants", "lines")}
    problem = verify.Problem(*AIMED[witness], ARGS, **make_rng(), **known)
    assert [c for c in ALL[witness](problem) if c.failure]


def test_a_gradient_right_at_one_point_only_is_seen_by_no_first_order_witness():
    said = fail(batch_norm, right_at_one_point_only, reference=EVIDENCE["reference"])
    assert said.verdict.caught_by == ("second order",)


# Gradients that are plainly broken.


def spoil_cache(dy, cache):
    gradients = batch_norm_backward(dy, cache)
    cache.standardized.xhat[...] *= 1.5
    return gradients


def double_after_the_first_call():
    factors = itertools.chain([1], itertools.repeat(2))

    def backward(dy, cache):
        factor = next(factors)
        return tuple(factor * g for g in batch_norm_backward(dy, cache))

    return backward


def leave_torch(x, gamma, beta, *, eps=1e-5):
    if isinstance(x, torch.Tensor):
        arrays = (a.detach().numpy() for a in (x, gamma, beta))
        return torch.tensor(batch_norm(*arrays)[0]), None
    return batch_norm(x, gamma, beta, eps=eps)


BROKEN = {  # a forward, a backward, and a part of the message
    **{
        f"the shape {shape}": (
            batch_norm, spoil(lambda dx, dgamma, dbeta, s=shape: (dx, dgamma.reshape(s), dbeta)),
            f"the shape is {shape}, and must be (3,)",
        )
        for shape in ((1, 3), (3, 1))
    },
    "a single nan": (batch_norm, spoil_entry(0, (4, 1), np.nan), "[4, 1]"),
    "a single inf": (batch_norm, spoil_entry(0, (4, 1), np.inf), "[4, 1]"),
    "one entry": (batch_norm, spoil_entry(1, 2, 0.5), "dgamma: complex step: worst at entry [2]"),
    "a spoilt cache": (batch_norm, spoil_cache, "properties"),
    "right only the first time": (batch_norm, double_after_the_first_call(), "dgamma"),
    "a forward that leaves torch": (leave_torch, batch_norm_backward, "autograd"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_gradient_is_red_and_the_error_says_where_each_line_for_one_argument(case):
    forward, backward, words = BROKEN[case]
    lines = str(fail(forward, backward)).splitlines()
    assert words in "\n".join(lines)
    assert all(re.match("(y|dx|dgamma|dbeta): ", line) for line in lines)
    assert case != "one entry" or all(line.startswith("dgamma: ") for line in lines)


def test_a_part_along_a_flat_direction_is_seen_in_a_tiny_gradient_too():
    far = 1e9 * X, GAMMA, BETA
    lean = spoil(lambda dx, *rest: (dx + 1e-5 * np.abs(dx).max(), *rest))
    said = fail(backward=lean, args=far, **FAST)
    assert any("⟂ 1" in check.how for check in said.verdict.red)


# Two zeros prove nothing.


ONE = tuple(a[:1] if a.ndim == 2 else a for a in ARGS)  # a batch of one: y is beta


def add_bias(x, bias, beta):
    return batch_norm(x + bias, 1 + 0 * beta, beta)


def add_bias_backward(dy, cache):
    dx, _, dbeta = batch_norm_backward(dy, cache)
    return dx, dx.sum(0), dbeta


def test_a_batch_of_one_is_refused_unless_zero_is_claimed():
    said = fail(args=ONE)
    assert not said.verdict.red and {c.argument for c in said.verdict.undecided} == {"dx", "dgamma"}
    assert "zero=('x',)" in str(said) and "zero=('gamma',)" in str(said)
    verify.backward(batch_norm, batch_norm_backward, ONE, zero=("x", "gamma"), **make_rng())


def test_a_bias_before_batch_norm_has_no_gradient_and_that_must_be_said():
    pair = add_bias, add_bias_backward  # gamma serves as the bias
    assert {check.argument for check in fail(*pair).verdict.undecided} == {"dbias"}
    assert "both 0" in repr(verify.backward(*pair, ARGS, zero=("bias",), **make_rng()))


@pytest.mark.parametrize("name", ["x", "gamma", "beta"])
def test_a_gradient_that_is_not_zero_must_not_be_claimed_to_be(name):
    assert list_red(zero=(name,), **FAST) == {f"d{name}"}
    lines = str(fail(zero=(name,), **FAST)).splitlines()
    assert all("claimed to be zero" in line for line in lines)


def test_a_claim_of_zero_does_not_pass_a_wrong_gradient():
    backward = spoil(lambda dx, dgamma, dbeta: (dx + 1e-9, dgamma, dbeta))
    assert list_red(backward=backward, args=ONE, zero=("x", "gamma"))


NARROW = {
    "layer": (layer_norm, layer_norm_backward, ((5, 2), (2,), (2,))),
    "batch": (batch_norm, batch_norm_backward, ((2, 3), (3,), (3,))),
}
SLIPS = {  # what becomes of dx, and the eps of the backward
    "none": (lambda dx, dy: dx, 1e-5),
    "no dx at all": (lambda dx, dy: 0 * dx, 1e-5),
    "the wrong sign": (lambda dx, dy: -dx, 1e-5),
    "a mean that is missing": (lambda dx, dy: dx + dy.mean(-1, keepdims=True), 1e-5),
    "another eps": (lambda dx, dy: dx, 1e-3),
}


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("norm", NARROW)
def test_of_two_values_in_float32_a_right_layer_is_never_red_a_wrong_one_never_green(norm, slip):
    """Only eps leaves a dx there, which is smaller than the bound of float32."""
    (forward, backward, shapes), (change, eps) = NARROW[norm], SLIPS[slip]

    def slipped(dy, args):
        dx, *rest = backward(dy, forward(*args, eps=eps)[1])
        return change(dx, dy), *rest

    pair = (lambda *args: (forward(*args)[0], args)), slipped
    told = {"shapes": shapes, "dtype": np.float32, "small": (), "raises": False}
    said = [verify.check(*pair, seed=seed, **told) for seed in range(20)]
    red, undecided = sum(bool(v.red) for v in said), sum(bool(v.undecided) for v in said)
    assert undecided <= 3 and red == (0 if slip == "none" else 20 - undecided)


# The verdict.


def test_the_printed_verdict_is_the_same_for_every_seed_and_holds_no_raw_error():
    verdicts = (
        verify.backward(batch_norm, batch_norm_backward, ARGS, **FAST, **make_rng(seed))
        for seed in range(1, 6)
    )
    (text,) = set(map(repr, verdicts))
    assert set(re.findall(r"\d\S*e-\d+", text)) == BOUNDS
    assert "DISAGREES" not in text


def test_roots_of_multiples_of_each_other_and_roots_in_roots_are_recognized_and_no_others():
    a, b, c = sp.symbols("a b c", positive=True)
    whole, merged = sp.sqrt(27 * a + 6 * b), sp.sqrt(3) * sp.sqrt(9 * a + 2 * b)
    outer = sp.sqrt(1 + whole)
    for same in (
        1 / whole - 1 / merged,
        1 / outer - 1 / sp.sqrt(1 + merged),
        c / outer - c * outer / (1 + whole),
        sp.sqrt(c**2 * a + c**2 * b) - c * sp.sqrt(a + b),
    ):
        assert symbolic.is_zero(same)
    beside = sp.sqrt(9 * a + 2 * b + sp.Rational(1, 10**30))
    assert not symbolic.is_zero(whole - sp.sqrt(3) * beside)
    # 0 where a is 7/5, which is the point that settles most
    assert not symbolic.is_zero((5 * a - 7) * outer)
