"""Each recipe does what its docstring says, and its usual wrong variant is told from it."""

import copy
import io

import pytest
import torch
from project import ROOT, read_cells
from test_structure import list_imports
from torch import nn
from torch.nn.utils import parametrizations

from normbook.show import entry
from normlib import recipes

FOLDS = [  # layers with 6 outputs, norms, and shapes of inputs
    (nn.Linear(4, 6), nn.BatchNorm1d(6), (5, 4)),
    (nn.Linear(4, 6, bias=False), nn.BatchNorm1d(6, affine=False), (5, 4)),
    (nn.Conv2d(4, 6, 3, groups=2, padding=1), nn.BatchNorm2d(6), (2, 4, 5, 6)),
    (nn.Conv3d(4, 6, 2), nn.BatchNorm3d(6, bias=False), (2, 4, 3, 4, 3)),
    (nn.ConvTranspose2d(4, 6, 3, groups=2), nn.BatchNorm2d(6), (2, 4, 5, 3)),
    (nn.ConvTranspose3d(6, 6, 2, groups=6), nn.BatchNorm3d(6), (2, 6, 3, 2, 2)),
]


def close(a, b, tolerance=1e-10):
    return a.shape == b.shape and torch.allclose(a, b, rtol=tolerance, atol=tolerance)


def trained(norm):
    """A copy in float64 and evaluation mode, with numbers as after training."""
    norm = copy.deepcopy(norm).double().eval()
    for t in (t for t in norm.state_dict(keep_vars=True).values() if t.is_floating_point()):
        t.data = torch.rand_like(t) + 0.5
    return norm


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def numbers(*shape):
    return torch.randn(shape, dtype=torch.float64)


def split(net, **options):
    """The names of the parameters that decay, and of those that do not, each as often as held."""
    names = {p: name for name, p in net.named_parameters()}
    decayed, spared = recipes.param_groups(net, weight_decay=0.1, **options)
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.1, 0)
    return [[names[p] for p in group["params"]] for group in (decayed, spared)]


def test_weights_decay_once_and_gains_do_not_nor_those_of_a_class_that_is_named():
    odd, long = nn.MultiheadAttention(4, 1), parametrizations.weight_norm(nn.Linear(4, 1))
    net = nn.Sequential(nn.Embedding(7, 4), nn.LayerNorm((3, 4)), odd, nn.Linear(4, 7), long)
    net[3].weight = net[0].weight
    weights, spared = split(net, norms=[type(odd)])
    named = dict(net.named_parameters())
    wanted = ["0.weight", "2.out_proj.weight", "4.parametrizations.weight.original1"]
    assert weights == wanted and sorted(weights + spared) == sorted(named)
    by_axes = {name for name, p in named.items() if p.ndim > 1}  # a common rule
    assert {"1.weight", "1.bias", "2.in_proj_weight"} < by_axes - {*weights}


class Gain(nn.Module):
    """What scales each channel, in a class that PyTorch does not know."""

    def __init__(self, name, *shape):
        super().__init__()
        self.register_parameter(name, nn.Parameter(torch.ones(shape)))


@pytest.mark.parametrize(
    ("name", "shape"),
    [("weight", [6]), ("layer_scale", [6, 1, 1]), ("gamma", [1, 6, 1, 1]), ("logit_scale", [])],
)
def test_a_gain_in_a_class_of_somebody_else_does_not_decay(name, shape):
    assert split(Gain(name, *shape)) == [[], [name]]


@pytest.mark.parametrize(
    "layer", [nn.Linear(4, 3), nn.Linear(4, 1), nn.Linear(1, 4), nn.Conv2d(4, 3, 1)]
)
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_the_lengths_of_weight_normalization_do_not_decay_but_its_directions_do(layer):
    old, new = nn.utils.weight_norm, nn.utils.parametrizations.weight_norm
    directions = ["weight_v"], ["parametrizations.weight.original1"]
    for normed, direction in zip((old, new), directions, strict=True):
        decayed, spared = split(normed(copy.deepcopy(layer)))
        assert decayed == direction and len(spared) == 2


