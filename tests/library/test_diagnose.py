"""A wrong gradient is called by its name, a right one is never accused."""

from functools import partial

import numpy as np
import pytest

from normbook.studies import wrong_gradients as strange
from normlib import batch_norm, batch_norm_backward, evidence, layer_norm, verify
from normlib.verify.diagnose import diagnose_pair
from normlib.verify.lines import evaluate
from normlib.verify.planted import has_effect, planted_errors

UNNAMED = {
    "oblique projection transposed", "k rounded down, forward and backward",
    "last features for first, forward and backward", "dg summed over everything",
    "sigma from squared weights, forward and backward", "norm of v with an eps",
}  # fmt: skip
# What has to be said of some of them, on every layer that has them.
SAID = {
    "dx without the mean term": "the term mean(d) is missing",
    "dx without the variance term": "the term xhat * mean(d * xhat) is missing",
    "variance term with a plus": "the term xhat * mean(d * xhat) has the wrong sign",
    "dx without rstd": "the factor r is missing",
    "mean over the wrong axis": "mean(d) runs over the wrong axis",
    "ddof = 1, forward and backward": "y: the variance is divided by m - 1",
    "eps outside the root, forward and backward": "y: ε stands outside the root",
    "gamma forgotten in dx": "the factor gamma is missing",
    "dx with the wrong sign": "it has the wrong sign",
    "one wrong entry of dx": "one entry alone is wrong",
    "stale cache": "the cache is that of other samples",
    "dgamma and dbeta swapped": "it is the gradient of",
}
CASES = [case for case in evidence.CASES if case.name != "sync_batch_norm"]


def drawn(case):
    shapes = next(shapes for shapes in case.examples if np.prod(shapes[0]) > 10)
    return case.drawn(shapes, np.random.default_rng(0))


def diagnose(case, twin, args):
    rng = np.random.default_rng(1)
    return diagnose_pair(twin.forward, twin.backward, args, rng, case.lines)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_planted_errors_of_a_layer_are_named_and_the_layer_is_not_accused(case):
    forward, args = drawn(case)
    right = diagnose_pair(forward, case.backward, args, np.random.default_rng(1), case.lines)
    assert right.findings == () and len(right.right) == len(args)
    for twin in planted_errors(forward, case.backward, case.plants):
        if not has_effect(twin, forward, case.backward, args):
            continue
        found = diagnose(case, twin, args)
        unknown = [finding for finding in found.findings if finding.kind == "unknown"]
        assert bool(unknown) is (twin.name in UNNAMED), (twin.name, found)
        assert SAID.get(twin.name, "") in repr(found), (twin.name, found)


def softmax(x):
    y = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
    return y, y


def dense(x, w, b):
    return x @ w + b, (x, w)


def tanh(x):
    y = np.tanh(x)
    return y, (x, y)


STRANGERS = {
    "right": (softmax, lambda dy, y: y * (dy - (dy * y).sum(-1, keepdims=True)), "right: dx"),
    "no sum": (softmax, lambda dy, y: y * dy, "it is dy * y, and no more"),
    "no dy": (tanh, lambda dy, c: 1 - c[1] ** 2, "dy has no part in it"),
    "at y": (tanh, lambda dy, c: dy * (1 - np.tanh(c[1]) ** 2), "taken at y, not at x"),
    "squared": (tanh, lambda dy, c: dy**2 * (1 - c[1] ** 2), "it is not linear in dy"),
    "not transposed": (dense, lambda dy, c: (dy @ c[1], c[0].T @ dy, dy.sum(0)),
                       "dx: it is the derivative of y along dy: the Jacobian is not transposed"),
    "not added up": (dense, lambda dy, c: (dy @ c[1].T, c[0].T @ dy, dy),
                     "db: its shape is (6, 5), and has to be (5,): it is not added up over axes"),
    "strange": (tanh, lambda dy, c: dy * np.sin(3 * c[0]), "no single mistake that is known"),
}  # fmt: skip


@pytest.mark.parametrize("name", STRANGERS)
def test_mistakes_in_a_layer_of_which_nothing_is_known_are_named(name):
    forward, backward, says = STRANGERS[name]
    rng = np.random.default_rng(0)
    shapes = ((6, 5), (5, 5), (5,)) if forward is dense else ((6, 5),)
    args = tuple(map(rng.standard_normal, shapes))
    assert says in repr(verify.diagnose(forward, backward, args))


