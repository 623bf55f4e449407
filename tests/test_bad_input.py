"""Every public function refuses every kind of bad input, and says what to do instead.

Each message has three parts: what must be, what it got ("but got …" or "but its … is"), and,
after a semicolon, the likely fix.
"""

import inspect
import re
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import sympy as sp
import torch
from cases import batch_norm_args, inference_args

import normlib
from normlib import verify
from normlib.evidence import CASES
from normlib.verify.run import ALL

rng = np.random.default_rng(0)
X, GAMMA, BETA = batch_norm_args((4, 3), rng)
MEAN, VAR = inference_args((4, 3), rng)[1:3]
DY = rng.standard_normal((4, 3))
BN_CACHE = normlib.batch_norm(X, GAMMA, BETA)[1]
STANDARDIZE_CACHE = normlib.standardize(X, axes=(0,), eps=1e-5)[1]

G, U = rng.standard_normal((2, 4))  # X has four rows
SCALING = normlib.fit_standard(X)

GOOD = {  # for each public function, arguments that it takes
    "batch_norm": {"x": X, "gamma": GAMMA, "beta": BETA, "eps": 1e-5},
    "batch_norm_inference": {
        "x": X, "mean": MEAN, "var": VAR, "gamma": GAMMA, "beta": BETA, "eps": 1e-5,
    },
    "standardize": {"x": X, "axes": (0,), "eps": 1e-5},
    "standardize_backward": {"dxhat": DY, "cache": STANDARDIZE_CACHE},
    "update_running": {"mean": MEAN, "var": VAR, "x": X, "momentum": 0.1},
    "layer_norm": {"x": X, "gamma": GAMMA, "beta": BETA, "eps": 1e-5},
    "rms_norm": {"x": X, "gamma": GAMMA, "eps": 1e-6},
    "partial_rms_norm": {"x": X, "gamma": GAMMA, "fraction": 0.5, "eps": 1e-6},
    "group_norm": {"x": X, "gamma": GAMMA, "beta": BETA, "groups": 3, "eps": 1e-5},
    "instance_norm": {"x": X, "gamma": GAMMA, "beta": BETA, "eps": 1e-5},
    "mean_only_batch_norm": {"x": X, "beta": BETA},
    "weight_norm": {"v": X, "g": G},
    "power_iteration": {"w": X, "u": U, "v": GAMMA, "iterations": 2},
    "spectral_norm": {"w": X, "u": U, "v": GAMMA},
    "fit_standard": {"x": X},
    "fit_min_max": {"x": X, "low": -1.0, "high": 1.0},
    "apply_scaling": {"x": X, "scaling": SCALING},
}  # fmt: skip

# For each argument: what comes instead, and pieces of the message beside the argument's name.
NOT_AN_ARRAY = [
    (None, ["must be an array", "got a NoneType", "numpy.asarray("]),
    (1.5, ["must be an array", "got a float", "numpy.asarray("]),
    ([[1.0, 2.0, 3.0]] * 4, ["must be an array", "got a list", "numpy.asarray("]),
    (memoryview(np.ones((4, 3))), ["must be an array", "got a memoryview"]),  # it has a shape
    (np.ones((4, 3), int), ["floating-point", "dtype is int64", "astype(float)"]),
    (np.ones((4, 3), bool), ["floating-point", "dtype is bool", "astype(float)"]),
    (np.full((4, 3), "a"), ["floating-point", "dtype is <U1", "astype(float)"]),
    (torch.ones(4, 3, dtype=torch.int32), ["floating-point", "torch.int32", "double()"]),
]
BATCH = [
    *NOT_AN_ARRAY,
    (X[0], ["(N, C, *spatial)", "got (3,)", "leading axis"]),
    (np.float64(1), ["(N, C, *spatial)", "got ()"]),
]
EMPTY = [
    (X[:0], ["at least one value", "(0, 3)", "leave empty batches out"]),
    (np.zeros((2, 3, 0)), ["at least one value", "(2, 3, 0)"]),
]
CHANNELS = [
    *NOT_AN_ARRAY,
    (GAMMA[:2], ["(3,)", "one value for each channel of x (4, 3)", "got (2,)", "order"]),
    (GAMMA[None], ["(3,)", "got (1, 3)", "reshape"]),
    (np.array(1.0), ["(3,)", "got ()"]),
    (GAMMA[:0], ["(3,)", "got (0,)"]),
]