@pytest.mark.parametrize(
    "layer",
    [nn.Linear(1, 6), nn.Linear(6, 1), nn.Conv2d(6, 1, 1), nn.Embedding(1, 6), nn.LSTM(1, 6)],
)
def test_a_layer_with_one_input_or_one_output_decays_like_any_other(layer):
    decayed, spared = split(layer)
    assert decayed == [name for name in dict(layer.named_parameters()) if "weight" in name]
    assert all("bias" in name for name in spared)


def test_a_frozen_norm_stays_frozen_through_train_in_a_copy_and_in_a_file():
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))
    wrong = copy.deepcopy(net)
    wrong[1].eval().requires_grad_(False)  # train() undoes the half of it
    torch.save(recipes.freeze(net), file := io.BytesIO())
    loaded = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    for each in (net, copy.deepcopy(net), loaded, wrong):
        each.train()(torch.randn(8, 4) + 3)
        assert bool(each[1].running_mean.any()) == (each is wrong)
        assert each[1].train() is each[1] and not each[1].weight.requires_grad
        assert each[0].training and each[0].weight.requires_grad


def test_statistics_are_those_of_all_values_whatever_the_sizes_of_the_batches():
    norms = nn.BatchNorm1d(3, momentum=0.2), nn.BatchNorm1d(3)
    net = nn.Sequential(norms[0], nn.Dropout(0.9), norms[1]).double()
    x = numbers(66, 3) * torch.arange(1, 67)[:, None]  # the last ones are the largest
    *_, s2 = batches = x.split(64)
    theirs = copy.deepcopy(net)  # dropout on, and each batch counts the same
    torch.optim.swa_utils.update_bn(batches, theirs)
    norms[0].running_var[0] = float("nan")
    first, _, second = found = recipes.reestimate(net, [(b, "label") for b in batches])
    assert close(first.running_mean, x.mean(0)) and first.momentum == 0.2
    assert close(first.running_var, (64 * batches[0].var(0) + 2 * s2.var(0)) / 66)
    assert (second.running_var < 1.1).all() and not second._forward_pre_hooks
    assert not found.training and not first.training and norms[0].running_var[0].isnan()
    assert not close(theirs[0].running_mean, x.mean(0), 0.1)
    assert (theirs[2].running_var > 2).any()
    half = nn.Sequential(recipes.freeze(trained(norms[1])), norms[0])
    assert close(recipes.reestimate(half, batches)[0].running_mean, half[0].running_mean)


def test_padding_leaves_no_trace_behind_a_mask():
    x, mask = numbers(4, 6, 5) + 1, (torch.arange(9) < 5).expand(4, 9)
    norm, padded = nn.BatchNorm1d(6).double(), nn.functional.pad(x, (0, 4))
    y = recipes.masked_batch_norm(norm, padded, mask)
    assert close(y[..., :5], norm(x)) and (y[..., 5:] == 0).all()
    assert not close(norm(padded)[..., :5], norm(x), 0.1)  # without it
    assert close(recipes.masked_batch_norm(norm.eval(), padded, mask)[..., :5], norm(x))


@pytest.mark.parametrize(("layer", "norm", "shape"), FOLDS)
def test_a_folded_layer_does_what_both_did(layer, norm, shape):
    layer, norm, x = copy.deepcopy(layer).double(), trained(norm), numbers(*shape)
    before, wanted, folded = layer.weight.clone(), norm(layer(x)), recipes.fold(layer, norm)
    assert close(folded(x), wanted) and torch.equal(layer.weight, before)
    folded.bias.data += norm.running_mean * norm.running_var.rsqrt()  # the mean is forgotten
    assert not close(folded(x), wanted, 0.01)


