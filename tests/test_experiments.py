"""What all experiments share: the digits, the training loop, and the networks that it trains."""

import json
import re
from functools import cache

import numpy as np
import pytest
import torch
from project import CHAPTERS, ROOT
from sklearn.datasets import load_digits
from twins import twin

from normbook.lab import data, deep, networks, training
from normlib.layers import batch_norm, batch_norm_backward, layer_norm, layer_norm_backward

SEEDS = (0, 1, 2)
RATE = 0.5
# A trial of a claims page keeps the name of its module; cifar serves a command.
FROZEN = {"cifar", "deeper", "stacks"}
PAIRS = {
    "batch norm": (batch_norm, batch_norm_backward),
    "layer norm": (layer_norm, layer_norm_backward),
    "no norm": (networks.no_norm, networks.no_norm_backward),
}


# Modules.


def strays(names):
    """The studies that are neither named after a page nor after the claims of one."""
    pages = {path.stem.replace("-", "_") for path in CHAPTERS}
    return names - FROZEN - pages - {f"{page}_claims" for page in pages}


def test_a_study_is_named_after_its_chapter():
    assert not strays({path.stem for path in ROOT.glob("normbook/studies/[!_]*.py")})
    assert strays({"parts", "landscape"}) == {"parts"}


HAND_WRITTEN = re.compile(r"- \w*rate\w* \*|\.step\(\)|\.backward\(\)")
# Counting the steps on a quadratic; one step alone, how far it goes; single gradients of torch's
# modules. None of them trains a layer.
NO_LAYER = {"conditioning", "in-practice", "fisher-information"}


def test_no_cell_writes_out_an_update_that_the_loop_has():
    found = set()
    for path in CHAPTERS:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        found |= {path.stem for text in code if HAND_WRITTEN.search(text)}
    assert found == NO_LAYER
    for update in ("value - rate * grads[name]", "optimizer.step()", "w -= w - learning_rate * g"):
        assert HAND_WRITTEN.search(update)


# Data.


@cache
def digits(seed: int) -> data.Split:
    return data.digits(np.random.default_rng(seed))


