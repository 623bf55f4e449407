"""A network with RMSNorm is the one that torch builds, and its gradients keep their laws."""

import numpy as np
import torch

from normbook.lab import networks
from normbook.studies import rms_norm
from normlib.layers import layer_norm, layer_norm_backward
from normlib.layers import rms_norm as layer
from normlib.layers import rms_norm_backward as layer_backward

RNG = np.random.default_rng(0)
X, LABELS = RNG.standard_normal((6, 4)), np.arange(6) % 3
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


def test_the_shift_gets_no_gradient_and_the_rest_is_that_of_differences():
    gradient = networks.gradient(X, LABELS, PAIR)
    _, slopes = gradient(NET, np.arange(6))
    assert all((slopes[f"beta{number}"] == 0).all() for number in range(2))

    def loss_after(name, step):
        moved = NET | {name: NET[name].copy()}
        moved[name].flat[1] += step
        return gradient(moved, np.arange(6))[0]

    for name in ("w0", "gamma1", "bias"):
        slope = (loss_after(name, 1e-6) - loss_after(name, -1e-6)) / 2e-6
        assert abs(slope - slopes[name].flat[1]) < 1e-7