def wrong_upstreams(shape: tuple[int, ...]) -> list:
    wrong = [(shape[0] - 1, *shape[1:]), shape[::-1], (*shape, 1)]
    lines = [(np.ones(w), [str(shape), "that of the forward pass", f"got {w}"]) for w in wrong]
    return [*NOT_AN_ARRAY, *lines, (BN_CACHE, ["must be an array", "got a BatchNormCache"])]


UPSTREAM = wrong_upstreams(DY.shape)
NUMBER = [
    (None, ["must be a number", "got None"]),
    (True, ["must be a number", "got True"]),
    ("1e-5", ["must be a number", "got '1e-5'"]),
    ([1e-5], ["must be a number", "got [1e-05]"]),
    (np.array(-1.0), ["must be a number", "got array(-1.)"]),
    (np.array(1e-5), ["must be a number", "got array(1.e-05)"]),
    (np.True_, ["must be a number", "got np.True_"]),
    (torch.ones(3), ["must be a number", "got tensor([1., 1., 1.])"]),
    (-1e-5, ["between 0.0 and", "got -1e-05", "sign"]),
    (Fraction(-1, 100), ["between 0.0 and", "got -1/100"]),
    (sp.Rational(-1, 100), ["between 0.0 and", "got -1/100"]),
    (np.float32(-1), ["between 0.0 and", "got -1.0"]),
    (float("nan"), ["between 0.0 and", "got nan"]),
    (float("inf"), ["between 0.0 and", "got inf"]),
]
VARIANCE = [
    (-VAR, ["must not be negative", f"{-VAR.max():.3g}", "swapped"]),
    (-VAR.astype(np.float32), ["must not be negative"]),
    (-1e-3 * VAR, ["must not be negative"]),
]
AXES = [
    ((), ["at least one axis", "(4, 3)", "got ()"]),
    (2, ["-2 to 1", "got (2,)"]),
    (7, ["-2 to 1", "got (7,)"]),
    ((0, -3), ["-2 to 1", "got (0, -3)"]),
    ((0, 0), ["must differ", "got (0, 0)", "each once"]),
    ((0, -2), ["must differ", "each once"]),
    (None, ["integer", "got None"]),
    ("0", ["integer", "got '0'"]),
    ((0.5,), ["integer", "got (0.5,)"]),
    (True, ["integer", "got True"]),
]


FEATURES = [
    *NOT_AN_ARRAY,
    (GAMMA[:2], ["(3,)", "the last axes of x (4, 3)", "got (2,)"]),
    (np.array(1.0), ["got ()"]),
    (np.ones((2, 4, 3)), ["must have the shape (4, 3)", "got (2, 4, 3)"]),
]
SAMPLES = [
    *NOT_AN_ARRAY,
    (X[0], ["(samples, features)", "got (3,)", "leading axis"]),
    (X[..., None], ["(samples, features)", "got (4, 3, 1)", "reshape"]),
    EMPTY[0],
]
MATRIX = [*NOT_AN_ARRAY, (X[0], ["(out, *rest)", "got (3,)"])]
ROWS = [*NOT_AN_ARRAY, (GAMMA, ["(4,)", "each row", "got (3,)"])]
COLUMNS = [*NOT_AN_ARRAY, (U, ["(3,)", "each column", "got (4,)"])]
FRACTION = [
    (value, ["above 0 and at most 1", f"got {value!r}", "1/16"])
    for value in (0, 0.0, -0.5, 1.01, 2, float("nan"), float("inf"), True, None, "1/2", [0.5])
]
COUNT = [
    (value, ["whole number of at least 1", f"got {value!r}"])
    for value in (0, -1, 1.0, True, None, "3", np.int64(0), np.float64(2), np.True_, np.ones(1))
]


