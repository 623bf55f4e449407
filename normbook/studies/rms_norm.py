"""RMSNorm in a network: the layer without a shift, its twin from torch, the weights before it."""

from collections.abc import Callable

import numpy as np
import torch

from normbook.lab import networks
from normbook.lab.networks import Pair
from normbook.lab.training import Params
from normlib.layers import rms_norm, rms_norm_backward


def without_shift(forward: Callable, backward: Callable) -> Pair:
    """A layer that has a gain alone, in the form that networks.gradient asks for: beta stays."""

    def norm(z, gamma, beta):
        return forward(z, gamma)

    def norm_backward(dy, cache):
        dx, dgamma, *_ = backward(dy, cache)
        return dx, dgamma, np.zeros(dy.shape[1])

    return norm, norm_backward


def torch_twin(net: Params) -> torch.nn.Sequential:
    """The same net from torch's own modules, with RMSNorm and without a shift, in float64."""
    modules: list[torch.nn.Module] = []
    for layer in range(networks.depth(net)):
        inputs, units = net[f"w{layer}"].shape
        linear = torch.nn.Linear(inputs, units, bias=False)
        modules += [linear, torch.nn.RMSNorm(units, eps=1e-6), torch.nn.ReLU()]
    twin = torch.nn.Sequential(*modules, torch.nn.Linear(*net["w_out"].shape)).double()
    values = [value for name, value in net.items() if not name.startswith("beta")]
    with torch.no_grad():
        for target, value in zip(twin.parameters(), values, strict=True):
            target.copy_(torch.tensor(value.T))
    return twin


def weight_gradients(
    x: np.ndarray,
    weights: np.ndarray,
    gamma: np.ndarray,
    upstream: np.ndarray,
    *,
    of_inputs: float = 1.0,
    of_weights: float = 1.0,
    eps: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of weights and gain, with inputs and weights multiplied by these factors."""
    inputs = of_inputs * x
    _, cache = rms_norm(inputs @ (of_weights * weights), gamma, eps=eps)
    da, dgamma = rms_norm_backward(upstream, cache)
    return inputs.T @ da, dgamma
