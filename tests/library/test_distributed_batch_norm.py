"""Batch normalization over processes is batch normalization, however the batch is cut."""

import numpy as np
import pytest
import torch
import workers
from cases import batch_norm_args

from normbook.lab import data, training
from normbook.studies import distributed_batch_norm as over
from normlib import distributed, evidence, layers, verify
from normlib.distributed import launch
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


def test_the_witnesses_confirm_images_too():
    """Matrices, the planted errors, and the witnesses on symbols are on the page."""
    known = evidence.batch_norm() | {"shapes": (), "derivation": None, "plants": ()}
    args = batch_norm_args((5, 2, 2, 1), np.random.default_rng(0))
    not_run = verify.backward(*SHIPPED, args, rng=np.random.default_rng(1), **known).not_run
    assert {name for name, _ in not_run} == {"exact", "general size"}


def test_torchs_own_wrapper_treats_the_layer_as_any_other():
    """The losses of two processes are those of one with PyTorch's own layer."""
    split, steps = data.digits(np.random.default_rng(0), "raw"), 12
    digits, net = (split.x_train, split.labels_train), over.network(merged=False)
    alone = training.train_torch(net, *digits, over.order(steps), rate=over.RATE)
    runs = launch(over.by_torch, 2, digits, (44, 20), steps)
    assert np.abs(np.array(runs[0].losses) / alone - 1).max() < 1e-9


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
