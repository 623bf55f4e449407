"""Every public function refuses every kind of bad input, and says what to do instead.

Each message has three parts: what must be, what it got ("but got …" or "but its … is"), and,
after a semicolon, the likely fix.
"""

import inspect
import re
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
import torch

import normlib
from normlib import verify
from normlib.evidence import CASES
from normlib.verify.run import ALL

rng = np.random.default_rng(0)
X, ONE, ROWS = rng.standard_normal((5, 4)), np.ones(4), np.ones(5)
XHAT, STANDARDIZED = normlib.standardize(X, axes=(0,), eps=1e-5)
GOOD = {  # for each public function, arguments that it takes
    "standardize": {"x": X, "axes": (0,), "eps": 1e-5},
    "standardize_backward": {"dxhat": XHAT, "cache": STANDARDIZED},
    "update_running": {"mean": ONE, "var": ONE, "x": X, "momentum": 0.1},
    "power_iteration": {"w": X, "u": ROWS, "v": ONE, "iterations": 2},
    "fit_standard": {"x": X},
    "fit_min_max": {"x": X, "low": -1.0, "high": 1.0},
    "apply_scaling": {"x": X, "scaling": normlib.fit_standard(X)},
}
for case in CASES:
    forward, args = case.drawn(case.arguments((5, 4)), rng)
    y, cache = forward(*args)
    parameters = inspect.signature(case.forward).parameters
    up, _ = inspect.signature(case.backward).parameters
    GOOD[case.name] = dict(zip(parameters, args, strict=False)) | getattr(forward, "keywords", {})
    GOOD[case.name] |= {"eps": 1e-5} if "eps" in parameters else {}
    GOOD[case.backward.__name__] = {up: rng.standard_normal(y.shape), "cache": cache}

# What comes instead of any argument of this name, and a piece of the message.
NUMBER = [(None, "must be a number, but got None"), (-1.0, "between 0.0 and")]
COUNT = [(v, "whole number of at least 1") for v in (0, -1, 1.0, True, None, "3", np.int64(0))]
ARRAY = [
    (None, "must be an array, but got a NoneType; try numpy.asarray("),
    ([[1.0, 2.0]], "must be an array, but got a list"),
    (np.ones((5, 4), int), "floating-point numbers, but its dtype is int64; try"),
]
WRONG = {
    "eps": NUMBER,
    "momentum": [*NUMBER, (Fraction(3, 2), "between 0.0 and 1.0, but got 3/2")],
    "groups": [*COUNT, (3, "divide")],
    "iterations": COUNT,
    "fraction": [
        (v, "above 0 and at most 1") for v in (0, -0.5, 1.01, np.nan, np.inf, True, None, "1/2")
    ],
    "cache": [(v, "(dy, cache)") for v in (None, X, (X,))],
    "scaling": [(v, "Scaling") for v in (None, X)],
    "low": [(1.0, "high"), (np.nan, "nan"), ("a", "number")],
    "high": [(-1.0, "above low"), (-2.0, "above low"), (np.inf, "inf"), (None, "number")],
    "axes": [
        ((), "at least one axis of x, whose shape is (5, 4), but got ()"),
        *((v, "axes run from -2 to 1") for v in (2, 3, (0, -3))),
        *((v, "must differ from each other") for v in ((0, 0), (0, -2))),
        *((v, "must be an integer or a tuple of them") for v in (None, "0", (0.5,), True)),
    ],
}


def wrong_values(function):
    """Of each argument: what is no such thing, and what does not fit beside the first."""
    for number, (name, good) in enumerate(GOOD[function].items()):
        yield from ((name, *row) for row in WRONG.get(name, ARRAY))
        beside = number if name != "x" else 0
        if isinstance(good, np.ndarray) and (beside or function.endswith("_backward")):
            yield name, good[..., None], f"but got {(*good.shape, 1)}"


