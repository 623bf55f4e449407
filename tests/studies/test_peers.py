"""What the frameworks answered is whole; that who is at hand answers the same, the page asserts."""

import json
import re

import numpy as np
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
