"""A planted error has one place, or planting stops; test_report.py counts who catches it."""

import importlib
import textwrap
from functools import partial

import numpy as np
import pytest
from cases import batch_norm_args

from normlib import batch_norm, batch_norm_backward, evidence
from normlib.verify.planted import (
    Edit,
    Plant,
    PlantingError,
    plant,
    plant_in,
    planted_errors,
)

PAIR = batch_norm, batch_norm_backward
PLANTS = evidence.batch_norm.plants
ARGS = batch_norm_args((8, 3), np.random.default_rng(0))


def compute(forward, backward) -> np.ndarray:
    dy = np.random.default_rng(2).standard_normal(ARGS[0].shape)
    y, cache = forward(*ARGS)
    return np.concatenate([np.ravel(a) for a in (y, *backward(dy, cache))])


def test_twins_of_a_layer_with_bound_keywords_bind_them_too():
    for error in planted_errors(partial(batch_norm, eps=0.5), batch_norm_backward, PLANTS):
        y = error.forward(*ARGS)[0]
        # the variance is about 1: with eps = 1e-5 y would be larger by more than a tenth
        assert np.std(y - ARGS[2]) < 0.95 * np.std(batch_norm(*ARGS)[0] - ARGS[2]), error.name


# A plant has one place, or planting stops.


HALF = Plant("half", (PLANTS[0].edits[0], Edit("standardize", "nowhere", "0")))  # two edits
LOST = {
    plant("lost", "batch_norm_backward", "d = dy * beta", "0"): "it stands there 0 times",
    plant("lost", "batch_norm_backward", "standardized", "0"): "it stands there 4 times",
    plant("lost", "layer_norm_backward", "d = gamma * dy", "0"): "no such function is called",
    HALF: "it stands there 0 times",
}


@pytest.mark.parametrize("lost", LOST)
def test_a_plant_without_exactly_one_place_for_each_edit_is_named(lost):
    function = lost.edits[-1].function
    words = f"'{lost.name}' has lost its place.*{function}.*{LOST[lost]}"
    with pytest.raises(PlantingError, match=words):
        plant_in(*PAIR, lost)


BRACKET = "rstd * (d - xhat * average(dxhat * xhat, axes))"


@pytest.mark.parametrize(
    ("shipped", "same"),
    [
        ("d = gamma * dy", "d = dy * gamma"),
        ("dxhat - average(dxhat, axes)", "(dxhat\n - average(dxhat,\n axes))"),
        (BRACKET, "(d - average(xhat * dxhat, axes) * xhat) * rstd"),
    ],
)  # fmt: skip
def test_layout_and_the_order_of_factors_do_not_move_a_plant(shipped, same):
    function = "batch_norm_backward" if "gamma" in shipped else "standardize_backward"
    changed = shipped.replace("dxhat", "(2 * dxhat)").replace("dy", "(2 * dy)")
    one, other = (plant_in(*PAIR, plant("twice", function, s, changed)) for s in (shipped, same))
    assert np.array_equal(compute(*one), compute(*other))
    assert not np.array_equal(compute(*one), compute(*PAIR))


# Functions of one name, in two modules, are two functions.

MODULES = {  # y = 2x
    "planted_a": """
        EPS = 2.0
        def scale(x):
            return EPS * x
        def forward(x):
            return scale(x), None
    """,
    "planted_b": """
        from planted_a import scale as twice
        EPS = 1.0
        def scale(x):
            return EPS * 1 * x
        def backward(dy, cache):
            return scale(twice(dy))
    """,
}


@pytest.fixture(scope="module")
def in_two_modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modules")
    for name, text in MODULES.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        a, b = map(importlib.import_module, MODULES)
    return a.forward, b.backward


def measure(forward, backward) -> tuple[float, float]:
    """How many times x is y, and how many times dy is dx."""
    return forward(np.ones(1))[0].item(), backward(np.ones(1), None).item()


def test_functions_and_constants_of_one_name_stay_apart_and_an_import_is_followed(in_two_modules):
    nothing = plant("nothing", "forward", "scale(x)", "scale(x) + 0")
    tripled = plant("tripled", "scale", "EPS * x", "3 * x")
    assert measure(*plant_in(*in_two_modules, nothing)) == measure(*in_two_modules) == (2, 2)
    assert measure(*plant_in(*in_two_modules, tripled)) == (3, 3)
    with pytest.raises(PlantingError, match="it stands there 2 times"):
        plant_in(*in_two_modules, plant("which?", "scale", "EPS", "3"))
