"""Trained by this book's backward, a net follows its torch twin; by a wrong one, it does not."""

from functools import cache

import numpy as np
import pytest

from normlib.experiments import data, networks, training
from normlib.layers import batch_norm_backward

SEEDS = (0, 1, 2)
RATE = 0.5


@cache
def digits(seed: int) -> data.Split:
    return data.digits(np.random.default_rng(seed))


def start(seed: int, steps: int = 200):
    """Weights and the order of the batches."""
    rng = np.random.default_rng(seed)
    params = networks.dense((64, 32, 32, 10), rng)
    return params, list(training.batches(1437, 64, steps, rng))


@cache
def twins(seed: int):
    """The losses of both nets, ours trained with its statistics, and torch's module."""
    split, (params, order) = digits(seed), start(seed)
    on = split.x_train, split.labels_train, order
    losses, trained, running = training.train(params, *on, rate=RATE)
    net = training.torch_twin(params)
    theirs = training.train_torch(net, *on, rate=RATE)
    return np.array(losses), np.array(theirs), trained, running, net


@pytest.mark.parametrize("seed", SEEDS)
def test_the_split_is_disjoint_and_complete(seed):
    split = digits(seed)
    x, labels = data.load_digits(return_X_y=True)
    # each image and its label as one row; some images of the 1,797 might be equal, so as multisets
    ours = np.column_stack(
        [np.vstack([split.x_train, split.x_test]) * 16, np.hstack([split[1], split[3]])]
    )
    whole = np.column_stack([x, labels])
    assert np.array_equal(ours[np.lexsort(ours.T)], whole[np.lexsort(whole.T)])
    assert len(split.x_test) == len(split.labels_test) == 360
    train = {row.tobytes() for row in split.x_train}
    assert not any(row.tobytes() in train for row in split.x_test)
    assert set(split.labels_test) == set(range(10))


def test_another_seed_gives_another_split():
    assert not np.array_equal(digits(0).x_test, digits(1).x_test)


@pytest.mark.parametrize("seed", SEEDS)
def test_our_loss_curve_is_torchs_to_1e_9_at_each_of_200_steps(seed):
    ours, theirs, *_ = twins(seed)
    assert len(ours) == 200
    assert np.abs(ours / theirs - 1).max() <= 1e-9
    assert ours[-1] < ours[0] / 5  # and it is a curve of something that learns


@pytest.mark.parametrize("seed", SEEDS)
def test_the_trained_weights_and_running_statistics_are_torchs(seed):
    _, _, trained, running, net = twins(seed)
    for ours, theirs in zip(trained.values(), net.parameters(), strict=True):
        assert np.abs(ours.T - theirs.detach().numpy()).max() <= 1e-9  # weights of size 1
    buffers = [b.numpy() for name, b in net.named_buffers() if "running" in name]
    for ours, theirs in zip([a for pair in running for a in pair], buffers, strict=True):
        assert np.abs(ours - theirs).max() <= 1e-9 * np.abs(theirs).max()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_run_classifies_95_percent_of_unseen_digits(seed):
    split, (_, _, trained, running, net) = digits(seed), twins(seed)
    predicted = training.predict(trained, running, split.x_test)
    assert np.mean(predicted == split.labels_test) >= 0.95
    net.eval()
    theirs = net(training.torch.tensor(split.x_test)).argmax(1).numpy()
    assert np.array_equal(predicted, theirs)


def without_variance_term(dy, cache):
    (_, rstd, axes, _), gamma = cache
    _, dgamma, dbeta = batch_norm_backward(dy, cache)
    d = gamma * dy
    return rstd * (d - d.mean(axes)), dgamma, dbeta


@pytest.mark.parametrize("seed", SEEDS)
def test_without_the_variance_term_the_curve_leaves_torchs(seed):
    split, (params, order) = digits(seed), start(seed)
    wrong, *_ = training.train(
        params, split.x_train, split.labels_train, order,
        rate=RATE, norm_backward=without_variance_term,
    )  # fmt: skip
    _, theirs, *_ = twins(seed)
    assert wrong[0] == pytest.approx(theirs[0], rel=1e-12)  # the first loss knows no gradient
    assert np.abs(np.array(wrong) - theirs).max() > 1e-3


def test_the_same_seed_gives_the_same_run_to_the_last_bit():
    split = digits(0)
    runs = []
    for _ in range(2):
        params, order = start(0, steps=30)
        runs.append(training.train(params, split.x_train, split.labels_train, order, rate=RATE))
    assert runs[0][0] == runs[1][0]
    for name, value in runs[0][1].items():
        assert np.array_equal(value, runs[1][1][name])


def test_training_leaves_the_initial_weights_as_they_were():
    split, (params, order) = digits(0), start(0, steps=3)
    copies = {name: value.copy() for name, value in params.items()}
    training.train(params, split.x_train, split.labels_train, order, rate=RATE)
    for name, value in params.items():
        assert np.array_equal(value, copies[name])


def test_batches_use_every_sample_once_before_any_twice():
    order = list(training.batches(10, 3, 6, np.random.default_rng(0)))
    assert [len(batch) for batch in order] == [3] * 6
    for epoch in (order[:3], order[3:]):
        seen = np.concatenate(epoch)
        assert len(set(seen)) == 9
        assert seen.max() < 10


def test_cross_entropy_of_two_equal_logits_is_log_2_and_pulls_both_ways():
    loss, dlogits = networks.cross_entropy(np.array([[3.0, 3.0]]), np.array([1]))
    assert loss == pytest.approx(np.log(2), rel=1e-15)
    assert np.allclose(dlogits, [[0.5, -0.5]], rtol=1e-15)


def test_cross_entropy_bears_huge_logits():
    loss, dlogits = networks.cross_entropy(np.array([[1e4, 0.0]]), np.array([1]))
    assert loss == 1e4
    assert np.array_equal(dlogits, [[1.0, -1.0]])