# What one function alone asks, or one place shows for all: the guard is the same.
OWN = [
    ("batch_norm", "x", memoryview(X), "must be an array, but got a memoryview"),
    ("batch_norm", "x", np.full((5, 4), "a"), "dtype is <U1"),
    ("batch_norm", "x", torch.ones(5, 4, dtype=torch.int32), "torch.int32; try"),
    ("batch_norm", "x", X[0], "(N, C, *spatial), but got (4,); a single sample needs a leading"),
    ("batch_norm", "x", X[:0], "leave empty batches out"),
    ("batch_norm", "x", np.zeros((2, 4, 0)), "(2, 4, 0)"),
    ("batch_norm", "gamma", ONE[:2], "(4,), one value for each channel of x (5, 4), but got (2,)"),
    *(
        ("batch_norm", "eps", v, "must be a number")
        for v in ("1e-5", True, [1e-5], np.array(1e-5), np.True_, torch.ones(3))
    ),
    *(("batch_norm", "eps", v, "between 0.0 and") for v in (np.nan, np.inf, np.float32(-1))),
    *(("batch_norm", "eps", v, "got -1/100") for v in (Fraction(-1, 100), sp.Rational(-1, 100))),
    ("batch_norm_inference", "x", X[0], "leading axis"),
    ("batch_norm_inference", "var", -ONE, "must not be negative"),
    ("update_running", "x", X[:1], "at least 2 values"),
    ("update_running", "var", -ONE, "must not be negative"),
    ("standardize", "x", X[:0], "at least one value"),
    ("standardize", "x", np.float64(1), "whose shape is ()"),
    ("layer_norm", "x", np.float64(1), "got ()"),
    ("layer_norm", "gamma", np.ones((5, 4)), "that of gamma"),
    ("layer_norm", "gamma", np.float64(1), "(*features,)"),
    ("layer_norm", "gamma", ONE[:2], "the last axes of x (5, 4)"),
    ("rms_norm", "gamma", np.ones((2, 5, 4)), "must have the shape (5, 4)"),
    ("partial_rms_norm", "x", np.float64(1), "(*leading, *features)"),
    ("partial_rms_norm", "gamma", np.ones((5, 4)), "the last axis of x (5, 4)"),
    ("group_norm", "groups", 3, "try one of [1, 2, 4]"),
    ("group_norm", "x", X[0], "leading axis"),
    ("instance_norm", "x", np.zeros((2, 4, 0)), "at least one value in each group"),
    ("mean_only_batch_norm", "x", X[:0], "leave empty batches out"),
    ("weight_norm", "v", X * [[0.0], [1], [1], [1], [1]], "row of zeros"),
    ("weight_norm", "v", 1e-170 * X, "squares"),
    ("weight_norm", "v", X[0], "(out, *rest)"),
    ("weight_norm", "g", ONE, "each row"),
    ("power_iteration", "w", 0 * X, "random"),
    ("power_iteration", "w", 1e-170 * X, "squares"),
    ("power_iteration", "v", 0 * ONE, "W v"),
    ("power_iteration", "v", ROWS, "each column"),
    ("spectral_norm", "w", 0 * X, "power_iteration"),
    ("spectral_norm", "w", X[0], "(out, *rest)"),
    ("spectral_norm", "w", X[:0], "must not be empty"),
    ("spectral_norm", "u", 0 * ROWS, "is 0 or"),
    ("fit_standard", "x", X[0], "(samples, features)"),
    ("fit_standard", "x", X[:0], "leave empty batches out"),
    ("fit_min_max", "x", X[..., None], "reshape"),
    ("apply_scaling", "x", X[:, :2], "(2,)"),
    ("apply_scaling", "x", X[0], "(samples, features)"),
]


def check_refusals(call, good, rows):
    """Each row is an argument, what comes instead of it, and a piece of the message."""
    for argument, value, piece in rows:
        with pytest.raises(ValueError) as raised:
            call(**good | {argument: value})
        message = str(raised.value)
        assert re.match(r"\S+ must .+, but .+; .+", message, re.S), message
        assert argument in message and piece in message, (argument, value, message)


@pytest.mark.parametrize("function", normlib.__all__)
def test_bad_input_is_refused_with_what_must_be_what_it_got_and_a_fix(function):
    call, good = getattr(normlib, function), GOOD[function]
    assert {*good} == {*inspect.signature(call).parameters} - {"center"}
    call(**good)  # what is called good is accepted
    own = [row for name, *row in OWN if name == function]
    check_refusals(call, good, [*wrong_values(function), *own])


