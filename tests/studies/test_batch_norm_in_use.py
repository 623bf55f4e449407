"""What the chapter on batch norm in use does with a network is what it says."""

import copy

import pytest
import torch

from normbook.studies import batch_norm_in_use as use


@pytest.fixture(scope="module", params=[11, 12])
def given(request):
    return use.train_network(request.param)


def right(given, net, batches=use.ONE_BATCH):
    return use.accuracy(net, given.digits.x_test, given.digits.labels_test, batches)


def state(net):
    return [tensor.clone() for tensor in net.state_dict().values()]


def test_to_be_judged_leaves_a_net_as_it_was(given):
    net = copy.deepcopy(given.net).train()
    before = state(net)
    right(given, net)
    assert all(map(torch.equal, before, state(net)))


def test_a_folded_net_has_no_norms_and_answers_the_same(given):
    folded, x = use.fold(given.net), torch.tensor(given.digits.x_test)
    assert use.norms(given.net) and not use.norms(folded)
    assert (folded(x) - given.net(x)).abs().max() < 1e-12
    assert not {*folded.parameters()} & {*given.net.parameters()}  # to train it is safe


def test_a_step_of_the_weights_moves_the_folded_ones_by_the_stretch(given):
    rows, slopes = given.order[0], []
    net, folded = copy.deepcopy(given.net), use.fold(given.net)
    for model in (net, folded):
        slopes.append(torch.tensor(use.accumulate_gradient(model, given.digits, rows, parts=1)))
    norm = use.norms(net)[0]
    scale = (norm.weight / (norm.running_var + norm.eps).sqrt()).detach()[:, None]
    assert (scale * slopes[0] - scale**2 * slopes[1]).abs().max() < 1e-12
    first, second = use.stretch(net)
    assert abs(first - (scale**2).mean()) < 1e-12 and 5 < first < 7 and second > 1
