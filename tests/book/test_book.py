"""What pages show of the library is what is shipped, and what is shown is what was compared."""

import ast
import inspect

import numpy as np
import pytest
import sympy as sp

import normlib
from normbook.show import Source, StepError, Steps, Table, equation
from normlib import evidence
from normlib.verify.derivations import beta, dy, eps, gamma, i, k, mu, total, var, x, xhat

DERIVATION = evidence.batch_norm.derivation()
R = sp.Symbol("r", positive=True)
STEPS = Steps(DERIVATION, {R: 1 / sp.sqrt(var + eps)})


@pytest.mark.parametrize("name", normlib.__all__)
def test_the_shown_source_is_the_shipped_code_without_its_docstring(name):
    function = getattr(normlib, name)
    shown, shipped = (
        ast.parse(s).body[-1] for s in (Source(function).text, inspect.getsource(function))
    )
    assert ast.get_docstring(shown) is None and ast.get_docstring(shipped)
    assert [ast.dump(n) for n in shown.body] == [ast.dump(n) for n in shipped.body[1:]]
    assert ast.dump(shown.args) == ast.dump(shipped.args)


def test_a_wrong_definition_and_a_wrong_output_are_refused():
    with sp.evaluate(False):
        shifted, scaled = R * (x[k] - mu), gamma[0] * xhat[k] + beta[0]
    assert STEPS.definition(xhat[i], shifted) and STEPS.output(scaled)
    for call in (lambda: STEPS.definition(xhat[i], R * x[k]), lambda: STEPS.output(scaled + 1)):
        with pytest.raises(StepError):
            call()


SHAPES = {"dWbar": (2, 3), "u": (2, 1), "v": (3, 1)}
A, B, LAMBDA = sp.symbols("a b lambda", positive=True)


def test_an_equation_of_any_kind_is_compared_with_what_was_derived():
    with sp.evaluate(False):
        form = (A + B) ** 2 / LAMBDA
    shown = equation("y", (A**2 + 2 * A * B + B**2) / LAMBDA, form)
    assert shown._repr_latex_() == r"$$y = \frac{\left(a + b\right)^{2}}{\lambda}$$"
    with pytest.raises(StepError, match="for y is not what was derived"):
        equation("y", (A**2 + B**2) / LAMBDA, form)


def test_matrices_in_symbols_are_compared_entry_by_entry_and_may_hold_abbreviations():
    d, u, v = (sp.MatrixSymbol(name, *shape) for name, shape in SHAPES.items())
    short, form = {LAMBDA: A * B}, sp.MatMul(1 / A, sp.MatAdd(d, -LAMBDA * u * v.T))
    derived = sp.Matrix(2, 3, lambda row, column: d[row, column] / A - B * u[row] * v[column])
    shown = equation("M", derived, form, short=short)._repr_latex_()
    assert shown == r"$$M = \frac{1}{a} \left(\mathrm{d}\bar{W} - \lambda u v^{\top}\right)$$"
    for wrong in (form.T.T * 2, d / A, (d + LAMBDA * u * v.T) / A):
        with pytest.raises(StepError):
            equation("M", derived, wrong, short=short)
    with pytest.raises(StepError):
        equation("M", derived, form)  # without what the abbreviation stands for


def test_the_output_may_have_another_letter():
    steps = Steps(evidence.weight_norm.derivation(), output="w")
    v, w, dv, dw = map(sp.IndexedBase, ("v", "w", "dv", "dw"))
    s, g = sp.Symbol("s", positive=True), sp.IndexedBase("g")[0]
    assert steps.output(g * v[k] / sp.sqrt(s))._repr_latex_().startswith("$$w_{k} = ")
    assert steps.gradient(g, total(dw[i] * w[i]) / g)._repr_latex_().endswith(r"w_{i}$$")
    for wrong in (total(dw[i] * v[i]) / g, total(dy[i] * w[i]) / g):
        with pytest.raises(StepError, match="dg"):
            steps.gradient(g, wrong)
    assert steps.consequence(total(v[i] * dv[i]), sp.S.Zero)
    with pytest.raises(StepError):
        steps.consequence(total(v[i] * dw[i]), sp.S.Zero)


def test_a_table_writes_fractions_and_refuses_what_is_none():
    table = Table({"x": [0.0, -5 / 3], "dx": np.array([1 / 54, 0.5])})
    assert repr(table) == " x     0  −5/3\ndx  1/54   1/2"
    assert table._repr_html_().count("<td>") == 4
    assert repr(Table({"units": [2, 1024]})) == "units  2  1024"
    with pytest.raises(ValueError, match="simple fraction"):
        Table({"x": [np.pi]})
