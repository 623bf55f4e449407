"""What is not chosen stays to the last bit, and what is chosen is trained as torch's Adam does."""

import numpy as np
import pytest
import torch
from twins import twin

from normbook.lab import data, networks, training
from normbook.studies import only_gamma_beta as parts
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


# The experiment itself.


def trains_as_many(masks):
    """γ and β and the random weights are equally many at every depth; the last layer is fixed."""
    names, counts = ("gamma and beta", "random weights", "last layer"), {}
    for depth in (2, 4, 8):
        params, rng = parts.start(depth, 0)
        counts[depth] = [int(sum(m.sum() for m in masks[n](params, rng).values())) for n in names]
    return counts == {depth: [128 * depth, 128 * depth, 650] for depth in (2, 4, 8)}


def test_gamma_and_beta_are_as_many_as_the_random_weights_and_the_last_layer_has_650():
    assert trains_as_many(parts.PARTS)
    assert not trains_as_many(parts.PARTS | {"random weights": parts.as_many(2)})
    without_bias = {"last layer": parts.named("w_out")}
    assert not trains_as_many(parts.PARTS | without_bias)


def starts_alike(chosen):
    """Every part of a seed begins with the same net; another seed has another one."""
    nets = [chosen(part, 2, seed)[0] for part, seed in [("beta", 0), ("random weights", 0)]]
    other = chosen("beta", 2, 1)[0]
    same = all((nets[0][n] == nets[1][n]).all() for n in nets[0])
    return same and (nets[0]["w0"] != other["w0"]).any()


def test_all_parts_start_from_the_same_net_of_a_seed():
    assert starts_alike(parts.chosen)
    assert not starts_alike(twin(parts.chosen, "start(depth, seed)", "start(depth, len(part))"))
    assert not starts_alike(twin(parts.chosen, "start(depth, seed)", "start(depth, 0)"))


@pytest.fixture
def seen(monkeypatch):
    """What is to be trained, in place of the training."""
    calls = []
    took = lambda *args, rate: calls.append(args) or (None, args[0])  # noqa: E731
    monkeypatch.setattr(parts, "train", took)
    return calls


def meets_the_same_batches(run, seen):
    """The batches of a seed do not depend on the part, and every seed has its own."""
    seen.clear()
    for part, seed in [("beta", 0), ("random weights", 0), ("beta", 1)]:
        _ = run(DIGITS, part, depth=2, seed=seed)
    one, other_part, other_seed = (np.array(list(order)) for *_, order in seen)
    return one.shape == (400, 64) and (one == other_part).all() and (one != other_seed).any()


def test_all_parts_meet_the_same_batches_of_a_seed(seen):
    assert meets_the_same_batches(parts.run, seen)
    seed = "np.random.default_rng(seed)"
    for changed in ("np.random.default_rng(len(part))", "np.random.default_rng(0)"):
        assert not meets_the_same_batches(twin(parts.run, seed, changed), seen), changed


def is_counted(share_off):
    gammas = {"gamma0": np.array([0.04, -0.04, -1.0, 1.0]), "gamma1": np.array([0.06, 2, 2, 2])}
    return share_off(gammas | {"beta0": np.zeros(4)}) == 0.25


def test_a_feature_is_off_if_its_gamma_is_small_in_size():
    assert is_counted(parts.share_off)
    assert not is_counted(twin(parts.share_off, "np.abs(np.concatenate(gammas))", "gammas[0]"))
    assert not is_counted(twin(parts.share_off, '"gamma"', '("gamma", "beta")'))


def tells_how_it_ended(outcome):
    """The loss of the last 20 batches alone, and the accuracy on digits not trained on."""
    params, _ = start()
    losses = np.array([9.0] * 380 + [1.0] * 20)
    found = outcome(DIGITS, losses, params)
    right = (parts.predict(params, DIGITS.x_train, DIGITS.x_test) == DIGITS.labels_test).mean()
    return found == {"loss": 1.0, "accuracy": right, "off": 0.0}


def test_a_run_is_judged_by_its_last_losses_and_by_the_test_digits():
    assert tells_how_it_ended(parts.outcome)
    assert not tells_how_it_ended(twin(parts.outcome, "[-20:]", "[-21:]"))
    wrong = twin(parts.outcome, "digits.x_train, digits.x_test", "digits.x_test, digits.x_test")
    assert not tells_how_it_ended(wrong)


