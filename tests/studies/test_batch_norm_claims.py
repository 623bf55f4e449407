"""The trials on batch norm see what they are about, and miss it once it is taken out."""

import numpy as np
from torch.nn import BatchNorm1d, ReLU, Tanh

from normbook.lab import data, networks, training
from normbook.studies import batch_norm_claims as trials

RNG = np.random.default_rng(5)
DIGITS = data.digits(np.random.default_rng(0), "raw")


def test_skewness_and_correlation_each_count_as_a_departure_from_a_gaussian():
    gaussian = RNG.standard_normal((2000, 6))
    correlated = gaussian @ (np.eye(6) + 0.5)
    skewed = RNG.exponential(size=(2000, 6))
    assert (
        trials.departure(gaussian) < 1 < min(trials.departure(correlated), trials.departure(skewed))
    )


def test_batch_norm_stands_before_the_activation_or_after_it():
    for activation in (ReLU, Tanh):
        for after in (False, True):
            kinds = [type(m) for m in trials.four_layers(activation, after=after, size=1)]
            assert (kinds.index(BatchNorm1d) > kinds.index(activation)) == after


def test_a_rate_is_chosen_by_the_training_loss(monkeypatch):
    """Rate 0.1 has the lower loss, and 0.3 more right answers: 0.1 is taken."""
    monkeypatch.setattr(trials, "measure_accuracy", lambda net, _: net)
    monkeypatch.setattr(training, "train_torch", lambda *_, rate: [rate] * 20)
    nets = iter([0.8, 0.9])
    assert trials.best_accuracy(1, (0.1, 0.3), lambda: next(nets)) == 0.8


def learns(pair, m):
    params = networks.dense((64, 32, 32, 10), np.random.default_rng(1))
    order = list(training.batches(1437, m, 400, np.random.default_rng(2)))
    return trials.accuracy_with(pair, DIGITS, params, order, 0.05) > 0.6


def test_a_single_sample_teaches_nothing_through_batch_norm_and_eight_do():
    assert learns(trials.BATCH_NORM, 8) and not learns(trials.BATCH_NORM, 1)
    assert learns(trials.PLAIN, 1)


def test_settings_near_the_best_are_counted_over_all_rates_and_sizes(monkeypatch):
    """Batch norm comes near its best at every rate, the plain net at one rate and one size."""

    def given(pair, digits, params, order, rate, frozen=()):
        assert len(frozen) in (0, 10)
        usual = rate == trials.RATES[4] and abs(params["w0"].std() - np.sqrt(2 / 64)) < 0.02
        return 0.9 if pair is trials.BATCH_NORM or usual else 0.1

    monkeypatch.setattr(trials, "accuracy_with", given)
    found = trials.robust(1)
    assert np.isclose(found["gained"], 26 / 27) and found["gained by scale and shift"] == 0
    assert trials.near_the_best([0.9, 0.85, 0.2, 0.1]) == 0.5
