"""The audit finds each planted defect and nothing else, and leaves the network as it was."""

import sys
from contextlib import nullcontext

import pytest
import torch
from project import ROOT, run
from torch import nn

from normlib import recipes
from normlib.audit import CHECKS, audit_norms


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


class Twice(nn.Module):  # two kinds of inputs through one norm
    def __init__(self):
        super().__init__()
        self.norm, self.last = nn.BatchNorm2d(3), nn.Linear(3, 4)

    def forward(self, x):
        return self.last((self.norm(x) + self.norm(5 + 3 * x)).mean((2, 3)))


def edit(change):
    """A trained network, once `change` has been done to it or to its first norm."""

    def made():
        net = trained()
        change(net, net[1])
        return net

    return made


def fill(name, value):
    return edit(lambda net, norm: getattr(norm, name).data[:3].fill_(value))


def forget(net, norm):
    for norm in recipes.norms_of(net).values():
        norm.reset_running_stats()


def plain(*first):
    return lambda: nn.Sequential(*first, nn.Flatten(), nn.Linear(108, 4))


def moved(scale, shift):
    return lambda: [(scale * x + shift, labels) for x, labels in batches()]


BIASED, FLAT = nn.Conv2d(3, 8, 3, padding=1), nn.Flatten()
nn.init.zeros_(BIASED.bias)
SICK = fill("running_var", float("inf"))
PLANTED = [  # what is found, the network, and its batches
    ("not finite", SICK, batches),
    ("not finite", fill("bias", float("nan")), batches),
    ("forgotten eval", edit(lambda net, norm: net.eval()[1].train()), batches),
    ("stale statistics", edit(forget), batches),
    ("few values", plain(FLAT, nn.BatchNorm1d(108)), lambda: batches(6, 4)),
    ("few values", plain(FLAT, nn.GroupNorm(54, 108)), batches),
    ("half frozen", edit(lambda net, norm: norm.requires_grad_(False)), batches),
    ("momentum", edit(lambda net, norm: setattr(norm, "momentum", 0.99)), batches),
    ("mixed calls", Twice, batches),
    ("lost digits", plain(nn.BatchNorm2d(3)), moved(1, 1e4)),
    ("lost digits", plain(nn.GroupNorm(1, 3)), moved(1, 1e4)),
    ("large epsilon", plain(nn.LayerNorm((3, 6, 6))), moved(1e-4, 0)),
    ("large epsilon", plain(LlamaRMSNorm(6)), moved(1e-4, 0)),
    ("dead gain", fill("weight", 0.0), batches),
    ("rounded averages", lambda: trained().bfloat16(), lambda: low(batches())),
    ("bias in front", edit(lambda net, norm: net.__setitem__(0, BIASED)), batches),
]


def low(given):
    return [(x.bfloat16(), labels) for x, labels in given]


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


def state(net):
    """All that must stay: values, gradients, modes, hooks, and the generator of random numbers."""
    tensors = [*net.parameters(), *net.buffers(), *(p.grad for p in net.parameters())]
    hooks = [(*m._forward_hooks, *m._forward_pre_hooks) for m in net.modules()]
    return tensors, [m.training for m in net.modules()], hooks, torch.get_rng_state()


class Fails(Residual):
    def forward(self, x):
        return {}[self.branch(x)]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("fails", [False, True])
def test_the_network_and_the_random_numbers_stay_as_they_are(training, fails):
    net = nn.Sequential(trained(), nn.Dropout(0.5)).train(training)
    net(batches()[0][0]).sum().backward()
    data = torch.utils.data.DataLoader(batches()[0][0], 8, shuffle=True)
    before = state(net)
    kept = [t.clone() for t in before[0]]
    with pytest.raises(ValueError, match="KeyError") if fails else nullcontext():
        audit_norms(Fails(net) if fails else net, data)
    tensors, *rest, generator = state(net)
    assert all(map(torch.equal, tensors, kept)) and rest == [*before[1:3]]
    assert torch.equal(generator, before[3])


BAD = [
    ("has none", lambda: nn.Linear(3, 4), batches),
    ("lazy", lambda: nn.Sequential(nn.LazyBatchNorm2d()), batches),
    ("nothing", images, list),
    ("int", images, lambda: 3),
    ("str", images, lambda: ["x"]),
    ("batch 0 raised RuntimeError", images, lambda: [torch.randn(2, 5, 6, 6)]),
    ("batch 0 raised TypeError", images, lambda: [{"pixels": torch.randn(2, 3, 6, 6)}]),
]


@pytest.mark.parametrize(("piece", "model", "loader"), BAD)
def test_bad_input_is_refused_with_what_must_be_what_it_got_and_a_fix(piece, model, loader):
    with pytest.raises(ValueError, match=r"(?s)^\w.* must .+, but .+; .+") as raised:
        audit_norms(model(), loader())
    assert piece in str(raised.value)


def test_every_finding_leads_to_a_section_of_the_book():
    for _, page, _ in CHECKS:
        name, label = page.split("#")
        assert f"({label})=" in (ROOT / "chapters" / f"{name}.ipynb").read_text(encoding="utf-8")


@pytest.mark.programs
@pytest.mark.parametrize(("name", "code"), [("trained", 0), ("sick", 1), ("gone", 2)])
def test_the_command_says_by_its_exit_code_what_was_found(name, code, tmp_path, monkeypatch):
    text = "import test_audit as t\ndef trained(): return t.trained(), t.batches()\n"
    text += "def sick(): return t.SICK(), t.batches()\n"
    (tmp_path / "mine.py").write_text(text, encoding="utf-8")
    paths = [str(tmp_path), str(ROOT / "tests" / "library"), str(ROOT / "tests")]
    monkeypatch.setenv("PYTHONPATH", ":".join([*paths, *sys.path]))
    done = run(sys.executable, "-m", "normlib.audit", f"mine:{name}")
    assert done.returncode == code, done.stdout + done.stderr
    assert ("not finite: " in done.stdout) == (code == 1) and bool(done.stderr) == (code == 2)