@pytest.mark.parametrize("channels, groups, piece", [(9, 2, r"[1, 3, 9]"), (0, 1, "in each group")])
def test_group_norm_names_the_numbers_that_divide_its_channels_and_wants_some(
    channels, groups, piece
):
    args = np.ones((2, channels, 3)), np.ones(channels), np.ones(channels)
    with pytest.raises(ValueError, match=re.escape(piece)):
        normlib.group_norm(*args, groups=groups)
    if not channels:
        with pytest.raises(ValueError, match=piece):
            normlib.instance_norm(*args)


def test_what_lies_at_the_edge_of_the_good_is_accepted():
    none, one = np.zeros((0, 4)), np.ones(4)
    assert normlib.group_norm(none, one, one, groups=2)[0].shape == (0, 4)
    assert np.isfinite(normlib.batch_norm_inference(X, one, 0 * one, one, one)[0]).all()
    moved = normlib.update_running(*map(torch.tensor, (one, one, X)))
    for theirs, ours in zip(moved, normlib.update_running(one, one, X), strict=True):
        assert np.allclose(theirs, ours)


# The witnesses. Each is given the same bad problem; verify.backward gives it to all.

BN, BACKWARD = normlib.batch_norm, normlib.batch_norm_backward
WITNESSES = ("complex step", "central differences", "autograd", "second order", "properties")
BAD_PROBLEMS = {
    "a seed for rng": ({"rng": 0}, r"rng .* Generator.* got int; .*default_rng"),
    "float32": (
        {"args": (X, ONE.astype(np.float32), ONE)},
        r"gamma .* float64.* got float32; .*asarray\(gamma",
    ),
    "a list": ({"args": (X.tolist(), ONE, ONE)}, r"x .* got list; .*asarray\(x"),
    "a tensor": ({"args": (torch.tensor(X), ONE, ONE)}, "NumPy.* got torch.float64"),
    "too few": ({"args": (X, ONE)}, r"\['x', 'gamma', 'beta'\].* got 2; .*functools.partial"),
    "an eps without a value": (
        {"forward": lambda x, gamma, beta, eps: BN(x, gamma, beta, eps=eps)},
        "'eps'.* got 3; .*functools.partial",
    ),
    "an unknown name in zero": ({"zero": ("x", "dx")}, r"zero .*\['x', 'gamma', 'beta'\].* got"),
    "a misfit": ({"args": (X, ONE[:2], ONE)}, r"gamma .* got \(2,\)"),
    "a gradient too few": ({"backward": lambda *a: BACKWARD(*a)[:2]}, "backward .* got 2"),
    "a gradient too many": ({"backward": lambda *a: (*BACKWARD(*a), ONE)}, "backward .* got 4"),
    "no tuple": ({"backward": lambda *a: BACKWARD(*a)[0]}, "backward .* tuple.*ndarray"),
    "None": ({"backward": lambda *a: (BACKWARD(*a)[0], None, ONE)}, "dgamma .*NoneType"),
    "no cache": ({"forward": lambda x, gamma, beta: BN(x, gamma, beta)[0]}, "forward .*y, cache"),
}


@pytest.mark.parametrize("case", BAD_PROBLEMS)
def test_a_bad_problem_is_refused_by_every_witness(case):
    changes, message = BAD_PROBLEMS[case]
    given = {"forward": BN, "backward": BACKWARD, "args": (X, ONE, ONE)}
    given |= {"rng": np.random.default_rng(0)} | changes
    calls = [lambda name=name: ALL[name](verify.Problem(**given)) for name in WITNESSES]
    for call in (lambda: verify.backward(**given), *calls):
        with pytest.raises(ValueError, match=f"(?s){message}"):
            call()


BAD_SHAPES = {  # for the exact witness
    ((3, 2), (2,), (2,)): r"shapes must hold.* for each of .*got \(3, 2\)",
    (((3, 2), (2,)),): r"shapes .*'beta'.*got \(\(3, 2\), \(2,\)\)",
    (((3, 2), (3,), (2,)),): r"gamma .*got \(3,\)",
}


@pytest.mark.parametrize("shapes", BAD_SHAPES)
def test_bad_shapes_for_the_exact_witness_are_refused(shapes):
    with pytest.raises(ValueError, match=f"(?s){BAD_SHAPES[shapes]}"):
        verify.exact(BN, BACKWARD, shapes)
