"""What is not chosen stays to the last bit, and what is chosen is trained as torch's Adam does."""

import numpy as np
import pytest
import torch
from twins import twin

from normlib.experiments import data, networks, training
from normlib.experiments import only_gamma_beta as parts
from normlib.layers import batch_norm

DIGITS = data.digits(np.random.default_rng(0))
ON = DIGITS.x_train, DIGITS.labels_train
RATE, STEPS = 0.03, 6


def start():
    rng = np.random.default_rng(1)
    params = networks.dense((64, 12, 12, 10), rng)
    return params, list(training.batches(1437, 64, STEPS, rng))


def masks(params):
    return {
        "gamma and beta": parts.whole(params, parts.affine(params)),
        "scattered": parts.scattered(params, 48, np.random.default_rng(2)),
        "last layer": parts.whole(params, ["w_out", "bias"]),
    }


def moves_what_the_mask_names(name):
    """An entry has moved if and only if the mask is 1 there. (A pixel that is always blank has no
    gradient; the first layer is left out of the "if".)"""
    params, order = start()
    mask = masks(params)[name]
    _, after = parts.train(params, mask, *ON, order, rate=RATE)
    moved = {n: after[n] != params[n] for n in params}
    still = all(not moved[n][mask[n] == 0].any() for n in params)
    return still and all(moved[n][mask[n] == 1].all() for n in params if n != "w0")


@pytest.mark.parametrize("name", ["gamma and beta", "scattered", "last layer"])
def test_only_what_the_mask_names_moves(name):
    assert moves_what_the_mask_names(name)


def test_a_mask_that_is_dropped_moves_the_weights_between_the_chosen_ones(monkeypatch):
    monkeypatch.setattr(parts, "masked", lambda gradient, mask: gradient)
    assert not moves_what_the_mask_names("scattered")


def are_whole(whole):
    params, _ = start()
    counts = {name: int(mask.sum()) for name, mask in whole(params, ["w0", "beta1"]).items()}
    return counts == dict.fromkeys(params, 0) | {"w0": 64 * 12, "beta1": 12}


def test_a_whole_mask_has_ones_on_the_arrays_named_and_nowhere_else():
    assert are_whole(parts.whole)
    assert not are_whole(twin(parts.whole, "name in names", "name not in names"))
    assert parts.affine(start()[0]) == ["gamma0", "beta0", "gamma1", "beta1"]


def counted(scattered):
    """48 ones, on hidden weights alone, and other ones for another seed."""
    params, _ = start()
    one, other = (scattered(params, 48, np.random.default_rng(seed)) for seed in (0, 1))
    ones = {name for name in params if one[name].any()}
    differ = any((one[name] != other[name]).any() for name in ones)
    return sum(m.sum() for m in one.values()) == 48 and ones == {"w0", "w1"} and differ


def test_scattered_weights_are_as_many_as_asked_for_and_hidden():
    assert counted(parts.scattered)
    for error in (
        ("replace=False", "replace=True"),
        ("whole(params, []) | chosen", "whole(params, ['bias']) | chosen"),
    ):
        assert not counted(twin(parts.scattered, *error)), error


def follows_torch(train):
    """Everything chosen: torch's modules with torch's own Adam have the same losses."""
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
    return np.allclose(train(params, everything, *ON, order, rate=RATE)[0], theirs, rtol=1e-6)


def test_with_everything_chosen_the_losses_are_those_of_torchs_adam():
    assert follows_torch(parts.train)
    assert not follows_torch(twin(parts.train, '"update": training.adam, ', ""))


def test_a_class_is_predicted_with_the_statistics_of_the_training_set():
    params, _ = start()
    x = DIGITS.x_train[:300]
    by_training = networks.forward(params, x, batch_norm)[0].argmax(axis=1)
    assert np.array_equal(parts.predict(params, x, x[:40]), by_training[:40])
    alone = networks.forward(params, x[:40], batch_norm)[0].argmax(axis=1)
    assert not np.array_equal(alone, by_training[:40])