def wrong_caches(name: str, others: list) -> list:
    return [(other, [name, f"got a {type(other).__name__}", "(dy, cache)"]) for other in others]


BAD = {
    "batch_norm": {"x": BATCH + EMPTY, "gamma": CHANNELS, "beta": CHANNELS, "eps": NUMBER},
    "batch_norm_inference": {
        "x": BATCH, "mean": CHANNELS, "var": CHANNELS + VARIANCE, "gamma": CHANNELS,
        "beta": CHANNELS, "eps": NUMBER,
    },
    "standardize": {"x": [*NOT_AN_ARRAY, EMPTY[0]], "axes": AXES, "eps": NUMBER},
    "standardize_backward": {
        "dxhat": UPSTREAM,
        "cache": wrong_caches("StandardizeCache", [None, X, (X,), BN_CACHE]),
    },
    "update_running": {
        "mean": CHANNELS,
        "var": CHANNELS + VARIANCE,
        "x": [*BATCH, *EMPTY, (X[:1], ["at least 2 values", "(1, 3)", "larger batch"])],
        "momentum": [*NUMBER, (Fraction(3, 2), ["between 0.0 and 1.0", "got 3/2"])],
    },
    "layer_norm": {
        "x": [*NOT_AN_ARRAY, (np.float64(1), ["got ()"])],
        "gamma": [*FEATURES, (np.ones((4, 3)), ["that of gamma", "got (3,)"])],
        "beta": [*FEATURES, (np.ones((4, 3)), ["that of gamma", "got (4, 3)"])],
        "eps": NUMBER,
    },
    "rms_norm": {"x": NOT_AN_ARRAY, "gamma": FEATURES, "eps": NUMBER},
    "partial_rms_norm": {
        "x": [
            *NOT_AN_ARRAY,
            (np.float64(1), ["got ()", "(*leading, *features)"]),
            (np.ones((4, 5)), ["gamma", "(5,)", "got (3,)"]),
        ],
        "gamma": [*FEATURES, (np.ones((4, 3)), ["the last axis of x (4, 3)", "got (4, 3)"])],
        "fraction": FRACTION,
        "eps": NUMBER,
    },
    "group_norm": {
        "x": BATCH, "gamma": CHANNELS, "beta": CHANNELS, "eps": NUMBER,
        "groups": [*COUNT, (2, ["divide", "(4, 3)", "got 2", "[1, 3]"])],
    },
    "instance_norm": {
        "x": [*BATCH, (np.zeros((2, 3, 0)), ["at least one value", "leave empty"])],
        "gamma": CHANNELS, "beta": CHANNELS, "eps": NUMBER,
    },
    "mean_only_batch_norm": {"x": BATCH + EMPTY, "beta": CHANNELS},
    "weight_norm": {
        "v": [*MATRIX, (X * [[0.0], [1], [1], [1]], ["direction", "row of zeros", "random"]),
              (1e-170 * X, ["direction", "squares", "float64", "scale"])],
        "g": ROWS,
    },
    "power_iteration": {
        "w": [*MATRIX, (0 * X, ["W v", "zero", "random"]), (1e-170 * X, ["squares", "scale"])],
        "u": ROWS, "v": [*COLUMNS, (0 * GAMMA, ["W v", "zero"])], "iterations": COUNT,
    },
    "spectral_norm": {
        "w": [*MATRIX, (X[:, :0], ["empty", "(4, 0)"]), (0 * X, ["is 0 or", "power_iteration"])],
        "u": [*ROWS, (0 * U, ["uᵀ W v", "is 0 or"])], "v": COLUMNS,
    },
    "fit_standard": {"x": SAMPLES},
    "fit_min_max": {
        "x": SAMPLES,
        "low": [(1.0, ["high", "1.0"]), (float("nan"), ["nan"]), ("a", ["number", "'a'"])],
        "high": [
            (-1.0, ["above low", "-1.0"]), (-2.0, ["above low", "-2.0"]), (float("inf"), ["inf"]),
            (None, ["number"]),
        ],
    },
    "apply_scaling": {
        "x": [*NOT_AN_ARRAY, *SAMPLES[-3:-2], (X[:, :2], ["(2,)", "(3,)"])],
        "scaling": [(None, ["Scaling", "got a NoneType", "fit_"]), (X, ["Scaling", "ndarray"])],
    },
}  # fmt: skip

