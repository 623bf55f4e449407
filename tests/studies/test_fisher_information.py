"""The Fisher information of a model with a norm: the quarter is that of two Jacobians."""

import numpy as np

from normbook.studies import fisher_information as info

THETA = info.start(0)


def change(after):
    """The curvature along the weights of unit 3, over that before they were doubled."""
    before = info.fisher(info.by_weights, THETA)
    return info.along_row(after) / info.along_row(before)


def test_doubled_weights_have_a_quarter_of_the_curvature_and_half_if_one_jacobian_is_kept():
    doubled = info.fisher(info.by_weights, THETA * info.ROW)
    assert np.allclose(change(doubled), 1 / 4)
    assert np.allclose(change(info.half_renewed(info.by_weights, THETA, info.ROW)), 1 / 2)


def test_the_quadratic_form_misses_the_divergence_by_less_for_a_shorter_step():
    right = info.misses(info.by_weights, THETA, info.fisher(info.by_weights, THETA))
    wrong = info.misses(info.by_weights, THETA, info.unprojected(THETA))
    assert np.allclose(right[3:-1] / right[4:], 2, atol=0.2)
    assert np.allclose(wrong[3:-1] / wrong[4:], 1, atol=0.2)


def test_the_printed_blocks_lack_what_a_row_does_to_other_units_under_layer_norm():
    for norm, lacking in ((info.by_weights, False), (info.by_layer, True)):
        gap = np.abs(info.as_printed(norm, THETA) - info.fisher(norm, THETA)).max()
        assert (gap > 1e-3) == lacking
