"""The critic is as steep as it may be, and losses and distance are those of the papers."""

import numpy as np
import torch

from normbook.studies import spectral_norm as gan

RNG = np.random.default_rng(0)


def critic():
    """With the exact singular vectors of each layer."""
    net = gan.layers((64, 20, 20, 1), np.random.default_rng(1))
    found = [torch.linalg.svd(w.detach()) for w, _ in net]
    return net, [(u[:, 0], vt[0]) for u, _, vt in found]


def test_the_layers_of_a_bounded_critic_multiply_to_its_bound():
    bound = 5.0
    sizes = [torch.linalg.norm(w, 2).item() for w, _ in gan.bound_layers(*critic(), bound)]
    assert np.allclose(sizes, bound ** (1 / 3), rtol=1e-9)


def one_layer(weight):
    return [(torch.full((1, 64), weight).double(), torch.zeros(1).double())]


def test_the_losses_are_the_non_saturating_ones():
    """Where the critic says 0 it loses 2 log 2, and log 2 is what the generator loses. Only the
    generator's loss reaches the generator, and pulls its images to where the critic says more."""
    x = torch.rand(9, 64, dtype=torch.float64, requires_grad=True)
    losses = [loss(one_layer(0.0), x, x).item() for loss in (gan.critic_loss, gan.generator_loss)]
    of_critic = gan.critic_loss(one_layer(1.0), torch.zeros_like(x), x)
    pull = torch.autograd.grad(gan.generator_loss(one_layer(1.0), x, x), x)[0]
    assert np.allclose(losses, np.log([4, 2])) and not of_critic.requires_grad and pull.max() < 0


def test_the_frechet_distance_of_moved_and_scaled_samples_is_known():
    """0 to itself; |b|² to itself moved by b; 4 times the variance to three times itself."""
    x = RNG.standard_normal((200, 4)) @ RNG.standard_normal((4, 4))
    x, b = x - x.mean(axis=0), np.array([1.0, 2.0, 0.0, -1.0])
    found = gan.frechet(x, x), gan.frechet(x, x + b), gan.frechet(x, 3 * x)
    assert np.allclose(found, [0, 6, 4 * x.var(axis=0).sum()], atol=1e-6)