# What can be known of any layer: its backward, and, unless the tables say more, its forward.
for case in CASES:
    forward, args = case.drawn(case.arguments((5, 4)), rng)
    y, cache = forward(*args)
    up, _ = inspect.signature(case.backward).parameters
    others = [None, X, (X,), STANDARDIZE_CACHE]
    GOOD[case.backward.__name__] = {up: rng.standard_normal(y.shape), "cache": cache}
    BAD[case.backward.__name__] = {
        up: wrong_upstreams(y.shape),
        "cache": wrong_caches(type(cache).__name__, others),
    }
    if case.name not in BAD:
        first, *others = zip(inspect.signature(case.forward).parameters, args, strict=False)
        GOOD[case.name] = dict([first, *others])
        misfit = {name: [*NOT_AN_ARRAY, (a[..., None], ["got"])] for name, a in others}
        eps = {"eps": NUMBER} if "eps" in inspect.signature(case.forward).parameters else {}
        BAD[case.name] = {first[0]: NOT_AN_ARRAY} | misfit | eps

TRIED = [
    pytest.param(function, argument, *case, id=f"{function}-{argument}-{number}")
    for function, arguments in BAD.items()
    for argument, cases in arguments.items()
    for number, case in enumerate(cases)
]


@pytest.mark.parametrize(("function", "argument", "value", "pieces"), TRIED)
def test_bad_input_is_refused_with_what_must_be_what_it_got_and_a_fix(
    function, argument, value, pieces
):
    with pytest.raises(ValueError) as raised:
        getattr(normlib, function)(**GOOD[function] | {argument: value})
    message = str(raised.value)
    assert re.match(r"\S+ must .+, but .+; .+", message), message
    assert argument in message
    for piece in pieces:
        assert piece in message


def test_every_public_function_and_each_of_its_arguments_is_in_the_table():
    for name in normlib.__all__:
        parameters = set(inspect.signature(getattr(normlib, name)).parameters)
        if name == "standardize":
            parameters.remove("center")  # a switch; anything is true or false
        assert set(BAD[name]) == parameters, name
        getattr(normlib, name)(**GOOD[name])  # and what is called good is accepted


def test_the_groups_that_would_fit_are_all_named():
    x, six = np.ones((2, 6)), np.ones(6)
    with pytest.raises(ValueError, match=re.escape("got 4; try one of [1, 2, 3, 6]")):
        normlib.group_norm(x, six, six, groups=4)


# The witnesses. Each is given the same bad problem; verify.backward gives it to all.

PAIR = normlib.batch_norm, normlib.batch_norm_backward


def alone(witness):
    """The call of one witness, on a problem that is made of the same arguments."""
    return lambda **given: ALL[witness](verify.Problem(**given))


NUMERIC = ("complex step", "central differences", "autograd", "second order", "properties")
WITNESSES = {"verify.backward": verify.backward} | {name: alone(name) for name in NUMERIC}


def problem(**changes) -> dict:
    good = {"forward": PAIR[0], "backward": PAIR[1], "args": (X, GAMMA, BETA)}
    return good | {"rng": np.random.default_rng(0)} | changes


def returns(change) -> dict:
    """A backward whose three gradients are changed."""
    return {"backward": lambda dy, cache: change(normlib.batch_norm_backward(dy, cache))}


