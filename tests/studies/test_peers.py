"""What the frameworks answered is whole; that who is at hand answers the same, the page asserts."""

import json
import re
from functools import partial

import numpy as np
import pytest
import torch
from project import ROOT

from normbook.studies import frameworks
from normbook.studies.frameworks import QUESTIONS

STORED = json.loads((ROOT / "normbook/data/peers.json").read_text(encoding="utf-8"))
NAMES = ("PyTorch", "Keras", *frameworks.FLAX, "ONNX", "normlib")


def missing(stored):
    """Every framework, layer and question that has no answer, and no word about its absence."""
    absent = {(a["framework"], a["layer"]) for a in stored["absent"] if a["because"]}
    rows = {(row["layer"], row["question"]): row for row in stored["answers"]}
    return [
        (name, layer, question)
        for question, asked in QUESTIONS.items()
        for layer in asked.layers
        for name in NAMES
        if not rows.get((layer, question), {}).get(name) and (name, layer) not in absent
    ]


def test_every_question_is_answered_or_the_layer_is_not_there():
    assert missing(STORED) == []
    assert len(missing(STORED | {"absent": STORED["absent"][1:]})) > 3


def test_the_answers_are_those_of_the_pinned_versions():
    text = (ROOT / "tools/peers.txt").read_text(encoding="utf-8")
    pins = dict(re.findall(r"^([\w-]+)==(\S+)", text, re.M))
    assert pins == STORED["versions"]
    assert {"torch", "keras", "jax", "flax", "onnx"} <= set(pins)
    assert pins["torch"] == torch.__version__.partition("+")[0]
    assert pins["numpy"] == np.__version__


# The probes see what they are to see: wrong twins of the shipped layers answer differently.


def answers_of(**kinds):
    """A framework of one layer, with these habits."""

    def make(layer, size, dtype, groups=None, momentum=0.1):
        state = {"mean": np.zeros(size), "var": np.ones(size)}

        def call(x, dtype, training=None):
            y = kinds["norm"](x)
            weight = momentum if kinds.get("new") else 1 - momentum
            for name, now in {"mean": x.mean(), "var": x.var(ddof=kinds.get("ddof", 0))}.items():
                state[name] = (1 - weight) * state[name] + weight * now
            return y, dtype

        return frameworks.Made(call, dict, lambda: dict(state))

    return frameworks.Framework(make, (), {})


def standardized(x, place):
    c, s = x - x.mean(), x.std()
    divisor = {"under the root": np.sqrt(s * s + 1e-4), "behind the root": s + 1e-4}
    return c / (divisor | {"a lower limit": max(s, 1e-4)})[place]


@pytest.mark.parametrize("place", ["under the root", "behind the root", "a lower limit"])
def test_the_place_and_the_value_of_epsilon_are_found(place):
    of = answers_of(norm=partial(standardized, place=place))
    assert frameworks.eps_place(of, "batch") == place
    assert frameworks.eps(of, "batch") == "0.0001"


@pytest.mark.parametrize(
    ("habits", "momentum", "variance"),
    [
        ({"new": True, "ddof": 1}, "0.1, of the new batch", "unbiased"),
        ({"new": False}, "0.1, of the old average", "biased"),
    ],
)
def test_the_habits_of_running_statistics_are_found(habits, momentum, variance):
    of = answers_of(norm=np.copy, **habits)
    assert frameworks.momentum(of, "batch") == momentum
    assert frameworks.running_variance(of, "batch") == variance
