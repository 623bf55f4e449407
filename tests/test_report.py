"""Every layer stands before every witness. Each of these tests writes the record of one layer."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import record
from cases import batch_norm_args, inference_args

import normlib
from normlib import verify
from normlib.verify import evidence
from normlib.verify.run import WITNESSES

NUMERIC = ("reference", "flat", "reference_twice")  # what the witnesses without algebra take
SIZES = {"large": ((16, 32), (8, 12, 6, 5)), "small": ((6, 4), (4, 4, 2, 3))}


def layers(size):
    """Name: forward, arguments, evidence. Matrices, and images where the layer is made for them."""
    rng = np.random.default_rng(0)
    (rows, columns), image = SIZES[size]
    matrix = batch_norm_args((rows, columns), rng)
    images = batch_norm_args(image, rng)
    features = (matrix[0], *batch_norm_args((1, columns), rng)[1:])
    w = rng.standard_normal((rows, columns))
    u, v = normlib.power_iteration(w, rng.standard_normal(rows), rng.standard_normal(columns))
    return {
        "batch_norm": (normlib.batch_norm, matrix, evidence.batch_norm()),
        "batch_norm, images": (normlib.batch_norm, images, evidence.batch_norm(4)),
        "batch_norm_inference": (
            normlib.batch_norm_inference,
            inference_args((rows, columns), rng),
            evidence.batch_norm_inference(),
        ),
        "layer_norm": (normlib.layer_norm, features, evidence.layer_norm()),
        "rms_norm": (normlib.rms_norm, features[:2], evidence.rms_norm()),
        "partial_rms_norm": (
            partial(normlib.partial_rms_norm, fraction=Fraction(2, 5)), features[:2],
            evidence.partial_rms_norm(Fraction(2, 5)),
        ),
        "group_norm": (partial(normlib.group_norm, groups=2), images, evidence.group_norm(2)),
        "instance_norm": (normlib.instance_norm, images, evidence.instance_norm(4)),
        "mean_only_batch_norm": (
            normlib.mean_only_batch_norm,
            (matrix[0], matrix[2]),
            evidence.mean_only_batch_norm(),
        ),
        "weight_norm": (
            normlib.weight_norm, (w, rng.uniform(0.5, 2, rows)), evidence.weight_norm()
        ),
        "spectral_norm": (
            partial(normlib.spectral_norm, u=u, v=v), (w,), evidence.spectral_norm(u, v)
        ),
    }  # fmt: skip


NAMES = [*layers("small")]


def backward_of(forward):
    return getattr(normlib, f"{getattr(forward, 'func', forward).__name__}_backward")


def examine(name, backward=None):
    """The verdict on a layer, red or not, and what is kept of it for the report."""
    forward, args, known = layers("large")[name]
    backward = backward or backward_of(forward)
    try:
        verdict = verify.backward(forward, backward, args, rng=np.random.default_rng(1), **known)
    except verify.VerificationError as raised:
        verdict = raised.verdict
    forward, small, known = layers("small")[name]
    options = {key: known[key] for key in NUMERIC if key in known}
    options["rng"] = np.random.default_rng(2)
    caught = verify.falsify(forward, backward_of(forward), small, **options).caught
    return verdict, record.layer(name, args, verdict, caught)


@pytest.mark.parametrize("name", NAMES)
def test_every_layer_passes_every_witness_and_every_planted_error_is_caught(name, record_property):
    verdict, entry = examine(name)
    record_property(record.LAYER, entry)
    assert not verdict.red and {check.witness for check in verdict.checks} == set(WITNESSES)
    assert entry["caught"] == entry["planted"] >= 6
