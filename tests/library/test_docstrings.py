"""The formulas in the docstrings are what the code computes: they are parsed and evaluated."""

import math
import re

import numpy as np
import pytest

import normlib
from normbook.show import entry

RNG = np.random.default_rng(0)
X, DY = RNG.standard_normal((2, 6, 4, 3)) + 0.5
GAMMA, BETA, MEAN = RNG.standard_normal((3, 4, 1))  # beside the channels of x
VAR, EPS = RNG.uniform(0.5, 2, (4, 1)), 0.1
BATCH = (0, 2)


def evaluated(function, axes, **known):
    """Every name that the formula defines, in whatever order its parts stand."""
    text = entry(function).formula.replace("·", "*").replace("²", "**2").replace("^", "**")
    text = re.sub(r"\|([^|]+)\|", r"norm(\1)", re.sub(r"\bmean\(", "average(", text))
    pieces = (piece.strip() for piece in re.split(r",\s{3}|,\n|\n", text))
    waiting = dict(piece.split(" = ") for piece in pieces if " = " in piece)
    scope = known | {
        "average": lambda a: a.mean(axis=axes, keepdims=True),
        "sum": lambda a: a.sum(axis=axes, keepdims=True),
        "sqrt": np.sqrt,
        "norm": lambda a: np.sqrt((a * a).sum(axis=axes, keepdims=True)),
    }
    for _ in range(len(waiting)):
        for name in list(waiting):
            try:
                scope[name] = eval(waiting[name], {}, scope)
                del waiting[name]
            except NameError:
                pass
    assert not waiting, f"{function.__name__}: cannot evaluate {waiting}"
    return scope


def norms():
    """The layers that standardize, each over its axes: what their formulas know, and must give."""
    for name, axes, size, known in (
        ("batch_norm", BATCH, (4, 1), {}),
        ("layer_norm", (2,), (3,), {}),
        ("rms_norm", (2,), (3,), {}),
        ("instance_norm", (2,), (4, 1), {}),
        ("group_norm", (1, 2), (4, 1), {"groups": 1}),
    ):
        forward, backward = (getattr(normlib, name + end) for end in ("", "_backward"))
        gamma, beta = RNG.standard_normal((2, *size))
        given = [gamma.ravel(), beta.ravel()][: 1 if name == "rms_norm" else 2]
        y, cache = forward(X, *given, eps=EPS, **known)
        mean, var = X.mean(axes, keepdims=True), X.var(axes, keepdims=True)
        c = X if name == "rms_norm" else X - mean
        rstd = ((c * c).mean(axes, keepdims=True) + EPS) ** -0.5
        scope = {"x": X, "gamma": gamma, "beta": beta, "eps": EPS, "mean": mean, "var": var}
        yield forward, axes, scope, {"y": y}
        dx, dgamma, *_ = backward(DY, cache)
        scope = {"dy": DY, "gamma": gamma, "xhat": c * rstd, "rstd": rstd}
        # elsewhere the parameters' sums run over other axes than the means
        yield backward, axes, scope, {"dx": dx} | ({"dgamma": dgamma} if axes == BATCH else {})


def others():
    gamma, beta, mean, var = (a[:, 0] for a in (GAMMA, BETA, MEAN, VAR))
    y, cache = normlib.batch_norm_inference(X, mean, var, gamma, beta, eps=EPS)
    scope = {"x": X, "mean": MEAN, "var": VAR, "gamma": GAMMA, "beta": BETA, "eps": EPS}
    yield normlib.batch_norm_inference, BATCH, scope, {"y": y}
    names = ("dx", "dmean", "dvar", "dgamma", "dbeta")
    found = zip(names, normlib.batch_norm_inference_backward(DY, cache), strict=True)
    scope = {"dy": DY, "gamma": GAMMA, "xhat": cache.xhat, "rstd": cache.rstd}
    yield normlib.batch_norm_inference_backward, BATCH, scope, dict(found)
    xhat, cache = normlib.standardize(X, axes=BATCH, eps=EPS)
    yield normlib.standardize, BATCH, {"x": X, "eps": EPS}, {"xhat": xhat}
    scope = {"dxhat": DY, "xhat": xhat, "rstd": cache.rstd}
    dx = normlib.standardize_backward(DY, cache)
    yield normlib.standardize_backward, BATCH, scope, {"dx": dx}
    w, cache = normlib.weight_norm(X[0], gamma)
    yield normlib.weight_norm, (1,), {"v": X[0], "g": GAMMA}, {"w": w}
    dv, dg = normlib.weight_norm_backward(DY[0], cache)
    scope = {"v": X[0], "dw": DY[0], "g": GAMMA}
    yield normlib.weight_norm_backward, (1,), scope, {"dv": dv, "dg": dg}
    y, cache = normlib.mean_only_batch_norm(X, beta)
    scope = {"x": X, "mean": X.mean(axis=BATCH, keepdims=True), "beta": BETA}
    yield normlib.mean_only_batch_norm, BATCH, scope, {"y": y}
    dx, dbeta = normlib.mean_only_batch_norm_backward(DY, cache)
    yield normlib.mean_only_batch_norm_backward, BATCH, {"dy": DY}, {"dx": dx, "dbeta": dbeta}
    x, dy = X[..., 0], DY[..., 0]
    y, cache = normlib.partial_rms_norm(x, gamma, fraction=0.7, eps=EPS)
    scope = {"x": x, "gamma": gamma, "eps": EPS, "n": 4, "fraction": 0.7, "ceil": math.ceil}
    scope["mean_k"] = lambda a: a[:, :3].mean(axis=1, keepdims=True)
    yield normlib.partial_rms_norm, (1,), scope, {"y": y, "k": 3}
    scope = {"dy": dy, "gamma": gamma, "xhat": cache.xhat, "rstd": cache.rstd, "k": 3}
    scope["first"] = np.array([1, 1, 1, 0])
    dx = normlib.partial_rms_norm_backward(dy, cache)[0]
    yield normlib.partial_rms_norm_backward, (1,), scope, {"dx": dx}


@pytest.mark.parametrize(
    ("function", "axes", "known", "expected"),
    [pytest.param(*row, id=row[0].__name__) for row in (*norms(), *others())],
)
def test_a_formula_gives_what_its_function_computes(function, axes, known, expected):
    scope = evaluated(function, axes, **known)
    for name, value in expected.items():
        np.testing.assert_allclose(np.ravel(scope[name]), np.ravel(value), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", normlib.__all__)
def test_every_public_docstring_has_all_its_parts(name):
    parts = entry(getattr(normlib, name))
    assert "chapter" in parts.source and "ValueError" in parts.errors and parts.shapes