def is_disjoint_and_complete(split):
    x, labels = load_digits(return_X_y=True)
    # each image and its label as one row; some images of the 1,797 might be equal, so as multisets
    ours = np.column_stack(
        [np.vstack([split.x_train, split.x_test]) * 16, np.hstack([split[1], split[3]])]
    )
    whole = np.column_stack([x, labels])
    train = {row.tobytes() for row in split.x_train}
    return (
        np.array_equal(ours[np.lexsort(ours.T)], whole[np.lexsort(whole.T)])
        and len(split.x_test) == len(split.labels_test) == 360
        and not any(row.tobytes() in train for row in split.x_test)
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_split_is_disjoint_and_complete(seed):
    split = digits(seed)
    assert is_disjoint_and_complete(split)
    assert set(split.labels_test) == set(range(10))
    for error in (("images[order]", "images"), ("x[1437:]", "x[1400:1760]")):
        assert not is_disjoint_and_complete(twin(data.digits, *error)(np.random.default_rng(seed)))


def test_another_seed_gives_another_split():
    assert not np.array_equal(digits(0).x_test, digits(1).x_test)


# The loop.


def uses_every_sample_once_before_any_twice(batches):
    order = list(batches(10, 3, 6, np.random.default_rng(0)))
    epochs = [np.concatenate(epoch) for epoch in (order[:3], order[3:])]
    return [len(batch) for batch in order] == [3] * 6 and all(
        len(set(seen)) == 9 and seen.max() < 10 for seen in epochs
    )


def test_batches_use_every_sample_once_before_any_twice():
    assert uses_every_sample_once_before_any_twice(training.batches)
    repeating = twin(training.batches, "order[:size], order[size:]", "order[:size], order[1:]")
    assert not uses_every_sample_once_before_any_twice(repeating)


def quadratic(params, curvature):
    """The loss ½ a x² of each parameter, and its gradient: a batch is the curvature a."""
    loss = sum(curvature * value**2 / 2 for value in params.values())
    return loss, {name: curvature * value for name, value in params.items()}


def follows_the_closed_form(walk, steps=6, rate=0.3, curvature=1.7):
    """On ½ a x² plain gradient descent takes x to (1 - ηa) x in each step; what is frozen stays."""
    start, shrink = {"x": 2.0, "still": 3.0}, 1 - rate * curvature
    moments = list(walk(start, quadratic, [curvature] * steps, rate, frozen=("still",)))
    points = np.array([(m.before["x"], m.after["x"], m.slopes["x"]) for m in moments])
    powers = 2 * shrink ** np.arange(steps + 1)
    expected = np.array([powers[:-1], powers[1:], curvature * powers[:-1]]).T
    losses = curvature * (powers[:-1] ** 2 + 9) / 2
    return (
        all(m.after["still"] == 3 and m.rows == curvature for m in moments)
        and np.allclose([m.loss for m in moments], losses, rtol=1e-12)
        and np.allclose(points, expected, rtol=1e-12)
    )


def test_every_step_of_the_loop_starts_where_the_last_one_ended():
    assert follows_the_closed_form(training.walk)
    for error in (
        ("        params = after\n", ""),  # stale parameters
        ("gradient(params, rows)", "gradient(params | {'x': 2.0}, rows)"),  # stale gradients
        (" if name not in frozen", ""),
        ("slopes, after)", "slopes, params)"),
    ):
        assert not follows_the_closed_form(twin(training.walk, *error)), error


def test_training_is_the_loop_watched_at_the_losses_and_at_its_end():
    batches = [0.5, 1.0, 1.5]
    losses, after = training.train({"x": 2.0}, quadratic, batches, RATE)
    moments = list(training.walk({"x": 2.0}, quadratic, batches, RATE))
    assert losses.tolist() == [m.loss for m in moments] and after == moments[-1].after


def decays_alone(sgd, rate=0.3, decay=0.2):
    """Without a gradient, each step takes the share ηλ of the weights."""
    params = {"x": 2.0}
    for _ in range(4):
        params, _ = sgd(params, {"x": 0.0}, rate, decay=decay)
    return np.isclose(params["x"], 2 * (1 - rate * decay) ** 4, rtol=1e-12)


def test_weight_decay_takes_the_same_share_in_every_step():
    assert decays_alone(training.sgd)
    assert not decays_alone(twin(training.sgd, "1 - rate * decay", "1 - decay"))


def follows_torchs_adam(adam, steps=30, rate=0.03):
    """On random gradients, whatever the parameters."""
    gradients = np.random.default_rng(0).standard_normal((steps, 4))
    ours = {"x": np.ones(4)}
    theirs = torch.ones(4, dtype=torch.float64, requires_grad=True)
    optimizer, state = torch.optim.Adam([theirs], lr=rate), None
    for gradient in gradients:
        ours, state = adam(ours, {"x": gradient}, rate, state)
        theirs.grad = torch.tensor(gradient)
        optimizer.step()
    return np.abs(ours["x"] - theirs.detach().numpy()).max() < 1e-12


def test_our_adam_is_torchs():
    assert follows_torchs_adam(training.adam)
    for error in (
        ("m[n] / (1 - 0.9**step)", "m[n]"),
        ("v[n] / (1 - 0.999**step)", "v[n]"),
        ("0.999 * v[name]", "0.99 * v[name]"),
        ("state or (0,", "(0,"),
    ):
        assert not follows_torchs_adam(twin(training.adam, *error)), error


# Networks.


def task(seed=0, steps=30):
    """A net, and what gradients ask for."""
    rng = np.random.default_rng(seed)
    params = networks.dense((64, 32, 32, 10), rng)
    return params, list(training.batches(1437, 64, steps, rng))


def curves(name, backward=None):
    """The losses by this book's backward, and by autograd through this book's forward."""
    (norm, shipped), split, (params, order) = PAIRS[name], digits(0), task()
    on = split.x_train, split.labels_train
    ours = networks.gradient(*on, (norm, backward or shipped))
    loss = deep.cross_entropy_loss(norm, *on)
    theirs = training.train(deep.tensors(params), deep.gradient(loss), order, 0.1)[0]
    return training.train(params, ours, order, 0.1)[0], theirs


def agree(one, other):
    return np.abs(one / other - 1).max() < 1e-9


@pytest.mark.parametrize("name", PAIRS)
def test_backward_and_autograd_give_the_same_curve_whatever_the_norm(name, monkeypatch):
    ours, theirs = curves(name)
    assert len(ours) == 30 and agree(ours, theirs) and ours[-1] < ours[0]
    for error in (("dx * (y > 0)", "dx"), ("dlogits.sum(axis=0)", "dlogits.mean(axis=0)")):
        with monkeypatch.context() as patch:
            patch.setattr(networks, "backward", twin(networks.backward, *error))
            assert not agree(*curves(name)), error


def test_without_a_norm_the_gain_still_counts_in_the_gradient():
    wrong = twin(networks.no_norm_backward, "(dy * z)", "dy")
    assert not agree(*curves("no norm", wrong))


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
def test_our_loss_curve_is_torchs_to_1e_9_at_each_of_200_steps(seed):
    ours, theirs, *_ = twins(seed)
    assert len(ours) == 200
    assert np.abs(ours / theirs - 1).max() <= 1e-9
    assert ours[-1] < ours[0] / 5  # and it is a curve of something that learns


@pytest.mark.parametrize("seed", SEEDS)
def test_the_trained_weights_are_torchs(seed):
    _, _, trained, _, net = twins(seed)
    for ours, theirs in zip(trained.values(), net.parameters(), strict=True):
        assert np.abs(ours.T - theirs.detach().numpy()).max() <= 1e-9  # weights of size 1


def are_torchs(running, net):
    """The running statistics, against the buffers."""
    buffers = [b.numpy() for name, b in net.named_buffers() if "running" in name]
    pairs = zip([a for pair in running for a in pair], buffers, strict=True)
    return all(np.abs(a - b).max() <= 1e-9 * np.abs(b).max() for a, b in pairs)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_running_statistics_are_torchs(seed):
    assert are_torchs(twins(seed)[3], twins(seed)[4])


def test_statistics_of_the_net_after_the_step_are_not_torchs():
    split, (params, order) = digits(0), task(0, 200)
    late = twin(networks.train_batch_norm, "moment.before", "moment.after")
    running = late(params, split.x_train, split.labels_train, order, rate=RATE)[2]
    assert not are_torchs(running, twins(0)[4])


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_run_classifies_95_percent_of_unseen_digits(seed):
    split, (_, _, trained, running, net) = digits(seed), twins(seed)
    predicted = networks.predict(trained, running, split.x_test)
    assert np.mean(predicted == split.labels_test) >= 0.95
    net.eval()
    theirs = net(torch.tensor(split.x_test)).argmax(1).numpy()
    assert np.array_equal(predicted, theirs)


def predicts_like_training(statistics):
    """With the statistics of these very samples, inference computes what training does."""
    (params, _), x = task(1), digits(0).x_train[:200]
    norm = networks.at_inference(statistics(params, x))
    both = [networks.forward(params, x, n)[0] for n in (norm, norm, batch_norm)]
    return max(np.abs(y - both[-1]).max() for y in both) < 1e-10


def test_with_the_statistics_of_the_batch_inference_is_training():
    assert predicts_like_training(networks.statistics)
    for error in (("h.z.var(axis=0)", "h.z.var(axis=0, ddof=1)"), ("h.z.mean", "h.y.mean")):
        assert not predicts_like_training(twin(networks.statistics, *error))


def test_accuracy_is_the_same_for_arrays_and_tensors_and_counts_right_answers():
    (params, _), split = task(), digits(0)
    answers = networks.forward(params, split.x_test, layer_norm)[0].argmax(axis=1)
    same = np.where(np.arange(360) < 90, answers, (answers + 1) % 10)
    assert networks.accuracy(params, split.x_test, same, layer_norm) == 0.25
    tensors = deep.tensors(params), torch.tensor(split.x_test), torch.tensor(same)
    assert networks.accuracy(*tensors, layer_norm) == 0.25


def without_variance_term(dy, cache):
    (_, rstd, axes, _), gamma = cache
    _, dgamma, dbeta = batch_norm_backward(dy, cache)
    d = gamma * dy
    return rstd * (d - d.mean(axes)), dgamma, dbeta


@pytest.mark.parametrize("seed", SEEDS)
def test_without_the_variance_term_the_curve_leaves_torchs(seed):
    split, (params, order) = digits(seed), task(seed, 200)
    on = split.x_train, split.labels_train, order
    options = {"rate": RATE, "norm_backward": without_variance_term}
    wrong, *_ = networks.train_batch_norm(params, *on, **options)
    _, theirs, *_ = twins(seed)
    assert wrong[0] == pytest.approx(theirs[0], rel=1e-12)  # the first loss knows no gradient
    assert np.abs(wrong - theirs).max() > 1e-3


def test_the_same_seed_gives_the_same_run_to_the_last_bit_and_changes_nothing_it_was_given():
    split, runs = digits(0), []
    for _ in range(2):
        params, order = task(steps=30)
        copies = {name: value.copy() for name, value in params.items()}
        on = split.x_train, split.labels_train, order
        runs.append(networks.train_batch_norm(params, *on, rate=RATE))
        assert all(np.array_equal(params[name], copies[name]) for name in params)
    assert np.array_equal(runs[0][0], runs[1][0])
    for name, value in runs[0][1].items():
        assert np.array_equal(value, runs[1][1][name])


def test_cross_entropy_of_two_equal_logits_is_log_2_and_pulls_both_ways():
    loss, dlogits = networks.cross_entropy(np.array([[3.0, 3.0]]), np.array([1]))
    assert loss == pytest.approx(np.log(2), rel=1e-15)
    assert np.allclose(dlogits, [[0.5, -0.5]], rtol=1e-15)


def test_cross_entropy_bears_huge_logits():
    loss, dlogits = networks.cross_entropy(np.array([[1e4, 0.0]]), np.array([1]))
    assert loss == 1e4
    assert np.array_equal(dlogits, [[1.0, -1.0]])


# Deep nets in torch.


def measures_the_squared_distance(squared_loss, seed=3):
    """The matrix of the task has the loss 0; with the bias b besides, |b|² for every sample."""
    made, bias = deep.gaussian_task(seed), torch.arange(10.0).double()
    solved = {"w_out": torch.linalg.lstsq(made.x, made.y).solution, "bias": 0 * bias}
    loss = squared_loss(networks.no_norm, made)
    found = [loss(solved | extra, slice(0, 20)).item() for extra in ({}, {"bias": bias})]
    return np.allclose(found, [0, (bias**2).sum().item()], atol=1e-10)


def test_the_gaussian_task_is_solved_by_its_matrix_and_the_loss_is_the_squared_distance():
    assert measures_the_squared_distance(deep.squared_loss)
    for error in ((".sum(dim=1).mean()", ".mean()"), (".mean()", ".sum()")):
        assert not measures_the_squared_distance(twin(deep.squared_loss, *error))


def has_the_deviation(dense, gain):
    params = dense((64, 400, 300, 200), 0, gain=gain)
    sizes = [
        (params[n].std() * (len(params[n]) / gain) ** 0.5).item() for n in ("w0", "w1", "w_out")
    ]
    return np.allclose(sizes, 1, rtol=0.02) and params["gamma1"].eq(1).all()


@pytest.mark.parametrize("gain", [1.0, 2.0, 8.0])
def test_the_gain_sets_the_variance_of_the_weights_and_of_nothing_else(gain):
    assert has_the_deviation(deep.dense, gain)
    assert not has_the_deviation(twin(deep.dense, "(gain / 2) ** 0.5", "gain"), gain)
    assert not has_the_deviation(twin(deep.dense, ' if n[0] == "w" else value', "+ 0.1"), gain)


def test_the_gradient_of_what_the_loss_does_not_see_is_zero():
    loss, slopes = deep.gradient(lambda p, rows: (p["x"] ** 2 * rows).sum())(
        {"x": torch.ones(2), "unseen": torch.ones(3)}, 3.0
    )
    assert loss == 6 and slopes["x"].tolist() == [6, 6] and slopes["unseen"].tolist() == [0] * 3
