"""The audit finds each planted defect and nothing else, and leaves the network as it was."""

import sys
from contextlib import nullcontext

import pytest
import torch
from project import ROOT, run
from torch import nn
from torch.utils.data import DataLoader

from normlib import recipes
from normlib.audit import CHECKS, audit_norms


class LlamaRMSNorm(nn.Module):  # as others write it, with γ - 1
    def __init__(self, size):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.zeros(size)), 1e-6

    def forward(self, x):
        rstd = (x.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()
        return x * rstd * (1 + self.weight)


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Twice(nn.Sequential):  # two kinds of inputs through one norm
    def forward(self, x):
        return self[1]((self[0](x) + self[0](5 + 3 * x)).mean((2, 3)))


class Fails(nn.Sequential):
    def forward(self, x):
        return {}[super().forward(x)]


def conv(norm, inputs=8):
    return nn.Conv2d(inputs, 8, 3, padding=1, bias=False), norm(8), nn.ReLU()


def images(norm=nn.BatchNorm2d):
    blocks = [Residual(*conv(norm), *conv(norm)[:2]) for _ in range(2)]
    head = nn.Flatten(2), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 4)
    return nn.Sequential(*conv(norm, 3), *blocks, *head)


def words():
    block = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
    return nn.Sequential(nn.Embedding(9, 16), block, LlamaRMSNorm(16), nn.Linear(16, 9))


def batches(size=16, scale=1.0, shift=0.0, dtype=torch.float32):
    torch.manual_seed(1)
    xs = torch.randn(6, size, 3, 6, 6) * scale + shift
    return [(x.to(dtype), torch.randint(4, (size,))) for x in xs]


def edit(change=lambda net: net):
    """A maker of a network whose statistics fit and whose gains have moved; then it is changed."""

    def made():
        net = images()
        for norm in recipes.norms_of(net).values():
            nn.init.uniform_(norm.weight, 0.5, 1.5)
        change(net := recipes.reestimate(net, batches()).train())
        return net

    return made


def fill(name, value):
    return edit(lambda net: getattr(net[1], name).data[:3].fill_(value))


def plain(*first):
    return lambda: nn.Sequential(*first, nn.Flatten(), nn.Linear(108, 4))


def given(**options):
    return lambda: batches(**options)


trained, SICK, FLAT = edit(), fill("running_var", float("inf")), nn.Flatten()
nn.init.zeros_((biased := nn.Conv2d(3, 8, 3, padding=1)).bias)
PLANTED = [  # what is found, the network, and its batches
    ("not finite", SICK, batches),
    ("not finite", fill("bias", float("nan")), batches),
    ("forgotten eval", edit(lambda net: net.eval()[1].train()), batches),
    ("stale statistics", edit(lambda net: net[1].reset_running_stats()), batches),
    ("few values", plain(FLAT, nn.BatchNorm1d(108)), given(size=4)),
    ("few values", plain(FLAT, nn.GroupNorm(54, 108)), batches),
    ("half frozen", edit(lambda net: net[1].requires_grad_(False)), batches),
    ("momentum", edit(lambda net: setattr(net[1], "momentum", 0.99)), batches),
    ("mixed calls", lambda: Twice(nn.BatchNorm2d(3), nn.Linear(3, 4)), batches),
    ("lost digits", plain(nn.BatchNorm2d(3)), given(shift=1e4)),
    ("lost digits", plain(nn.GroupNorm(1, 3)), given(shift=1e4)),
    ("large epsilon", plain(nn.LayerNorm((3, 6, 6))), given(scale=1e-4)),
    ("large epsilon", plain(LlamaRMSNorm(6)), given(scale=1e-4)),
    ("dead gain", fill("weight", 0.0), batches),
    ("rounded averages", edit(nn.Module.bfloat16), given(dtype=torch.bfloat16)),
    ("bias in front", edit(lambda net: net.__setitem__(0, biased)), batches),
]
SOUND = [images, words, trained, edit(recipes.freeze)]
SOUND += [lambda: images(lambda size: nn.GroupNorm(2, size))]


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
    given = {"decay": [*net.parameters()], "not optimized": [net[0].weight]}
    for name, held in (given | {"": recipes.param_groups(net, weight_decay=0.1)}).items():
        found = audit_norms(net, batches(), optimizer=torch.optim.AdamW(held))
        assert [finding.name for finding in found.findings] == [name] * bool(name)


@pytest.mark.parametrize("model", SOUND)
@pytest.mark.parametrize("training", [True, False])
def test_a_sound_network_raises_no_alarm(model, training):
    tokens = [torch.arange(40).reshape(8, 5) % 9]
    found = audit_norms(model().train(training), tokens if model is words else batches())
    assert not found.findings and "no findings" in str(found), str(found)
    assert all(norm.values for norm in found.norms)


def state(net):
    """All that must stay: tensors and the generator of random numbers, then modes and hooks."""
    tensors = *net.state_dict().values(), *(p.grad for p in net.parameters()), torch.get_rng_state()
    kept = [(m.training, *m._forward_hooks, *m._forward_pre_hooks) for m in net.modules()]
    return [t.clone() for t in tensors], kept


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", [Fails, nn.Sequential])
def test_the_network_and_the_random_numbers_stay_as_they_are(kind, training):
    net, data = kind(trained(), nn.Dropout(0.5)).train(training), batches()[0][0]
    nn.Sequential.forward(net, data).sum().backward()
    before = state(net)
    with pytest.raises(ValueError, match="KeyError") if kind is Fails else nullcontext():
        audit_norms(net, DataLoader(data, 8, shuffle=True))
    tensors, kept = state(net)
    assert all(map(torch.equal, tensors, before[0])) and kept == before[1]


X = torch.randn(2, 5, 6, 6)
BAD = [("has none", nn.ReLU(), [X]), ("lazy", nn.Sequential(nn.LazyBatchNorm2d()), [X])]
BAD += [("nothing", images(), []), ("int", images(), 3), ("str", images(), ["x"])]
BAD += [("0 raised Runtime", images(), [X]), ("0 raised TypeError", images(), [{"pixels": X}])]


@pytest.mark.parametrize(("piece", "model", "loader"), BAD)
def test_bad_input_is_refused_with_what_must_be_what_it_got_and_a_fix(piece, model, loader):
    with pytest.raises(ValueError, match=r"(?s)^\w.* must .+, but .+; .+") as raised:
        audit_norms(model, loader)
    assert piece in str(raised.value)


def test_every_finding_is_planted_and_leads_to_a_section_of_the_book():
    assert {name for name, *_ in CHECKS} == {n for n, *_ in PLANTED} | {"decay", "not optimized"}
    for name, label in (page.split("#") for _, page, _ in CHECKS):
        assert f"({label})=" in (ROOT / "chapters" / f"{name}.ipynb").read_text(encoding="utf-8")


@pytest.mark.programs
@pytest.mark.parametrize(("name", "code"), [("trained", 0), ("SICK", 1), ("gone", 2)])
def test_the_command_says_by_its_exit_code_what_was_found(name, code, tmp_path, monkeypatch):
    text = f"import test_audit as t\ndef made(): return t.{name}(), t.batches()\n"
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", ":".join([str(tmp_path), *sys.path]))
    done = run(sys.executable, "-m", "normlib.audit", "mine:made")
    assert done.returncode == code, done.stdout + done.stderr
    assert ("not finite: " in done.stdout) == (code == 1) and bool(done.stderr) == (code == 2)
