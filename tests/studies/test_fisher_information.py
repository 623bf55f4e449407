"""The Fisher matrices of networks are those of the definition."""

import numpy as np
import pytest
import torch

from normbook.studies import fisher_information as info

THETA = info.network_start(np.random.default_rng(3))
INPUTS = info.scale_to_one(info.PIXELS["raw"])[:40]
FROZEN = "batch norm, statistics frozen"


def by_hessian(norms):
    """The Hessian of the divergence of the predictions, by PyTorch's autograd."""
    x, at = torch.tensor(INPUTS), torch.tensor(THETA)

    def kl(moved):
        here, there = (info.network(norms, t, x).log_softmax(1) for t in (at, moved))
        return (here.exp() * (here - there)).sum(1).mean()

    return torch.autograd.functional.hessian(kl, at, vectorize=True).numpy()


def by_jacobian(norms):
    J = info.derivatives(lambda t: info.network(norms, t, INPUTS), THETA)
    return info.average_fisher(J, info.classes(info.network(norms, THETA, INPUTS)))


@pytest.mark.parametrize("arm", [arm for arm in info.NETWORKS if arm != FROZEN])
def test_the_fisher_matrix_of_a_network_is_the_hessian_of_the_divergence(arm):
    truth = by_hessian(info.NETWORKS[arm])
    assert np.abs(by_jacobian(info.NETWORKS[arm]) - truth).max() < 1e-9 * np.abs(truth).max()


def test_statistics_that_do_not_move_with_the_weights_give_another_fisher_matrix():
    truth = by_hessian(info.NETWORKS["batch norm"])
    same, frozen = (
        info.network(info.NETWORKS[arm], THETA, INPUTS) for arm in ("batch norm", FROZEN)
    )
    assert np.allclose(same, frozen)
    gap = by_jacobian(info.NETWORKS[FROZEN]) - truth
    assert np.abs(gap).max() > 0.05 * np.abs(truth).max()


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
