"""The formulas in the docstrings are what the code computes: they are parsed and evaluated."""

import math
import re

import numpy as np
import pytest

import normlib
from normbook.show import entry
from normlib.verify.pair import as_tuple

RNG = np.random.default_rng(0)
X, DY = RNG.standard_normal((2, 6, 4, 3)) + 0.5
GAMMA, BETA, MEAN = RNG.standard_normal((3, 4, 1))  # beside the channels of x
VAR, EPS = RNG.uniform(0.5, 2, (4, 1)), 0.1
BATCH = (0, 2)


def evaluate(function, axes, known):
    """Every name that the formula defines, in whatever order its parts stand."""
    text = entry(function).formula.replace("·", "*").replace("²", "**2").replace("^", "**")
    text = re.sub(r"\|([^|]+)\|", r"norm(\1)", re.sub(r"\bmean\(", "average(", text))
    pieces = (piece.strip() for piece in re.split(r",\s{3}|,\n|\n", text))
    waiting = dict(piece.split(" = ") for piece in pieces if " = " in piece)
    scope = {name: value for name, value in known.items() if name not in waiting} | {
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


def list_layers():
    """A name, the arguments and keywords, the axes of its means, the names of its output and its
    gradients, and what its formulas know beside the shared names."""
    for name, axes, size, more in (
        ("batch_norm", BATCH, (4, 1), {}),
        ("layer_norm", (2,), (3,), {}),
        ("rms_norm", (2,), (3,), {}),
        ("instance_norm", (2,), (4, 1), {}),
        ("group_norm", (1, 2), (4, 1), {"groups": 1}),
    ):
        gamma, beta = RNG.standard_normal((2, *size))
        args = [X, gamma.ravel(), beta.ravel()][: 2 if name == "rms_norm" else 3]
        mean, var = X.mean(axes, keepdims=True), X.var(axes, keepdims=True)
        c = X if name == "rms_norm" else X - mean
        rstd = ((c * c).mean(axes, keepdims=True) + EPS) ** -0.5
        known = {"gamma": gamma, "beta": beta, "mean": mean, "var": var}
        # elsewhere the parameters' sums run over other axes than the means
        names = ("y", "dx", "dgamma") if axes == BATCH else ("y", "dx")
        known |= {"xhat": c * rstd, "rstd": rstd}
        yield name, args, {"eps": EPS} | more, axes, names, known
    gamma, beta, mean, var = (a[:, 0] for a in (GAMMA, BETA, MEAN, VAR))
    names = ("y", "dx", "dmean", "dvar", "dgamma", "dbeta")
    args = X, mean, var, gamma, beta
    yield "batch_norm_inference", args, {"eps": EPS}, BATCH, names, {"mean": MEAN, "var": VAR}
    yield "standardize", (X,), {"axes": BATCH, "eps": EPS}, BATCH, ("xhat", "dx"), {}
    rows = {"v": X[0], "dw": DY[0], "g": GAMMA}
    yield "weight_norm", (X[0], gamma), {}, (1,), ("w", "dv", "dg"), rows
    known = {"mean": X.mean(axis=BATCH, keepdims=True)}
    yield "mean_only_batch_norm", (X, beta), {}, BATCH, ("y", "dx", "dbeta"), known
    known = {"x": X[..., 0], "dy": DY[..., 0], "gamma": gamma, "n": 4, "fraction": 0.7}
    known |= {"mean_k": lambda a: a[:, :3].mean(axis=1, keepdims=True), "ceil": math.ceil}
    known |= {"first": np.array([1, 1, 1, 0])}
    keywords = {"fraction": 0.7, "eps": EPS}
    yield "partial_rms_norm", (X[..., 0], gamma), keywords, (1,), ("y", "dx"), known


def list_formulas():
    """Of each function the axes, what its formula knows, and what it must give."""
    shared = {"x": X, "dy": DY, "dxhat": DY, "gamma": GAMMA, "beta": BETA, "eps": EPS}
    for name, args, keywords, axes, (output, *names), more in list_layers():
        forward, backward = (getattr(normlib, name + end) for end in ("", "_backward"))
        y, cache = forward(*args, **keywords)
        kept = {n: getattr(cache, n) for n in ("xhat", "rstd", "k") if hasattr(cache, n)}
        known = shared | kept | more
        gradients = as_tuple(backward(known[f"d{output}"], cache))
        yield forward, axes, known, {output: y} | ({"k": 3} if "k" in kept else {})
        yield backward, axes, known, dict(zip(names, gradients, strict=False))


@pytest.mark.parametrize(
    ("function", "axes", "known", "expected"),
    [pytest.param(*row, id=row[0].__name__) for row in list_formulas()],
)
def test_a_formula_gives_what_its_function_computes(function, axes, known, expected):
    scope = evaluate(function, axes, known)
    for name, value in expected.items():
        np.testing.assert_allclose(np.ravel(scope[name]), np.ravel(value), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", normlib.__all__)
def test_every_public_docstring_has_all_its_parts(name):
    parts = entry(getattr(normlib, name))
    assert "chapter" in parts.source and "ValueError" in parts.errors and parts.shapes
