"""The networks of the page on evaluation are judged as they are, and left as they were."""

import copy

import numpy as np
import torch

from normbook.studies import evaluation_gap as evaluation
from normlib import recipes

TRAIN, _ = evaluation.digits()


def quick(**options):
    order = evaluation.order(0, steps=20)
    return evaluation.fit(evaluation.network(0, **options), TRAIN, order, rate=0.1)


def test_accuracies_and_new_statistics_leave_a_network_as_it_was():
    net = quick()
    before = copy.deepcopy(net.state_dict())
    evaluation.accuracy(net, TRAIN, by_batches=True)
    evaluation.reestimate(net, TRAIN[0])
    after = net.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_accumulated_parts_are_one_step_with_the_mean_gradient():
    net = evaluation.network(0).double()
    for module in evaluation.norms(net):
        module.eval()  # so that parts do not differ from the whole
    x, labels = TRAIN[0].double(), TRAIN[1]
    whole, parts = copy.deepcopy(net), copy.deepcopy(net)
    for made, count in ((whole, 1), (parts, 4)):
        made.train = lambda *_, made=made: made  # keep the norms as they are
        evaluation.fit(made, (x, labels), [np.arange(64)], parts=count)
    pairs = zip(whole.parameters(), parts.parameters(), strict=True)
    assert all(torch.allclose(one, other, atol=1e-12) for one, other in pairs)
    assert not torch.equal(whole[0].weight, net[0].weight)


def test_new_statistics_of_sorted_samples_are_those_of_all():
    """In sorted batches the variances within them are too small."""
    net = torch.nn.Sequential(torch.nn.BatchNorm1d(1).double())
    x = torch.arange(1024.0, dtype=torch.float64)[:, None]
    found = evaluation.reestimate(net, x)[0].running_var / x.var()
    of_sorted = recipes.reestimate(net, x.split(128))[0].running_var / x.var()
    assert abs(found - 1) < 0.05 and of_sorted < 0.05
