"""Entries that reach different outputs move at once, and nothing that moves is overlooked."""

from functools import partial

import numpy as np
import pytest
from cases import batch_norm_args

from normlib import batch_norm, batch_norm_backward, verify
from normlib.evidence import CASES
from normlib.verify import numeric
from normlib.verify.problem import central_columns, slopes

ARGS = batch_norm_args((6, 3), np.random.default_rng(0))


def make_problem(forward, backward, args=ARGS) -> verify.Problem:
    return verify.Problem(forward, backward, args, np.random.default_rng(1))


def list_red(forward, backward=batch_norm_backward, args=ARGS) -> set[str]:
    """The arguments of which the central differences say that they are wrong."""
    checks = numeric.central_differences(make_problem(forward, backward, args))
    return {check.argument for check in checks if check.failure}


def differentiate_one_by_one(asked: verify.Problem, index: int) -> np.ndarray:
    def y(a):
        return asked.forward(*asked.args[:index], a, *asked.args[index + 1 :])[0]

    gradient = np.empty(asked.args[index].shape)
    for entry, column in central_columns(y, asked.args[index]):
        gradient[entry] = (column * asked.dy).sum()
    return gradient


# Entries share a part of what they reach: the first features reach all.
ALONE = {"partial_rms_norm", "spectral_norm"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_moved_together_the_entries_have_the_gradient_that_each_has_alone(case, monkeypatch):
    forward, args = case.drawn(case.examples[0], np.random.default_rng(2))
    asked, found = make_problem(forward, case.backward, args), []
    monkeypatch.setattr(numeric, "gradient_checks", lambda *given, **_: found.extend(given[3]))
    numeric.central_differences(asked)
    for index, (gradient, scale) in enumerate(zip(found, asked.scales, strict=True)):
        distance = np.abs(gradient - differentiate_one_by_one(asked, index)).max()
        assert distance < 1e-2 * numeric.CENTRAL * scale
    groups, _ = numeric.together(asked.steps[0].reached, asked.y.size)
    assert (len(groups) == args[0].size) is (case.name in ALONE)


# What a forward does to real numbers only, the complex step has not seen.


def leak_between(x, gamma, beta, *, target, source):
    y, cache = batch_norm(x, gamma, beta)
    if y.dtype == float:
        y = y.copy()
        y[:, target] += 1e-3 * source(x, gamma, beta)
    return y, cache


SOURCES = {
    "dx": lambda x, gamma, beta: x[:, 1],
    "dgamma": lambda x, gamma, beta: gamma[1],
    "dbeta": lambda x, gamma, beta: beta[1],
}


@pytest.mark.parametrize("target", [0, 1, 2])
@pytest.mark.parametrize("argument", SOURCES)
def test_a_way_from_one_channel_to_another_is_red_although_no_complex_step_took_it(
    target, argument
):
    assert argument in list_red(partial(leak_between, target=target, source=SOURCES[argument]))


COLUMNS = np.array([1.0, 2.0, 0.0])


def mask(x, *, leak):
    """The last column of y does not depend on x, unless it leaks."""
    y = x * COLUMNS
    if y.dtype == float:
        y[:, 2] += leak * x[:, 0]
    return y, None


# At 5e-7 the complex step is still taken, at 1 it is refused: then every entry moves alone.
@pytest.mark.parametrize(("leak", "wrong"), [(0, set()), (5e-7, {"dx"}), (1, {"dx"})])
def test_an_output_that_nothing_seemed_to_reach_must_not_move(leak, wrong):
    assert list_red(partial(mask, leak=leak), lambda dy, cache: dy * COLUMNS, ARGS[:1]) == wrong


# Kinks.


@pytest.mark.parametrize("curved", [0.0, 1.0, -5.0])
@pytest.mark.parametrize("jump", [1.0, -3.0, 0.1])
def test_a_kink_within_the_step_leaves_the_slope_what_it_is(jump, curved):
    """Also where it cancels a curvature; very close to 0 the other slope may count as well."""
    h, far = 1e-2, [*np.linspace(0.02, 1.5, 75), 1 / 3, 0.999]
    for at in (sign * d for d in [*far, 1e-3, 1e-5, 1e-7] for sign in (1, -1)):

        def f(t, at=at):
            return t + curved * t**2 + t**3 + jump * max(t - at * h, 0)

        (low,), (high,) = slopes(lambda t, f=f: np.array([(f(t) - f(0)) / t]), h, 1e-16)
        slope = 1 + jump * (at < 0)
        assert low - 1e-5 < slope < high + 1e-5, at
        assert high - low < 1e-3 or abs(at) not in far or abs(jump) < 1, at
