"""What all experiments share: the digits, the training loop, and the networks that it trains."""

import json
import warnings
from functools import cache, partial

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from normbook.lab import data, deep, networks, training
from normbook.studies import on_a_gpu
from normlib.layers import batch_norm, batch_norm_backward, layer_norm, layer_norm_backward

SEEDS = (0, 1, 2)
RATE = 0.5
PAIRS = {
    "batch norm": (batch_norm, batch_norm_backward),
    "layer norm": (layer_norm, layer_norm_backward),
    "no norm": (networks.no_norm, networks.no_norm_backward),
}


# Data.


@cache
def digits(seed: int) -> data.Split:
    return data.digits(np.random.default_rng(seed), "raw")


@pytest.mark.parametrize("seed", SEEDS)
def test_the_split_is_disjoint_and_complete(seed):
    split, (x, labels) = digits(seed), load_digits(return_X_y=True)
    ours = np.vstack([split.x_train, split.x_test]) * 16, np.hstack([split[1], split[3]])
    # each image and its label as one row; some images of the 1,797 might be equal, so as multisets
    ours, whole = np.column_stack(ours), np.column_stack([x, labels])
    assert np.array_equal(ours[np.lexsort(ours.T)], whole[np.lexsort(whole.T)])
    train = {row.tobytes() for row in split.x_train}
    assert len(split.x_test) == len(split.labels_test) == 360
    assert not any(row.tobytes() in train for row in split.x_test)
    assert set(split.labels_test) == set(range(10))


# The loop.


def test_batches_use_every_sample_once_before_any_twice():
    order = list(training.batches(10, 3, 6, np.random.default_rng(0)))
    epochs = [np.concatenate(epoch) for epoch in (order[:3], order[3:])]
    assert [len(batch) for batch in order] == [3] * 6 and all(
        len(set(seen)) == 9 and seen.max() < 10 for seen in epochs
    )


def quadratic(params, curvature):
    """The loss ½ a x² of each parameter, and its gradient: a batch is the curvature a."""
    loss = sum(curvature * value**2 / 2 for value in params.values())
    return loss, {name: curvature * value for name, value in params.items()}


def test_every_step_of_the_loop_starts_where_the_last_one_ended():
    """On ½ a x² plain gradient descent takes x to (1 - ηa) x in each step; what is frozen stays."""
    steps, rate, curvature = 6, 0.3, 1.7
    start, shrink = {"x": 2.0, "still": 3.0}, 1 - rate * curvature
    moments = list(training.walk(start, quadratic, [curvature] * steps, rate, frozen=("still",)))
    points = np.array([(m.before["x"], m.after["x"], m.slopes["x"]) for m in moments])
    powers = 2 * shrink ** np.arange(steps + 1)
    expected = np.array([powers[:-1], powers[1:], curvature * powers[:-1]]).T
    losses = curvature * (powers[:-1] ** 2 + 9) / 2
    assert all(m.after["still"] == 3 and m.rows == curvature for m in moments)
    assert np.allclose([m.loss for m in moments], losses, rtol=1e-12)
    assert np.allclose(points, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "ours_of, theirs_of",
    [
        (training.adam, torch.optim.Adam),
        (training.momentum, partial(torch.optim.SGD, momentum=0.9)),
    ],
)
def test_our_optimizers_are_torchs(ours_of, theirs_of):
    """On random gradients, whatever the parameters."""
    rate, gradients = 0.03, np.random.default_rng(0).standard_normal((30, 4))
    ours = {"x": np.ones(4)}
    theirs = torch.ones(4, dtype=torch.float64, requires_grad=True)
    optimizer, state = theirs_of([theirs], lr=rate), None
    for gradient in gradients:
        ours, state = ours_of(ours, {"x": gradient}, rate, state)
        theirs.grad = torch.tensor(gradient)
        optimizer.step()
    assert np.abs(ours["x"] - theirs.detach().numpy()).max() < 1e-12


# Networks.


def task(seed=0, steps=30):
    """A net, and what gradients ask for."""
    rng = np.random.default_rng(seed)
    params = networks.dense((64, 32, 32, 10), rng)
    return params, list(training.batches(1437, 64, steps, rng))


@pytest.mark.parametrize("name", PAIRS)
def test_backward_and_autograd_give_the_same_curve_whatever_the_norm(name):
    """By this book's backward, and by autograd through this book's forward."""
    split, (params, order) = digits(0), task()
    on = split.x_train, split.labels_train
    ours = training.train(params, networks.gradient(*on, PAIRS[name]), order, 0.1)[0]
    loss = deep.cross_entropy_loss(PAIRS[name][0], *on)
    theirs = training.train(deep.tensors(params), deep.gradient(loss), order, 0.1)[0]
    assert len(ours) == 30 and np.abs(ours / theirs - 1).max() < 1e-9 and ours[-1] < ours[0]


@cache
def twins(seed: int):
    """The losses of both nets, ours trained with its statistics, and torch's module."""
    split, (params, order) = digits(seed), task(seed, 200)
    on = split.x_train, split.labels_train, order
    losses, trained, running = networks.train_batch_norm(params, *on, rate=RATE)
    net = networks.torch_twin(params)
    theirs = training.train_torch(net, *on, rate=RATE)
    return losses, np.array(theirs), trained, running, net


@pytest.mark.parametrize("seed", SEEDS)
def test_our_losses_weights_and_statistics_are_torchs_to_1e_9_after_each_of_200_steps(seed):
    ours, theirs, trained, running, net = twins(seed)
    assert len(ours) == 200
    assert np.abs(ours / theirs - 1).max() <= 1e-9
    assert ours[-1] < ours[0] / 5  # and it is a curve of something that learns
    for one, other in zip(trained.values(), net.parameters(), strict=True):
        assert np.abs(one.T - other.detach().numpy()).max() <= 1e-9  # weights of size 1
    buffers = [b.numpy() for name, b in net.named_buffers() if "running" in name]
    for one, other in zip([a for pair in running for a in pair], buffers, strict=True):
        assert np.abs(one - other).max() <= 1e-9 * np.abs(other).max()


def test_with_the_statistics_of_the_batch_inference_is_training():
    (params, _), x = task(1), digits(0).x_train[:200]
    norm = networks.at_inference(networks.statistics(params, x))
    both = [networks.forward(params, x, n)[0] for n in (norm, norm, batch_norm)]
    assert max(np.abs(y - both[-1]).max() for y in both) < 1e-10


def test_a_gpu_was_asked_what_is_still_asked():
    kept = json.loads(on_a_gpu.KEPT.read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # RMSNorm has no kernel for mixed formats
        asked = on_a_gpu.ask("cpu")
    assert all(list(answers) == list(kept[question]) for question, answers in asked.items())
