"""The trials of weight norm train by the gradient of their loss."""

import numpy as np

from normbook.lab import data, networks
from normbook.studies import weight_norm as trials


def test_the_net_with_weight_norm_has_the_gradient_of_its_loss():
    """The gradients of v and g, along a random direction."""
    gradient = trials.network(data.digits(np.random.default_rng(0), "raw"), normalized=True)
    rng = np.random.default_rng(0)
    params = networks.dense((64, 5, 5, 10), rng)
    params |= {f"g_{n}": trials.length(params[n].T) for n in trials.weights(params)}
    along = {name: rng.standard_normal(value.shape) for name, value in params.items()}
    rows, step = np.arange(50), 1e-6
    up, down = (
        gradient({n: p + s * along[n] for n, p in params.items()}, rows)[0] for s in (step, -step)
    )
    slopes = gradient(params, rows)[1]
    predicted = sum((slopes[name] * along[name]).sum() for name in slopes)
    assert abs((up - down) / (2 * step) / predicted - 1) < 1e-6