@pytest.mark.parametrize("norm", [nn.LayerNorm(6), nn.RMSNorm(6), nn.LayerNorm(6, bias=False)])
def test_readers_take_over_the_gain_and_the_shift(norm):
    norm, x = trained(norm), numbers(5, 6)
    readers = nn.Linear(6, 6).double(), nn.Linear(6, 3, bias=False).double()
    bare, *folded = recipes.fold_gain(norm, *readers)
    assert not [*bare.parameters()]
    for new, old in zip(folded, readers, strict=True):
        assert close(new(bare(x)), old(norm(x)))
    folded[0].weight.data = readers[0].weight.data * norm.weight.data[:, None]  # rows, not columns
    assert not close(folded[0](bare(x)), readers[0](norm(x)), 0.1)


def test_on_a_centred_stream_the_rms_norm_does_what_the_layer_norm_did_and_on_no_other():
    writers = nn.Embedding(9, 6).double(), nn.Linear(4, 6).double()
    norm, words, h = trained(nn.LayerNorm(6, bias=False)), torch.arange(5), numbers(5, 4)
    new, wanted = recipes.to_rms_norm(norm), norm(writers[0](words) + writers[1](h))
    embedding, linear = map(recipes.center, writers)
    assert close(new(embedding(words) + linear(h)), wanted)
    assert not close(new(writers[0](words) + linear(h)), wanted, 0.1)  # one is left
    linear.weight.data = writers[1].weight - writers[1].weight.mean(1, keepdim=True)  # of inputs
    assert not close(new(embedding(words) + linear(h)), wanted, 0.1)


def test_group_norm_takes_the_place_gamma_and_beta_of_each_batch_norm():
    norm, x = trained(nn.BatchNorm2d(6)), numbers(2, 6, 4, 4)
    net = nn.ModuleDict({"a": nn.Sequential(nn.ReLU(), norm), "b": norm})
    new = recipes.to_group_norm(net, 3)
    assert isinstance(net["b"], nn.BatchNorm2d) and new["a"][1] is new["b"]  # shared as before
    wanted = nn.functional.group_norm(x, 3, norm.weight, norm.bias, norm.eps)
    assert close(new["b"](x), wanted) and close(recipes.to_group_norm(norm, 3)(x), wanted)
    assert not close(nn.GroupNorm(3, 6).double()(x), wanted, 0.1)  # γ and β are left behind


def test_merged_statistics_are_those_of_all_values_and_a_mean_of_variances_is_not():
    sets = [numbers(n, 3) + 2 * n for n in (2, 5, 9)]
    means, variances = [x.mean(0) for x in sets], [x.var(0, correction=0) for x in sets]
    mean, var = recipes.merge_statistics(means, variances, [2, 5, 9])
    assert close(mean, torch.cat(sets).mean(0))
    assert close(var, torch.cat(sets).var(0, correction=0))
    assert (var > 3 * sum(n * v / 16 for n, v in zip((2, 5, 9), variances, strict=True))).all()


OURS = {"running_mean": 3.0, "running_var": 8.0, "eps": 1e-5, "weight": 2.0, "momentum": 0.25}
KERAS = {"moving_mean": 3.0, "moving_variance": 6.0, "epsilon": 1e-5, "gamma": 2.0}
FLAX = {"mean": 3.0, "var": 6.0, "epsilon": 1e-5, "scale": 2.0}


@pytest.mark.parametrize(("name", "theirs"), [("keras", KERAS), ("flax", FLAX)])
def test_parameters_go_to_another_framework_and_back(name, theirs):
    theirs = theirs | {"momentum": 0.75}
    assert recipes.convert_batch_norm(OURS, "pytorch", name, count=4) == theirs
    assert recipes.convert_batch_norm(theirs, name, "pytorch", count=4) == OURS
    assert recipes.convert_batch_norm(KERAS, "keras", "flax", count=4) == FLAX
    kept = recipes.convert_batch_norm(OURS, "pytorch", name)
    assert 8.0 in kept.values() and kept["momentum"] == 0.75 != OURS["momentum"]


