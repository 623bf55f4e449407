"""Backpropagation through time against torch's autograd through torch's own recurrent nets."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from normbook.lab import deep, networks
from normbook.studies import layer_norm_in_time as recurrent
from normlib.layers import layer_norm, layer_norm_backward

RNG = np.random.default_rng(0)
X, LABELS = RNG.standard_normal((5, 9, 4)), RNG.integers(0, 10, 9)  # steps, samples, inputs
NORMS = {
    "layer norm": ((layer_norm, layer_norm_backward), recurrent.torch_layer_norm_rnn),
    "no norm": ((networks.no_norm, networks.no_norm_backward), recurrent.torch_plain_rnn),
}


def net():
    params = recurrent.network(4, 6, np.random.default_rng(1))
    return params | {name: params[name] + RNG.standard_normal(6) / 4 for name in ("gamma", "beta")}


def theirs(reference):
    """The loss at the last state of torch's own net, for autograd."""
    x, labels = torch.tensor(X), torch.tensor(LABELS)

    def loss(params, rows):
        h0 = torch.zeros(len(rows), 6, dtype=x.dtype)
        h = reference(x[:, rows], h0, *recurrent.recurrent_part(params))
        return functional.cross_entropy(h[-1] @ params["w_out"] + params["bias"], labels[rows])

    return deep.gradient(loss)


@pytest.mark.parametrize("name", NORMS)
def test_the_gradient_through_time_is_torchs(name):
    """The loss and all gradients on some of the samples."""
    (pair, reference), params, rows = NORMS[name], net(), np.array([0, 2, 3, 7])
    loss, slopes = recurrent.gradient(X, LABELS, pair)(params, rows)
    loss_, slopes_ = theirs(reference)(deep.tensors(params), rows)
    close = [np.allclose(slopes[n], slopes_[n], rtol=1e-9, atol=1e-12) for n in params]
    assert abs(loss / loss_ - 1) < 1e-12 and all(close)


def test_what_survives_of_a_gradient_is_that_of_a_linear_network():
    """Without a norm and with a gain so small that tanh is linear, a step back is gain · W."""
    x, gain = np.zeros((3, 2, 4)), 1e-6
    w = recurrent.network(4, 64, np.random.default_rng(5), scale=2.0)["w_hh"]
    rng = np.random.default_rng(5)
    _ = recurrent.network(4, 64, rng, scale=2.0)
    _, upstream = rng.standard_normal((2, 2, 64))
    found = recurrent.survival(x, 2.0, recurrent.WITHOUT, gain=gain, seed=5)
    expected = [np.linalg.norm(upstream @ np.linalg.matrix_power(gain * w.T, t)) for t in (1, 2, 3)]
    assert np.allclose(found * np.linalg.norm(upstream), expected, rtol=1e-9, atol=0)
