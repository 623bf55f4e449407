"""The formulas in the docstrings are what the code computes: they are parsed and evaluated."""

import math
import re
from functools import partial

import numpy as np
import pytest

import normlib
from normbook.show import entry

RNG = np.random.default_rng(0)
X, DY = RNG.standard_normal((2, 6, 4, 3)) + 0.5
GAMMA, BETA, MEAN = RNG.standard_normal((3, 4))
VAR = RNG.uniform(0.5, 2, 4)
ROW_GAMMA, ROW_BETA = RNG.standard_normal((2, 3))
EPS = 0.1
BATCH, ROW, POSITIONS = (0, 2), (2,), (2,)


def channel(parameter):
    return parameter.reshape(1, -1, 1)


def translated(formula):
    """Each part such as `dx = rstd · d` as a name and Python text; words alone are dropped."""
    text = formula.replace("·", "*").replace("²", "**2").replace("^", "**")
    text = re.sub(r"\bmean\(", "average(", text)
    text = re.sub(r"\|([^|]+)\|", r"norm(\1)", text)
    pieces = (piece.strip() for piece in re.split(r",\s{3}|,\n|\n", text))
    return dict(piece.split(" = ") for piece in pieces if " = " in piece)


def evaluated(function, axes, **known):
    """Every name that the formula defines, in whatever order its parts stand."""
    scope = known | {
        "average": lambda a: a.mean(axis=axes, keepdims=True),
        "sum": lambda a: a.sum(axis=axes, keepdims=True),
        "sqrt": np.sqrt,
        "norm": lambda a: np.sqrt((a * a).sum(axis=axes, keepdims=True)),
    }
    waiting = translated(entry(function).formula)
    assert waiting, function.__name__
    for _ in range(len(waiting)):
        for name in list(waiting):
            try:
                scope[name] = eval(waiting[name], {}, scope)
                del waiting[name]
            except NameError:
                pass
    assert not waiting, f"{function.__name__}: cannot evaluate {waiting}"
    return scope


def moments(x, axes):
    return {"mean": x.mean(axis=axes, keepdims=True), "var": x.var(axis=axes, keepdims=True)}


GROUPED = X.reshape(6, 2, 6)
FORWARDS = {
    "batch_norm": (normlib.batch_norm, (X, GAMMA, BETA), X, BATCH, (GAMMA, BETA)),
    "layer_norm": (normlib.layer_norm, (X, ROW_GAMMA, ROW_BETA), X, ROW, (ROW_GAMMA, ROW_BETA)),
    "rms_norm": (normlib.rms_norm, (X, ROW_GAMMA), X, ROW, (ROW_GAMMA, ROW_BETA)),
    "instance_norm": (normlib.instance_norm, (X, GAMMA, BETA), X, POSITIONS, (GAMMA, BETA)),
}


def shaped(parameters, x):
    return [p if p.shape == x.shape[-1:] else channel(p) for p in parameters]


@pytest.mark.parametrize("name", FORWARDS)
def test_the_formula_of_a_forward_gives_its_output(name):
    function, args, x, axes, parameters = FORWARDS[name]
    gamma, beta = shaped(parameters, x)
    scope = evaluated(function, axes, x=x, gamma=gamma, beta=beta, eps=EPS, **moments(x, axes))
    np.testing.assert_allclose(scope["y"], function(*args, eps=EPS)[0], rtol=1e-12)


@pytest.mark.parametrize("name", FORWARDS)
def test_the_formula_of_a_backward_gives_its_gradients(name):
    function, args, x, axes, parameters = FORWARDS[name]
    gamma, _ = shaped(parameters, x)
    backward = getattr(normlib, f"{name}_backward")
    cache = function(*args, eps=EPS)[1]
    xhat, rstd = cache.standardized.xhat.reshape(x.shape), cache.standardized.rstd
    rstd = rstd.reshape(6, 4, 1) if name == "instance_norm" else rstd
    scope = evaluated(backward, axes, dy=DY, gamma=gamma, xhat=xhat, rstd=rstd)
    gradients = backward(DY, cache)
    np.testing.assert_allclose(scope["dx"], gradients[0], atol=1e-12)
    if name == "batch_norm":  # elsewhere the parameters' sums run over other axes than the means
        np.testing.assert_allclose(scope["dgamma"].ravel(), gradients[1], rtol=1e-11)
        np.testing.assert_allclose(scope["dbeta"].ravel(), gradients[2], rtol=1e-11)


def test_the_formulas_of_group_norm_hold_in_one_group():
    forward = partial(normlib.group_norm, groups=1, eps=EPS)
    gamma, beta = channel(GAMMA), channel(BETA)
    axes = (1, 2)
    known = {"x": X, "gamma": gamma, "beta": beta, "eps": EPS, **moments(X, axes)}
    y, cache = forward(X, GAMMA, BETA)
    np.testing.assert_allclose(evaluated(normlib.group_norm, axes, **known)["y"], y, rtol=1e-11)
    known = {"dy": DY, "gamma": gamma, "rstd": cache.standardized.rstd}
    known["xhat"] = cache.standardized.xhat.reshape(X.shape)
    dx = evaluated(normlib.group_norm_backward, axes, **known)["dx"]
    np.testing.assert_allclose(dx, normlib.group_norm_backward(DY, cache)[0], atol=1e-12)


