"""What the page on practice asks of layers, and what it advises."""

import copy

import pytest
import torch
from torch import nn

from normbook.studies import in_practice


def split(net):
    """The names of the parameters that decay, and of those that do not, each as often as held."""
    names = {p: name for name, p in net.named_parameters()}
    groups = in_practice.decay_groups(net, 0.1)
    return [[names[p] for p in group["params"]] for group in groups]


def test_every_parameter_is_in_one_group_and_no_bias_and_no_norm_decays():
    image = nn.LayerNorm((6, 5, 3))  # γ has three axes
    net = nn.Sequential(in_practice.network(), image, nn.GroupNorm(2, 6), nn.InstanceNorm2d(6))
    decayed, spared = split(net)
    assert sorted(decayed + spared) == sorted(dict(net.named_parameters()))
    assert decayed == ["0.0.weight", "0.3.weight", "0.6.weight"]


def test_a_matrix_that_two_layers_share_is_stepped_once():
    net = nn.Sequential(nn.Embedding(7, 4), nn.LayerNorm(4), nn.Linear(4, 7, bias=False))
    net[2].weight = net[0].weight
    assert split(net) == [["0.weight"], ["1.weight", "1.bias"]]
    torch.optim.AdamW(in_practice.decay_groups(net, 0.1))  # warns if a group has one twice


class Gain(nn.Module):
    """What scales each channel, in a class that PyTorch does not know."""

    def __init__(self, name, *shape):
        super().__init__()
        self.register_parameter(name, nn.Parameter(torch.ones(shape)))


@pytest.mark.parametrize(
    ("name", "shape"),
    [("weight", [6]), ("layer_scale", [6, 1, 1]), ("gamma", [1, 6, 1, 1]), ("logit_scale", [])],
)
def test_a_gain_in_a_class_of_somebody_else_does_not_decay(name, shape):
    assert split(Gain(name, *shape)) == [[], [name]]


@pytest.mark.parametrize(
    "layer", [nn.Linear(4, 3), nn.Linear(4, 1), nn.Linear(1, 4), nn.Conv2d(4, 3, 1)]
)
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_the_lengths_of_weight_normalization_do_not_decay_but_its_directions_do(layer):
    old, new = nn.utils.weight_norm, nn.utils.parametrizations.weight_norm
    directions = ["weight_v"], ["parametrizations.weight.original1"]
    for normed, direction in zip((old, new), directions, strict=True):
        decayed, spared = split(normed(copy.deepcopy(layer)))
        assert decayed == direction and len(spared) == 2


@pytest.mark.parametrize(
    "layer",
    [nn.Linear(1, 6), nn.Linear(6, 1), nn.Conv2d(6, 1, 1), nn.Embedding(1, 6), nn.LSTM(1, 6)],
)
def test_a_layer_with_one_input_or_one_output_decays_like_any_other(layer):
    decayed, spared = split(layer)
    assert decayed == [name for name in dict(layer.named_parameters()) if "weight" in name]
    assert all("bias" in name for name in spared)