def starts_uniform(off_from_uniform, seen):
    """γ is spread over (0, 1) at first; what is trained is the same net, in γ and β alone."""
    seen.clear()
    before, after = off_from_uniform(DIGITS, 0)
    ((params, mask, *_),) = seen
    gammas = [params[f"gamma{layer}"] for layer in range(4)]
    spread = (
        np.ptp(gammas) > 0.9
        and 0 < np.min(gammas) < np.max(gammas) < 1
        and (gammas[0] != gammas[1]).any()
    )
    masked = {name for name in params if mask[name].any()} == {*parts.affine(params)}
    return bool(before == after and 0.02 < before < 0.12 and spread and masked)


def test_the_other_start_spreads_gamma_over_the_unit_interval(seen):
    assert starts_uniform(parts.off_from_uniform, seen)
    for error in (
        ("uniform(0, 1, 64)", "uniform(0, 2, 64)"),
        ("uniform(0, 1, 64)", "uniform(0.5, 1, 64)"),
        ('PARTS["gamma and beta"]', 'PARTS["gamma"]'),
    ):
        wrong = twin(parts.off_from_uniform, *error)
        assert not starts_uniform(wrong, seen), error


# The trials.


@pytest.fixture
def by_part(monkeypatch):
    """An accuracy that says which part was trained, at what depth, and on which labels."""
    worth = {"gamma and beta": 0.5, "random weights": 0.3, "last layer": 0.1}

    def given(digits, part, depth, seed):
        known = (digits.labels_train == DIGITS.labels_train).all()
        return known * (worth.get(part, 0.6) + depth / 100)

    monkeypatch.setattr(parts, "accuracy", given)


def test_the_leads_and_the_gains_of_a_trial_are_those_of_its_accuracies(by_part):
    gains, found = parts.deeper(1), parts.against(1)
    assert np.allclose([gains["gain from 2 to 4"], gains["gain from 4 to 8"]], [0.02, 0.04])
    assert np.isclose(found["lead"], 0.2) and np.isclose(found["lead over 8 times as many"], -0.1)
    assert found["shuffled"] == 0 and np.isclose(found["last layer, gain from 4 to 8"], 0.04)
    wrong = twin(parts.against, '"random weights")', '"gamma and beta")')
    assert wrong(1)["lead"] == 0
    assert twin(parts.deeper, "(2, 4, 8)", "(2, 4, 4)")(1)["gain from 4 to 8"] == 0


def test_features_turned_off_are_counted_from_the_uniform_start(monkeypatch):
    monkeypatch.setattr(parts, "train", lambda params, mask, *_, rate: (np.zeros(20), params))
    found = parts.turned_off(1)
    assert 0.02 < found["before"] < 0.1 and found["rise"] == 0 == found["rise from ones"]


def has_two_in_every_unit(per_unit):
    params, _ = start()
    mask = per_unit(params, np.random.default_rng(3))
    ones = {name for name in params if mask[name].any()}
    return ones == {"w0", "w1"} and all((mask[name].sum(axis=0) == 2).all() for name in ones)


def test_random_weights_are_drawn_unit_by_unit():
    assert has_two_in_every_unit(parts.per_unit)
    assert not has_two_in_every_unit(twin(parts.per_unit, "mask[name].T", "mask[name]"))
    assert not has_two_in_every_unit(twin(parts.per_unit, "replace=False", "replace=True"))


def chooses_the_better_rate(monkeypatch, *error):
    """The rate of 0.1 has the lower loss, and the lower accuracy."""
    ended = {0.03: {"loss": 2.0, "accuracy": 0.9}, 0.1: {"loss": 1.0, "accuracy": 0.8}}
    monkeypatch.setattr(parts, "fit", lambda *given: given[-1:])
    monkeypatch.setattr(parts, "outcome", lambda _, rate: ended[rate])
    judged = twin(parts.at_best_rate, *error) if error else parts.at_best_rate
    return judged(DIGITS, parts.PARTS["beta"], 2, 0) == 0.8


def test_each_part_is_judged_at_the_rate_with_the_lower_training_loss(monkeypatch):
    assert chooses_the_better_rate(monkeypatch)
    assert not chooses_the_better_rate(monkeypatch, "min(found)", "max(found)")


def test_the_lead_over_weights_of_every_unit_is_the_mean_over_the_depths(monkeypatch):
    ours = parts.PARTS["gamma and beta"]
    given = lambda _, part, depth, seed: depth / 10 if part is ours else 0.1  # noqa: E731
    monkeypatch.setattr(parts, "at_best_rate", given)
    assert np.isclose(parts.against_units(1)["lead"], (0.2 + 0.4 + 0.8) / 3 - 0.1)
