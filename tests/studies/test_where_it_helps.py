"""The map: many nets at once are the nets one by one, and what it says cannot be edited."""

import json

import numpy as np
import pytest
import torch
import trials as tool
from torch.nn.functional import cross_entropy

from normbook.lab import deep, training
from normbook.studies import where_it_helps as where
from normbook.studies.where_it_helps import NORMS, Setting
from normlib import batch_norm_inference

SETTING = Setting("digits", "dense", 2, "centred", "sgd", "batch")


def test_a_net_in_a_stack_is_trained_as_it_is_alone():
    split = where.load(SETTING)
    with training.stretch(6):
        ends = where.train(SETTING, split, [0, 1], np.array([0.1, 0.2]))
        params = deep.tensors(where.weights(SETTING, split, 1))
        batches = training.batches(1437, where.SAMPLES, where.STEPS, np.random.default_rng([1, 1]))
        loss = deep.cross_entropy_loss(where.norm_of("batch"), split.x_train, split.labels_train)
        _, alone = training.train(params, deep.gradient(loss), batches, 0.2)
    assert np.isclose(loss(alone, slice(None)).item(), ends.loss[1], rtol=1e-12)
    assert not np.isclose(ends.loss[0], ends.loss[1], rtol=0.01)


def test_batch_norm_is_judged_with_the_statistics_of_the_training_data():
    rng = np.random.default_rng(0)
    z, gamma, beta = (torch.tensor(rng.standard_normal(size)) for size in ((9, 4), 4, 4))
    y, _ = where.norm_of("batch", known=6)(z, gamma, beta)
    mean, var = z[:6].mean(dim=0), z[:6].var(dim=0, correction=0)
    expected, _ = batch_norm_inference(z, mean, var, gamma, beta)
    assert torch.allclose(y, expected, rtol=1e-12)
    assert not torch.allclose(y, where.norm_of("batch")(z, gamma, beta)[0], rtol=0.01)


@pytest.mark.parametrize("kind, centred, divided", [("centring", 1, 0), ("dividing", 0, 1)])
def test_half_of_batch_norm_centres_or_divides(kind, centred, divided):
    z = torch.tensor(np.random.default_rng(0).standard_normal((50, 4)) * 3 + 2)
    y, _ = where.norm_of(kind)(z, torch.ones(4), torch.zeros(4))
    assert bool((y.mean(dim=0).abs() < 1e-9).all()) == bool(centred)
    assert bool(((y.std(dim=0, correction=0) - 1).abs() < 1e-3).all()) == bool(divided)


def test_the_largest_curvature_is_the_greatest_eigenvalue_of_the_whole_hessian(monkeypatch):
    monkeypatch.setitem(where.NETS, "dense", lambda params, x, norm: x[:, 18:22] @ params["w"])
    split, w = where.load(SETTING), torch.eye(10, dtype=torch.float64)[:4]
    x, labels = torch.tensor(split.x_train[:, 18:22]), torch.tensor(split.labels_train)
    whole = torch.autograd.functional.hessian(lambda w: cross_entropy(x @ w, labels), w)
    found = where.largest_curvature(SETTING, split, {"w": w}, times=300)
    assert np.isclose(found, torch.linalg.eigvalsh(whole.reshape(40, 40))[-1], rtol=1e-6)


def test_an_edited_map_is_refused(monkeypatch, tmp_path):
    stored = where.load_map()
    stored["found"]["cells"][0][1]["log loss"][0] -= 1
    (tmp_path / "MAP.json").write_text(json.dumps(stored), "utf-8")
    monkeypatch.setattr(where, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match="MAP: expected the numbers"):
        where.cells()


def test_every_cell_of_the_map_was_run_and_no_other():
    assert [*where.cells()] == where.settings()


def test_an_interrupted_map_goes_on_where_it_was_and_ends_with_the_same_bytes(tmp_path):
    settings = [SETTING._replace(norm=norm) for norm in NORMS]

    def measured(setting):
        return setting, {"rate": float(len(setting.norm))}

    def interrupted(setting):
        if setting.norm == "dividing":
            raise KeyboardInterrupt
        return measured(setting)

    with pytest.raises(KeyboardInterrupt):
        tool.run_map(None, settings, tmp_path / "twice", interrupted)
    assert len([*(tmp_path / "twice").iterdir()]) < len(settings)
    whole = tool.run_map(None, settings, tmp_path / "whole", measured)
    assert tool.run_map(None, settings, tmp_path / "twice", measured) == whole
