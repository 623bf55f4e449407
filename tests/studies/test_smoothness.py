"""The trials on smoothness see no effect where there is none, and match what they say."""

import numpy as np
import pytest
import torch

from normbook.lab import data, networks
from normbook.studies import landscape, smoothness

SPLIT = data.digits(np.random.default_rng(0), "raw")


def test_how_many_times_smaller_is_the_least_of_the_numbers_asked_for():
    one, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 8.0, 3.0, 1.0])
    assert smoothness.smaller(one, other, (0, 1)) == pytest.approx(np.log(2))
    assert smoothness.smaller(one, other, (0, 1, 3)) == pytest.approx(-np.log(4))


def test_without_batch_norm_on_either_side_there_is_no_effect(monkeypatch):
    monkeypatch.setattr(smoothness, "STEPS", 3)
    monkeypatch.setattr(smoothness, "BAND", (0, 100))
    found = smoothness.along_the_ray(0)
    assert abs(found["gradients, all"]) > 0.01
    monkeypatch.setattr(landscape, "NORMS", {"batch norm": networks.no_norm})
    found = smoothness.along_the_ray(0)
    same = [v for name, v in found.items() if "other" not in name]
    assert same == [0.0] * 8 and found["loss, other weights"] != 0


@pytest.mark.parametrize("norm", landscape.LP.values(), ids=list(landscape.LP))
def test_the_scale_of_the_outputs_is_matched(norm):
    params, *_ = landscape.digits_problem(SPLIT, norm, 0, 1)
    x = torch.tensor(SPLIT.x_train[:128])
    layers = networks.hidden(smoothness.match_scale(params, norm, x, networks.relu), x, norm)
    sizes = [layer.y.std(dim=0, correction=0).mean().item() for layer in layers]
    assert np.allclose(sizes, 1)


def test_quantiles_move_by_what_all_values_move():
    y = torch.tensor(np.random.default_rng(0).standard_normal((500, 3)))
    y = (y - y.mean(dim=0)) / y.std(dim=0, correction=0)
    assert smoothness.quantiles_moved([y, y + 0.3, y + 0.6]) == pytest.approx(0.3)
    assert smoothness.quantiles_moved([y, y.flip(0)]) == 0  # the same values, other samples


def test_a_race_against_itself_has_no_leader(monkeypatch):
    each = [2.0, 1.0, 5.0, 3.0, 4.0, float("nan"), float("inf")]
    ends = dict(zip(smoothness.GRID, each, strict=True))
    monkeypatch.setattr(landscape, "outcome", lambda split, norm, rate, seed: (ends[rate], 0))
    assert set(smoothness.race(0).values()) == {0.0}
    half = object()
    monkeypatch.setattr(landscape, "NORMS", {"batch norm": half})
    lower = {half: 0.5, networks.no_norm: 1.0}
    monkeypatch.setattr(landscape, "outcome", lambda s, norm, rate, seed: (rate * lower[norm], 0))
    assert smoothness.race(0)["best, centred"] == pytest.approx(np.log(2))
