"""The small transformer has the properties that the theory of Xiong et al. (2020) uses."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from normbook.lab import data
from normbook.studies import pre_and_post_norm as transformer

DIGITS = data.digits(np.random.default_rng(0), "raw")
D, DEPTH = 16, 3


def setting():
    x = transformer.tokens(DIGITS.x_train[:6], D, np.random.default_rng(1))
    return x, transformer.random_layers(DEPTH, D, np.random.default_rng(2))


@pytest.mark.parametrize("model", [transformer.post_norm, transformer.pre_norm])
def test_the_output_is_normalized_token_by_token(model):
    """Mean 0 and mean square 1 at the output, at eps = 0."""
    y, _ = model(*setting())
    mean, square = y.mean(dim=-1).abs().max(), (y * y).mean(dim=-1)
    assert mean < 1e-12 and (square - 1).abs().max() < 1e-9


def test_before_the_norms_of_pre_norm_runs_a_plain_sum():
    """A branch sees the stream normalized: three times the stream gets the same addition, and
    three times its last matrix adds three times as much."""
    x, ((value, inward, outward), *_) = setting()

    def added(scale, factor):
        layer = [0 * value, inward, factor * outward]
        return transformer.pre_norm(scale * x, [layer])[1][0] - scale * x

    assert torch.allclose(added(3, 1), added(1, 1)) and torch.allclose(added(1, 3), 3 * added(1, 1))


def test_the_gradient_measured_is_the_steepest_slope_of_the_loss():
    """The steepest slope of the loss in the outward matrix of a layer, by central differences."""
    layer, step = 1, 1e-5
    (x, layers), head = setting(), np.random.default_rng(3).standard_normal((D, 10))
    labels = DIGITS.labels_train[:6]

    def loss(matrices):
        logits = transformer.pre_norm(x, matrices)[0] @ torch.tensor(head)
        return functional.cross_entropy(logits.flatten(0, 1), torch.tensor(np.repeat(labels, 8)))

    (slope,) = torch.autograd.grad(loss(layers), layers[layer][2])
    values = []
    for sign in (1, -1):
        moved = [list(matrices) for matrices in layers]
        moved[layer][2] = layers[layer][2] + sign * step * slope / slope.norm()
        values.append(loss(moved).item())
    found, sizes = transformer.ffn_gradients(transformer.pre_norm, layers, x, labels, head)
    stream = transformer.pre_norm(x, layers)[1]
    right = np.isclose(found[layer], (values[0] - values[1]) / (2 * step), rtol=1e-5)
    assert right and np.allclose(sizes, [(s * s).mean().item() for s in stream])
