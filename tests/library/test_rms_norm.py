"""A network with RMSNorm is the one that torch builds."""

import numpy as np
import torch

from normbook.lab import networks
from normbook.studies import rms_norm
from normlib.layers import layer_norm, layer_norm_backward
from normlib.layers import rms_norm as layer
from normlib.layers import rms_norm_backward as layer_backward

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 4))
NET = networks.dense((4, 5, 5, 3), RNG)
NET = {name: value + 0.1 * RNG.standard_normal(value.shape) for name, value in NET.items()}
PAIR = rms_norm.without_shift(layer, layer_backward)


def measure_difference(torch_twin, pair):
    theirs = torch_twin(NET)(torch.tensor(X)).detach().numpy()
    return np.abs(networks.forward(NET, X, pair[0])[0] - theirs).max()


def test_the_twin_computes_what_our_network_computes():
    other = rms_norm.without_shift(lambda z, g: layer_norm(z, g, 0 * g), layer_norm_backward)
    assert measure_difference(rms_norm.torch_twin, PAIR) < 1e-12
    assert measure_difference(rms_norm.torch_twin, other) > 0.01
