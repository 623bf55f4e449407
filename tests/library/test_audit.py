"""The audit finds each planted defect and nothing else, and leaves the network as it was."""

import copy
import re
import sys

import pytest
import torch
from project import ROOT, read_cells, run
from torch import nn
from torch.nn.utils import parametrizations

from normlib import audit, recipes
from normlib.audit import audit_norms


class LlamaRMSNorm(nn.Module):  # as others write it, with γ - 1
    def __init__(self, size):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.zeros(size)), 1e-6

    def forward(self, x):
        rstd = (x.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()
        return x * rstd * (1 + self.weight)


class Residual(nn.Module):
    def __init__(self, *branch):
        super().__init__()
        self.branch = nn.Sequential(*branch)

    def forward(self, x):
        return x + self.branch(x)


def conv(norm, inputs=8):
    return nn.Conv2d(inputs, 8, 3, padding=1, bias=False), norm, nn.ReLU()


def images(norm=nn.BatchNorm2d, size=8):
    blocks = [Residual(*conv(norm(size)), *conv(norm(size))[:2]) for _ in range(2)]
    head = nn.Flatten(2), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 4)
    return nn.Sequential(*conv(norm(size), 3), *blocks, *head)


def words():
    block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
    return nn.Sequential(nn.Embedding(9, 16), block, LlamaRMSNorm(16), nn.Linear(16, 9))


def batches(count=6, size=16):
    torch.manual_seed(1)
    return [(torch.randn(size, 3, 6, 6), torch.randint(4, (size,))) for _ in range(count)]


def trained():
    """A network whose statistics fit and whose gains have moved."""
    net = images()
    for norm in recipes.norms_of(net).values():
        nn.init.uniform_(norm.weight, 0.5, 1.5)
    return recipes.reestimate(net, batches()).train()


def tokens():
    torch.manual_seed(1)
    return [(x := torch.randint(9, (8, 5)), x[:, 0] * 0) for _ in range(3)]


def edit(change):
    def made():
        net = trained()
        return change(net) or net

    return made


def norm_of(net):
    return net[1]


def with_data(change):
    return [(change(x), labels) for x, labels in batches()]


def poison(net):
    norm_of(net).running_var[0] = float("inf")


def mix_modes(net):
    net.eval()[1].train()


def forget(net):
    for norm in recipes.norms_of(net).values():
        norm.reset_running_stats()


class Twice(nn.Module):  # two kinds of inputs through one norm
    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.BatchNorm2d(3), nn.Linear(3, 4)

    def forward(self, x):
        return self.last((self.norm(x) + self.norm(5 + 3 * x)).mean((2, 3)))


def add_bias(net):
    net[0] = nn.Conv2d(3, 8, 3, padding=1)
    nn.init.zeros_(net[0].bias)


def half(net):
    return net[1].requires_grad_(False) and None


def halve(net):
    for name in ("running_mean", "running_var"):
        setattr(net[1], name, getattr(net[1], name).bfloat16())


def fill(name, value):
    def change(net):
        getattr(norm_of(net), name).data[:3] = value

    return change


def keras(net):
    net[1].momentum = 0.99


def small_inputs(x):
    return 1e-4 * x


def plain(first):
    return nn.Sequential(first, nn.Flatten(), nn.Linear(108, 4))


# What is found, the network, and its batches.
PLANTED = [
    ("not finite", edit(poison), batches),
    ("not finite", edit(fill("bias", float("nan"))), batches),
    ("forgotten eval", edit(mix_modes), batches),
    ("stale statistics", edit(forget), batches),
    ("few values", lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(108)), lambda: batches(6, 4)),
    ("few values", lambda: nn.Sequential(nn.Flatten(), nn.GroupNorm(54, 108)), batches),
    ("half frozen", edit(half), batches),
    ("momentum", edit(keras), batches),
    ("mixed calls", Twice, batches),
    ("lost digits", lambda: plain(nn.BatchNorm2d(3)), lambda: with_data(lambda x: x + 1e4)),
    ("lost digits", lambda: plain(nn.GroupNorm(1, 3)), lambda: with_data(lambda x: x + 1e4)),
    ("large epsilon", lambda: plain(nn.LayerNorm((3, 6, 6))), lambda: with_data(small_inputs)),
    ("large epsilon", lambda: plain(LlamaRMSNorm(6)), lambda: with_data(small_inputs)),
    ("dead gain", edit(fill("weight", 0.0)), batches),
    ("bias in front", edit(add_bias), batches),
]


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@pytest.mark.parametrize(("name", "model", "loader"), PLANTED)
def test_a_planted_defect_is_found_by_its_name_and_nothing_else_is(name, model, loader):
    found = audit_norms(model(), loader())
    assert [finding.name for finding in found.findings] == [name], str(found)
    assert f"{name}: " in str(found) and found.findings[0].page in str(found).replace(".html", "")


def test_an_optimizer_that_decays_gains_or_lacks_them_is_found():
    net = trained()
    named = {"decay": net.parameters(), "not optimized": net[0].parameters()}
    named[""] = recipes.param_groups(net, weight_decay=0.1)
    for name, given in named.items():
        found = audit_norms(net, batches(), optimizer=torch.optim.AdamW(given))
        assert [f.name for f in found.findings] == [name] * bool(name)


def net_of_groups(size):
    return nn.GroupNorm(2, size)


FRESH = [(images, batches), (words, tokens), (lambda: images(net_of_groups), batches)]
FRESH += [(trained, batches), (lambda: recipes.freeze(trained()), batches)]


@pytest.mark.parametrize(("model", "loader"), FRESH)
@pytest.mark.parametrize("training", [True, False])
def test_a_sound_network_raises_no_alarm(model, loader, training):
    found = audit_norms(model().train(training), loader())
    assert not found.findings and "no findings" in str(found), str(found)
    assert all(norm.values for norm in found.norms)