BAD_PROBLEMS = {
    "a seed for rng": ({"rng": 0}, ["rng", "Generator", "got int", "default_rng"]),
    "an old RandomState": (
        {"rng": np.random.RandomState(0)},
        ["rng", "Generator", "got RandomState", "default_rng"],
    ),
    "float32": (
        {"args": (X, GAMMA.astype(np.float32), BETA)},
        ["gamma", "float64", "got float32", "asarray(gamma"],
    ),
    "integers": ({"args": (X, GAMMA, np.ones(3, int))}, ["beta", "float", "int64"]),
    "a list": ({"args": (X.tolist(), GAMMA, BETA)}, ["x", "float64", "got list", "asarray(x"]),
    "a tensor": ({"args": (torch.tensor(X), GAMMA, BETA)}, ["x", "NumPy", "got torch.float64"]),
    "too few arguments": (
        {"args": (X, GAMMA)},
        ["args", "['x', 'gamma', 'beta']", "got 2", "functools.partial"],
    ),
    "too many arguments": (
        {"args": (X, GAMMA, BETA, np.array(1e-5))},
        ["args", "got 4", "functools.partial"],
    ),
    "an eps that has no value": (
        {"forward": lambda x, gamma, beta, eps: PAIR[0](x, gamma, beta, eps=eps)},
        ["args", "'eps'", "got 3", "functools.partial"],
    ),
    "an unknown name in zero": (
        {"zero": ("x", "dx")},
        ["zero", "['x', 'gamma', 'beta']", "dx", "got"],
    ),
    "a shape that the layer refuses": ({"args": (X, GAMMA[:2], BETA)}, ["gamma", "got (2,)"]),
}
BAD_BACKWARDS = {
    "one gradient too few": (returns(lambda g: g[:2]), ["backward", "got 2"]),
    "one too many": (returns(lambda g: (*g, g[2])), ["backward", "got 4"]),
    "no tuple": (returns(lambda g: g[0]), ["backward", "tuple", "ndarray"]),
    "None for a gradient": (returns(lambda g: (g[0], None, g[2])), ["dgamma", "NoneType"]),
    "a forward without a cache": (
        {"forward": lambda x, gamma, beta: PAIR[0](x, gamma, beta)[0]},
        ["forward", "y, cache"],
    ),
}


@pytest.mark.parametrize("witness", WITNESSES)
@pytest.mark.parametrize("case", BAD_PROBLEMS | BAD_BACKWARDS)
def test_a_bad_problem_is_refused_by_every_witness(witness, case):
    changes, pieces = (BAD_PROBLEMS | BAD_BACKWARDS)[case]
    with pytest.raises(ValueError) as raised:
        WITNESSES[witness](**problem(**changes))
    message = str(raised.value)
    assert re.search(r" must .+, (but|for) .+; .+", message), message
    for piece in pieces:
        assert piece in message


def test_rng_cannot_be_left_out():
    with pytest.raises(TypeError, match="rng"):
        verify.backward(*PAIR, (X, GAMMA, BETA))


def test_the_exact_witness_alone_takes_sets_of_shapes():
    with pytest.raises(ValueError, match=r"shapes must hold.* for each of .*got \(3, 2\)"):
        verify.exact(*PAIR, ((3, 2), (2,), (2,)))


@pytest.mark.parametrize(
    ("shapes", "pieces"),
    [
        ((((3, 2), (2,)),), ["shapes", "'beta'", "got ((3, 2), (2,))"]),
        ((((3, 2), (3,), (2,)),), ["gamma", "got (3,)"]),
    ],
    ids=["one shape missing", "refused by the layer"],
)
def test_bad_shapes_for_the_exact_witness_are_refused(shapes, pieces):
    for call in (
        partial(verify.exact, *PAIR, shapes),
        partial(verify.backward, **problem(), shapes=shapes),
    ):
        with pytest.raises(ValueError) as raised:
            call()
        for piece in pieces:
            assert piece in str(raised.value)
