"""What is not chosen stays to the last bit, and what is chosen is trained as torch's Adam does."""

import numpy as np
import pytest
import torch

from normbook.lab import data, networks, training
from normbook.studies import only_gamma_beta as parts
from normlib.layers import batch_norm

DIGITS = data.digits(np.random.default_rng(0), "raw")
ON = DIGITS.x_train, DIGITS.labels_train
RATE, STEPS = 0.03, 6


def start():
    rng = np.random.default_rng(1)
    params = networks.dense((64, 12, 12, 10), rng)
    return params, list(training.batches(1437, 64, STEPS, rng))


@pytest.mark.parametrize("name", ["gamma and beta", "scattered", "last layer"])
def test_only_what_the_mask_names_moves(name):
    """An entry has moved if and only if the mask is 1 there. (A pixel that is always blank has no
    gradient; the first layer is left out of the "if".)"""
    params, order = start()
    mask = {
        "gamma and beta": parts.whole(params, parts.affine(params)),
        "scattered": parts.scatter(params, 48, np.random.default_rng(2)),
        "last layer": parts.whole(params, ["w_out", "bias"]),
    }[name]
    _, after = parts.train(params, mask, *ON, order, rate=RATE)
    for n in params:
        moved = after[n] != params[n]
        assert not moved[mask[n] == 0].any() and (n == "w0" or moved[mask[n] == 1].all())


def test_a_whole_mask_has_ones_on_the_arrays_named_and_nowhere_else():
    params, _ = start()
    counts = {name: int(m.sum()) for name, m in parts.whole(params, ["w0", "beta1"]).items()}
    assert counts == dict.fromkeys(params, 0) | {"w0": 64 * 12, "beta1": 12}
    assert parts.affine(start()[0]) == ["gamma0", "beta0", "gamma1", "beta1"]


def test_with_everything_chosen_the_losses_are_those_of_torchs_adam():
    params, order = start()
    everything = parts.whole(params, list(params))
    net = networks.torch_twin(params)
    optimizer, theirs = torch.optim.Adam(net.parameters(), lr=RATE), []
    x, labels = map(torch.tensor, ON)
    for rows in order:
        loss = torch.nn.functional.cross_entropy(net(x[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        theirs.append(loss.item())
    assert np.allclose(parts.train(params, everything, *ON, order, rate=RATE)[0], theirs, rtol=1e-6)


def test_a_class_is_predicted_with_the_statistics_of_the_training_set():
    params, _ = start()
    x = DIGITS.x_train[:300]
    by_training = networks.forward(params, x, batch_norm)[0].argmax(axis=1)
    assert np.array_equal(parts.predict(params, x, x[:40]), by_training[:40])
    alone = networks.forward(params, x[:40], batch_norm)[0].argmax(axis=1)
    assert not np.array_equal(alone, by_training[:40])


# The experiment itself.


def test_a_run_is_judged_by_its_last_losses_and_by_the_test_digits():
    """The loss of the last 20 batches alone, and the accuracy on digits not trained on."""
    params, _ = start()
    losses = np.array([9.0] * 380 + [1.0] * 20)
    found = parts.outcome(DIGITS, losses, params)
    right = (parts.predict(params, DIGITS.x_train, DIGITS.x_test) == DIGITS.labels_test).mean()
    assert found == {"loss": 1.0, "accuracy": right, "off": 0.0}


def test_random_weights_are_drawn_unit_by_unit():
    params, _ = start()
    mask = parts.per_unit(params, np.random.default_rng(3))
    ones = {name for name in params if mask[name].any()}
    assert ones == {"w0", "w1"} and all((mask[name].sum(axis=0) == 2).all() for name in ones)
