"""Batch normalization over processes is batch normalization, however the batch is cut."""

import numpy as np
import pytest
import torch
import workers
from cases import batch_norm_args

from normbook.lab import data, training
from normbook.studies import distributed_batch_norm as over
from normlib import distributed, evidence, layers, verify
from normlib.distributed import batch, launch
from normlib.evidence import distributed as parts

pytestmark = pytest.mark.programs

ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24}
ONES = torch.ones(3)


@pytest.mark.parametrize("processes", over.CASES)
def test_forward_and_backward_are_those_of_one_process(processes):
    """To 1e-12 in float64; in float32, at a mean of 1e4, to 16 roundings of the largest term."""
    cases = over.CASES[processes]
    errors = over.worst(launch(over.compare_cases, processes, cases))  # one start for all of them
    assert len(errors) == len(cases) and {*errors[0]} == {"y", "dx", "dgamma", "dbeta"}
    for case, by_name in zip(cases, errors, strict=True):
        bound = 1e-12 if case.dtype == "float64" else 16 * ROUNDOFF[case.dtype]
        assert max(by_name.values()) <= bound, (case, by_name)


def test_a_mean_far_from_zero_keeps_its_digits():
    """The mean of float32 numbers near 1e4, in units of their deviation."""
    x = (1e4 + torch.randn(1000, 3, generator=torch.Generator().manual_seed(0))).float()
    exact = x.double().mean(0)
    error = (batch.moments(x).mean - exact).abs().max() / x.double().std(0).max()
    assert error < 10 * ROUNDOFF["float32"]


def test_the_module_is_torchs_in_training_and_evaluation():
    by_form = [found for ranks in launch(workers.modules, 4) for found in ranks]
    assert len(by_form) == 8  # four workers, matrices and images
    for differences, state in by_form:
        assert max(differences) < 1e-12 and len(differences) == 10
        assert all(ours == theirs for ours, theirs in state) and len(state) == 5


def test_a_group_normalizes_by_itself():
    assert max(launch(workers.in_pairs, 4)) < 1e-12


def test_a_batch_that_has_no_variance_is_refused_on_all_workers_and_nothing_is_stored():
    for (empty, same), (single, too) in launch(workers.empty_everywhere, 2):
        assert "empty on all" in empty and "at least 2 values" in single and same and too


# Witnesses, with all workers in one process.


SHIPPED = parts.over_parts, parts.over_parts_backward


def judge(witness, shape, plants=()):
    """What the witnesses say that need no algebra."""
    known = evidence.batch_norm() | {"shapes": (), "derivation": None, "plants": plants}
    args = batch_norm_args(shape, np.random.default_rng(0))
    return witness(*SHIPPED, args, rng=np.random.default_rng(1), **known)


def test_the_witnesses_confirm_images_too():
    """Matrices, and the witnesses on symbols, are on the page."""
    not_run = judge(verify.backward, (5, 2, 2, 1)).not_run
    assert {name for name, _ in not_run} == {"exact", "general size"}


def test_each_planted_error_is_caught_by_a_witness():
    table = judge(verify.falsify, (7, 3), parts.PLANTS)
    assert len(table.errors) == len(parts.PLANTS) + 4 == 12 and not table.without_effect
    assert table.caught.any(axis=1).all()


# What is sent.


@pytest.mark.parametrize("channels", [3, 256])
def test_what_is_sent_depends_on_the_channels_alone(channels):
    for rows in (2, 50):
        for sent in launch(over.exchanges, 2, channels, rows):
            assert sent == {
                "batch norm, forward": [("allgather", 2 * channels + 1)],
                "batch norm, backward": [("allreduce", 2 * channels)],
                "layer norm, forward": [],
                "layer norm, backward": [],
            }


def test_torchs_own_layer_refuses_a_cpu():
    assert all("expected input tensor to be on" in said for said in launch(over.torchs_own, 2))


# Training.

STEPS = 12
SPLIT = data.digits(np.random.default_rng(0), "raw")
DIGITS = SPLIT.x_train, SPLIT.labels_train


@pytest.fixture(scope="module")
def alone():
    """The losses of one process, with PyTorch's own layer, and the net."""
    net = over.network(merged=False)
    return np.array(training.train_torch(net, *DIGITS, over.order(STEPS), rate=over.RATE)), net


def gap(runs, alone):
    return np.abs(np.array(runs[0].losses) / alone[0] - 1).max()


def test_four_workers_learn_as_one_does(alone):
    runs = launch(over.learn, 4, DIGITS, (30, 1, 0, 33), STEPS)
    assert len(runs[0].losses) == STEPS and gap(runs, alone) < 1e-9
    for run in runs:
        assert np.allclose(run.variances, alone[1][1].running_var.numpy(), rtol=1e-9)


def test_torchs_own_wrapper_treats_the_layer_as_any_other(alone):
    assert gap(launch(over.by_torch, 2, DIGITS, (44, 20), STEPS), alone) < 1e-9


# Bad input.

X, PAIR, norm = torch.ones(4, 3), (ONES, ONES), distributed.batch_norm
REFUSED = {  # a call, and a part of its message
    "no tensor": (lambda: norm(np.ones((4, 3)), *PAIR), "x must be a torch tensor"),
    "integers": (lambda: norm(X.long(), *PAIR), "of float32 or all of float64"),
    "two types": (lambda: norm(X, ONES.double(), ONES), "gamma is of torch.float64"),
    "halves": (lambda: norm(X.half(), *(a.half() for a in PAIR)), "try x.float()"),
    "one axis": (lambda: norm(X[:, 0], *PAIR), "must have the shape"),
    "too few": (lambda: norm(X[:, :2], *PAIR), "gamma must have the shape"),
    "no group": (lambda: norm(X, *PAIR), "has not been initialized"),
    "eps": (lambda: norm(X, *PAIR, eps=-1), "eps must lie"),
    "eps of a module": (lambda: distributed.BatchNorm(3, eps=-1), "eps must lie"),
    "a foreign cache": (
        lambda: distributed.batch_norm_backward(X, layers.batch_norm(X, *PAIR)[1]),
        "cache must be"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_before_anything_is_sent(case):
    call, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        call()
