"""What the page on practice asks of layers, and what it advises."""

import pytest
import torch
from torch import nn

from normlib.experiments import in_practice


@pytest.mark.parametrize(
    ("layer", "shape", "reached"),
    [
        (nn.BatchNorm1d(6), (4, 6), (4, 1)),
        (nn.LayerNorm(6), (4, 6), (1, 6)),
        (nn.GroupNorm(3, 6), (4, 6, 5), (1, 2, 5)),
        (nn.Identity(), (4, 6), (1, 1)),
    ],
)
def test_a_change_reaches_what_shares_a_statistic(layer, shape, reached):
    assert in_practice.reach(layer, shape) == reached


def test_asking_a_layer_leaves_its_statistics():
    norm = nn.BatchNorm1d(6)
    in_practice.reach(norm, (4, 6))
    assert (norm.running_mean == 0).all() and norm.weight.dtype == torch.float32


def test_every_parameter_is_in_one_group_and_no_bias_and_no_norm_decays():
    image = nn.LayerNorm((6, 5, 3))  # γ has three axes
    net = nn.Sequential(in_practice.network(), image, nn.GroupNorm(2, 6), nn.InstanceNorm2d(6))
    decayed, spared = (group["params"] for group in in_practice.decay_groups(net, 0.1))
    assert len(decayed) + len(spared) == len([*net.parameters()])
    assert [p.ndim for p in decayed] == [2, 2, 2]
    assert any(p is image.weight for p in spared)


def test_padding_is_left_out_of_the_statistics_and_of_the_averages():
    x = torch.randn(4, 6, 5)
    filled = nn.functional.pad(x, (0, 7), value=100.0)
    mask = (torch.arange(12) < 5).expand(4, 12)
    masked, plain, spoilt = (nn.BatchNorm1d(6) for _ in range(3))
    y = in_practice.masked_batch_norm(masked, filled, mask)
    assert torch.allclose(y[..., :5], plain(x), atol=1e-5) and (y[..., 5:] == 0).all()
    assert torch.allclose(masked.running_mean, plain.running_mean, atol=1e-6)
    spoilt(filled)
    assert not torch.allclose(spoilt.running_mean, plain.running_mean, atol=1)


def test_only_what_shrinks_moves_the_output():
    assert in_practice.moved([]) == 0 and in_practice.moved(["6.weight"]) > 0.05
