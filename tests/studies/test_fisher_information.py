"""The spectrum does not move with the inputs where theory says so; the page has the matrices."""

import numpy as np

from normbook.studies import fisher_information as info

THETA = info.network_start(np.random.default_rng(3))
INPUTS = info.scale_to_one(info.PIXELS["raw"])[:40]


def test_batch_norm_has_the_same_spectrum_on_centred_and_on_raw_inputs():
    norms, means = info.NETWORKS["batch norm"], INPUTS.mean(axis=0)
    raw, centred = (
        info.spectrum(norms, THETA, info.scale_to_one(x)) for x in (INPUTS, INPUTS - means)
    )
    assert np.allclose([*raw.values()], [*centred.values()])
    raw, centred = (
        info.spectrum(info.NETWORKS["layer norm"], THETA, x) for x in (INPUTS, INPUTS - means)
    )
    assert raw["share"] > 1.5 * centred["share"]
