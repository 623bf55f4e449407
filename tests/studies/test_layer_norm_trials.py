"""The trials on layer norm see what they are about: the effect goes with what is compared."""

import numpy as np
import pytest

from normbook.lab import data, networks
from normbook.studies import layer_norm as nets
from normbook.studies import layer_norm_in_time as recurrent

DIGITS = data.digits(np.random.default_rng(0), "raw")
SEED = 1


def test_the_exponent_is_that_of_a_linear_network():
    x, part = recurrent.noise(SEED), recurrent.part_at(SEED, 1.0)
    linear = tuple(p if i != 1 else 0.7 * np.eye(64) for i, p in enumerate(part))
    small = 1e-6 * linear[0], *linear[1:]  # so small that tanh is linear

    def quiet(a, gamma, beta):
        return 1e-6 * a, None

    assert abs(recurrent.exponent(x[:3], small, quiet, SEED) - np.log(0.7e-6)) < 1e-9
    free, _ = recurrent.change_of_size(0 * x, linear, "ReLU", SEED)
    assert abs(free - np.log(0.7)) < 1e-9


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


GRADIENTS = {
    "with the norm": lambda *task: recurrent.gradient(*task, recurrent.WITH_NORM),
    "without": lambda *task: recurrent.gradient(*task, recurrent.WITHOUT),
    "read alone": recurrent.gradient_read_alone,
}


@pytest.mark.parametrize("kind", GRADIENTS)
def test_the_gradient_through_time_is_that_of_its_loss(kind):
    net = recurrent.network(8, 6, np.random.default_rng(SEED))
    x, labels, rows = recurrent.rows(DIGITS.x_train[:30]), DIGITS.labels_train[:30], np.arange(30)
    slopes = GRADIENTS[kind](x, labels)
    for name in net:
        step = np.random.default_rng(2).standard_normal(net[name].shape)
        up, down = (slopes(net | {name: net[name] + h * step}, rows)[0] for h in (1e-6, -1e-6))
        along = (slopes(net, rows)[1][name] * step).sum()
        assert abs((up - down) / 2e-6 - along) < 1e-6, name


def test_the_projection_is_that_of_layer_norm_and_leaves_the_forward_pass_as_it_is():
    z, g = np.random.default_rng(SEED).standard_normal((2, 5, 8))
    (forward, back), (norm, norm_back) = nets.PROJECTION["projection"], nets.NORMS["full"]
    y, cache = forward(z, None, None)
    deviation = np.sqrt(z.var(axis=1, keepdims=True) + 1e-5)
    assert np.array_equal(y, z)
    theirs = deviation * norm_back(g, norm(z, None, None)[1])[0]
    assert np.abs(back(g, cache)[0] - theirs).max() < 1e-12
    assert np.abs(back(g, cache)[0] - g).max() > 0.1


def test_a_matched_step_lowers_the_loss_to_first_order_as_the_true_gradient_does():
    start = networks.dense((64, 64, 64, 10), np.random.default_rng(SEED))
    rows, task = np.arange(32), (DIGITS.x_train, DIGITS.labels_train)
    true, cut = (networks.gradient(*task, nets.NORMS[n]) for n in ("full", "both detached"))
    g, u, matched = (f(start, rows)[1] for f in (true, cut, nets.match_lengths(DIGITS)))
    for name in ("w0", "w1", "w_out"):
        assert abs((g[name] * matched[name]).sum() / (g[name] ** 2).sum() - 1) < 1e-10
    assert abs((g["w0"] * u["w0"]).sum() / (g["w0"] ** 2).sum() - 1) > 0.01