def test_the_formulas_of_partial_rms_norm_hold():
    gamma = channel(GAMMA)[0, :, 0]
    x, dy = X[..., 0], DY[..., 0]
    y, cache = normlib.partial_rms_norm(x, gamma, fraction=0.7, eps=EPS)
    mean_k = lambda a: a[:, :3].mean(axis=1, keepdims=True)  # noqa: E731
    known = {"x": x, "gamma": gamma, "eps": EPS, "mean_k": mean_k, "n": 4, "fraction": 0.7}
    scope = evaluated(normlib.partial_rms_norm, (1,), **known, ceil=math.ceil)
    np.testing.assert_allclose(scope["y"], y, rtol=1e-12)
    assert scope["k"] == cache.k == 3
    known = {"dy": dy, "gamma": gamma, "xhat": cache.xhat, "rstd": cache.rstd, "k": cache.k}
    first = np.array([1, 1, 1, 0])
    scope = evaluated(normlib.partial_rms_norm_backward, (1,), **known, first=first)
    dx, _ = normlib.partial_rms_norm_backward(dy, cache)
    np.testing.assert_allclose(scope["dx"], dx, atol=1e-12)
    wrong = evaluated(normlib.partial_rms_norm_backward, (1,), **known, first=first[::-1])
    assert np.abs(wrong["dx"] - dx).max() > 1e-2


def test_the_formulas_at_inference_hold():
    statistics = {"mean": channel(MEAN), "var": channel(VAR)}
    affine = {"gamma": channel(GAMMA), "beta": channel(BETA)}
    y, cache = normlib.batch_norm_inference(X, MEAN, VAR, GAMMA, BETA, eps=EPS)
    known = {"x": X, "eps": EPS, **statistics, **affine}
    scope = evaluated(normlib.batch_norm_inference, BATCH, **known)
    np.testing.assert_allclose(scope["y"], y, rtol=1e-12)
    known = {"dy": DY, "gamma": channel(GAMMA), "xhat": cache.xhat, "rstd": cache.rstd}
    scope = evaluated(normlib.batch_norm_inference_backward, BATCH, **known)
    names = ("dx", "dmean", "dvar", "dgamma", "dbeta")
    for name, gradient in zip(names, normlib.batch_norm_inference_backward(DY, cache), strict=True):
        np.testing.assert_allclose(scope[name].ravel(), gradient.ravel(), atol=1e-12)


def test_the_formulas_of_standardize_hold():
    xhat, cache = normlib.standardize(X, axes=BATCH, eps=EPS)
    scope = evaluated(normlib.standardize, BATCH, x=X, eps=EPS)
    np.testing.assert_allclose(scope["xhat"], xhat, rtol=1e-11)
    known = {"dxhat": DY, "xhat": xhat, "rstd": cache.rstd}
    dx = evaluated(normlib.standardize_backward, BATCH, **known)["dx"]
    np.testing.assert_allclose(dx, normlib.standardize_backward(DY, cache), atol=1e-12)


def test_the_formulas_of_weight_norm_hold():
    v, dw, g = X[0], DY[0], GAMMA
    w, cache = normlib.weight_norm(v, g)
    scope = evaluated(normlib.weight_norm, (1,), v=v, g=g[:, None])
    np.testing.assert_allclose(scope["w"], w, rtol=1e-12)
    scope = evaluated(normlib.weight_norm_backward, (1,), v=v, dw=dw, g=g[:, None])
    dv, dg = normlib.weight_norm_backward(dw, cache)
    np.testing.assert_allclose(scope["dv"], dv, atol=1e-12)
    np.testing.assert_allclose(scope["dg"].ravel(), dg, atol=1e-12)


def test_the_formulas_of_mean_only_batch_norm_hold():
    y, cache = normlib.mean_only_batch_norm(X, BETA)
    known = {"x": X, "mean": X.mean(axis=BATCH, keepdims=True), "beta": channel(BETA)}
    scope = evaluated(normlib.mean_only_batch_norm, BATCH, **known)
    np.testing.assert_allclose(scope["y"], y, atol=1e-12)
    scope = evaluated(normlib.mean_only_batch_norm_backward, BATCH, dy=DY)
    dx, dbeta = normlib.mean_only_batch_norm_backward(DY, cache)
    np.testing.assert_allclose(scope["dx"], dx, atol=1e-12)
    np.testing.assert_allclose(scope["dbeta"].ravel(), dbeta, atol=1e-12)


@pytest.mark.parametrize(
    ("right", "wrong"), [("+ eps", "- eps"), ("gamma · xhat + beta", "gamma · x + beta")]
)
def test_a_wrong_formula_in_a_docstring_is_seen(right, wrong):
    def misprinted():
        pass

    misprinted.__doc__ = normlib.batch_norm.__doc__.replace(right, wrong)
    known = {"x": X, "gamma": channel(GAMMA), "beta": channel(BETA), "eps": EPS}
    scope = evaluated(misprinted, BATCH, **known, **moments(X, BATCH))
    y, _ = normlib.batch_norm(X, GAMMA, BETA, eps=EPS)
    assert np.abs(scope["y"] - y).max() > 1e-2


@pytest.mark.parametrize("name", normlib.__all__)
def test_every_public_docstring_has_all_its_parts(name):
    parts = entry(getattr(normlib, name))
    assert "chapter" in parts.source and "ValueError" in parts.errors and parts.shapes