NORM, LINEAR, BARE = nn.BatchNorm1d(6), nn.Linear(4, 6), nn.BatchNorm1d(6, track_running_stats=0)
PLAIN, WRONG = nn.LayerNorm(6, bias=False), ({"mean": 0, "var": 1}, FLAX | {"gamma": 1})
X, MASK, ONE = torch.randn(4, 6, 5), torch.ones(4, 5, dtype=bool), torch.ones(6)
BAD = [  # a piece of the message, a recipe, and its arguments
    ("negative", lambda: recipes.param_groups(LINEAR, weight_decay=-1)),
    ("none", lambda: recipes.param_groups(nn.ReLU(), weight_decay=0.1)),
    ("Conv2d", lambda: recipes.param_groups(LINEAR, weight_decay=0.1, norms=[nn.Conv2d])),
    ("one without", recipes.freeze, BARE),
    ("empty", recipes.reestimate, nn.Sequential(LINEAR, NORM), []),
    ("drop_last", recipes.reestimate, nn.Sequential(LINEAR, NORM), [X[:1, 0, :4]]),
    ("dict", recipes.reestimate, NORM, [{"x": X}]),
    ("transpose", recipes.masked_batch_norm, NORM, X.transpose(1, 2), MASK),
    ("int64", recipes.masked_batch_norm, NORM, X, MASK.long()),
    ("~mask", recipes.masked_batch_norm, NORM, X, ~MASK),
    ("Parametrized", recipes.fold, parametrizations.weight_norm(nn.Linear(4, 6)), NORM),
    ("LayerNorm", recipes.fold, LINEAR, PLAIN),
    ("training mode", recipes.fold, LINEAR, NORM),
    ("channels", recipes.fold, nn.Linear(4, 3), nn.BatchNorm1d(6).eval()),
    ("BatchNorm1d", recipes.fold_gain, NORM, LINEAR),
    ("readers", recipes.fold_gain, PLAIN, LINEAR),
    ("max_norm", recipes.center, nn.Embedding(2, 3, max_norm=1.0)),
    ("BatchNorm1d", recipes.to_rms_norm, NORM),
    ("fold_gain", recipes.to_rms_norm, trained(nn.LayerNorm(6))),
    ("fewer", recipes.to_group_norm, NORM, 4),
    ("none", recipes.to_group_norm, LINEAR, 2),
    ("as many", recipes.merge_statistics, [], [], []),
    ("swapped", recipes.merge_statistics, [ONE], [-ONE], [2]),
    ("'torch'", recipes.convert_batch_norm, OURS, "torch", "keras"),
    *(("eps is", recipes.convert_batch_norm, wrong, "flax", "keras") for wrong in WRONG),
    ("None", recipes.convert_batch_norm, OURS | {"momentum": None}, "pytorch", "flax"),
    ("count", lambda: recipes.convert_batch_norm(OURS, "pytorch", "keras", count=1)),
]


@pytest.mark.parametrize("piece, call, args", [(piece, call, args) for piece, call, *args in BAD])
def test_bad_input_is_refused_with_what_must_be_what_it_got_and_a_fix(piece, call, args):
    with pytest.raises(ValueError, match=r"(?s)^\w.* must .+, but .+; .+") as raised:
        call(*args)
    assert piece in str(raised.value)


def test_every_recipe_is_documented_and_the_file_needs_torch_alone():
    imports = list_imports((ROOT / "normlib" / "recipes.py").read_text(encoding="utf-8"))
    assert {name.split(".")[0] for name in imports} == {"torch", "copy", "collections", "functools"}
    for said in (entry(getattr(recipes, name)) for name in recipes.__all__):
        assert said.shapes and "ValueError" in said.errors and "chapter" in said.source


def test_every_use_on_the_page_runs_by_the_imports_that_it_shows():
    uses = [c.source for n, c in read_cells() if n == "recipes" and ".recipes import" in c.source]
    assert len(uses) == 11
    for use in uses:
        exec(use, {})
