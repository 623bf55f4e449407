"""The model of memory traffic counts what can be counted by hand."""

import numpy as np
import pytest
import torch
from twins import twin

from normlib.experiments import rms_norm as traffic

X, OUT = np.arange(1000.0), np.empty(1000)
UNIT = X.nbytes
BY_HAND = {  # what is read and written, in arrays of the size of x
    "sum of two": (lambda a, b: a + b, 3),
    "square": (lambda a, b: a * a, 2),
    "three operations": (lambda a, b: -((a + b) * 2), 7),
    "views": (lambda a, b: (a[::2], b.reshape(10, 100).T), 0),
    "in place": (lambda a, b: np.add(a, b, out=OUT), 3),
    "a number beside": (lambda a, b: 2 * a, 2),
}


def counted(name):
    return traffic.moved(BY_HAND[name][0], X, X + 1) / UNIT


@pytest.mark.parametrize("name", BY_HAND)
def test_each_distinct_operand_is_read_once_and_the_result_written_once(name):
    assert counted(name) == BY_HAND[name][1]


@pytest.mark.parametrize(
    ("name", "shipped", "changed"),
    [
        ("square", "{id(a): a.nbytes", "{object(): a.nbytes"),  # a repeated operand counted twice
        ("sum of two", "sum(distinct.values()) + result.nbytes", "result.nbytes"),
        ("three operations", "return result.view(Counted)", "return result"),  # only the first
    ],
)
def test_a_wrong_count_is_seen(name, shipped, changed, monkeypatch):
    monkeypatch.setattr(traffic, "Counted", twin(traffic.Counted, shipped, changed))
    assert counted(name) != BY_HAND[name][1]


def test_arrays_in_a_named_tuple_are_counted_and_every_call_starts_at_zero(monkeypatch):
    pair = np.linalg.slogdet(np.eye(2))._replace(sign=X, logabsdet=X + 1)
    twice = [traffic.moved(lambda p: p.sign + p.logabsdet, pair) for _ in range(2)]
    assert twice == [3 * UNIT] * 2
    running_on = twin(traffic.moved, "    Counted.tally = 0\n", "")
    assert running_on(lambda p: p.sign + p.logabsdet, pair) > 3 * UNIT


def by_torch():
    """Bytes and kernels of a sum, a square and a view."""
    a, b = (torch.zeros(1000, dtype=torch.float64) for _ in range(2))
    calls = (lambda: a + b, lambda: a * a, lambda: a.view(10, 100))
    return [traffic.moved_by_torch(call) for call in calls]


EXPECTED = [(3 * UNIT, 1), (2 * UNIT, 1), (0, 0)]


@pytest.mark.parametrize(
    ("shipped", "changed"),
    [
        ("if not function.is_view:", "if True:"),
        ("distinct = {id(a)", "distinct = {object()"),
        ("sum(distinct.values()) + ", ""),
    ],
)
def test_torchs_kernels_are_counted_the_same_way(shipped, changed, monkeypatch):
    assert by_torch() == EXPECTED
    monkeypatch.setattr(traffic, "Dispatched", twin(traffic.Dispatched, shipped, changed))
    assert by_torch() != EXPECTED


def test_a_number_that_is_only_spread_out_is_read_once(monkeypatch):
    spread = torch.ones(1).expand(1000)
    assert traffic.moved_by_torch(spread.sum) == (4 + 4, 1)
    spread_out = ("value.untyped_storage().nbytes()", "value.nbytes")
    monkeypatch.setattr(traffic, "bytes_of", twin(traffic.bytes_of, *spread_out))
    assert traffic.moved_by_torch(spread.sum) == (4000 + 4, 1)