# Of the mistakes of a stranger who had not seen the diagnosis, those that get no name.
UNKNOWN = {
    "bn_running", "rms_two_slips", "gn_as_instance_norm", "gn_as_layer_norm", "cell_no_tanh",
    "softmax_diagonal", "swiglu_no_product_rule", "swiglu_at_y", "l2_squared",
    "min_max_constant", "attention_two_slips", "min_max_no_low",
}  # fmt: skip


def test_of_sixty_mistakes_of_a_stranger_four_in_five_are_named_and_no_right_gradient_is_accused():
    def ask(one):
        args, layer = strange.ARGS[one.layer](np.random.default_rng(7)), strange.LAYERS[one.layer]
        case = None if one.layer.startswith("own") else getattr(evidence, one.layer)
        seeded = np.random.default_rng(1)
        return diagnose_pair(layer[0], one.function, args, seeded, case and case.lines).findings

    assert not any(map(ask, strange.RIGHT)) and len(strange.RIGHT) == 20
    found = {one.name: {finding.kind for finding in ask(one)} for one in strange.WRONG}
    assert all(found.values()) and len(found) == 60
    assert {name for name, kinds in found.items() if "unknown" in kinds} == UNKNOWN


THREE = {"shapes": ((7, 3), (3,), (3,))}


def test_two_slips_at_once_are_named_together():
    wrong = lambda dy, cache: (dy - dy.mean(axis=0), *batch_norm_backward(dy, cache)[1:])  # noqa: E731
    (found,) = verify.diagnose(batch_norm, wrong, **THREE, **evidence.batch_norm()).findings
    assert found.results == ("dx",) and found.kind != "unknown"


def test_a_right_gradient_of_a_wrong_forward_is_told_from_the_gradient_of_the_right_one():
    def forward(x, gamma, beta, *, eps=1e-5):
        y, cache = layer_norm(x, gamma, beta, eps=eps)
        return 2 * y, cache

    twice = lambda dy, cache: tuple(2 * g for g in case.backward(dy, cache))  # noqa: E731
    case = evidence.layer_norm
    shapes = ((4, 5), (5,), (5,))
    one = verify.diagnose(forward, case.backward, shapes=shapes, **case())
    other = verify.diagnose(forward, twice, shapes=shapes, **case())
    assert "y: it is not that of the layer" in repr(one) and "y: it is" in repr(other)
    assert "dx, dgamma, dbeta: it is the gradient of the right layer" in repr(one)
    assert "right: dx, dgamma, dbeta" in repr(other)


def test_the_message_of_a_failed_check_says_what_is_wrong():
    wrong = lambda dy, cache: [-g for g in batch_norm_backward(dy, cache)]  # noqa: E731
    with pytest.raises(verify.VerificationError) as raised:
        verify.check(batch_norm, wrong, **THREE, **evidence.batch_norm())
    said = ["diagnosis:\ndx, dgamma, dbeta: it has the wrong sign"]
    assert raised.value.__notes__ == said


def test_a_diagnosis_that_fails_does_not_hide_the_verdict(monkeypatch):
    monkeypatch.setattr("normlib.verify.run.diagnose_pair", lambda *_: 1 / 0)
    with pytest.raises(verify.VerificationError, match="dx: ") as raised:
        verify.check(tanh, lambda dy, c: dy, shapes=((4, 3),))
    assert "could not be found out (ZeroDivisionError" in raised.value.__notes__[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_lines_of_a_layer_compute_what_the_layer_computes(case):
    forward, args = drawn(case)
    known = forward.keywords if isinstance(forward, partial) else {}
    settings = {"eps": 1e-5} | known
    forward = partial(forward, **{"eps": 1e-5}) if "eps" in str(case.lines.formulas) else forward
    y, cache = forward(*args)
    dy = np.random.default_rng(2).standard_normal(y.shape)
    values = evaluate(case.lines, case.lines.layout(args, settings), dy)
    right = case.backward(dy, cache)
    assert np.abs(values[case.lines.output] - y).max() < 1e-13
    for name, g in zip(
        case.lines.arguments, right if type(right) is tuple else (right,), strict=True
    ):
        assert np.abs(np.reshape(values[f"d{name}"], g.shape) - g).max() < 1e-12
