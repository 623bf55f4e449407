"""What is wrong with the norms of a network: audit_norms(model, loader), on PyTorch.

    python -m normlib.audit MODULE:FUNCTION

The function returns the model and a loader, and perhaps the optimizer as a third. Exit codes: 0 if
nothing is found, 1 if something is, 2 if the question cannot be asked.
"""

import argparse
import copy
import math
import os
import pkgutil
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from normlib.recipes import norms_of

__all__ = ["Audit", "Finding", "Norm", "audit_norms"]

BATCH, INSTANCE = nn.modules.batchnorm._BatchNorm, nn.modules.instancenorm._InstanceNorm
OWN, LINEAR = (BATCH, INSTANCE), (nn.Linear, nn.modules.conv._ConvNd)
SAME = 0.0, 1.0  # in deviations, and as a factor of the variance


@dataclass
class Norm:
    """One norm, and what was measured at it. What the batches did not reach has 0 values."""

    names: tuple[str, ...]  # several if the module stands in several places
    module: nn.Module  # as it is in the network, where it is not run
    by_batch: bool  # whether training takes its statistics from the batch
    mode: str = ""  # "batch" or "stored", for a norm that knows both
    alone: bool = False  # in training mode in a network that evaluates
    moves: bool = False  # the running statistics, now
    stays: bool = False  # the running statistics, in training
    frozen: str = ""
    stored: str = ""  # the running statistics: "fit", "start", "off", "not finite"
    off: tuple[float, float] = SAME  # what is stored from what is met, medians of the channels
    apart: tuple[float, float] = SAME  # the first call for a batch from the others
    finite: bool = True  # parameters and inputs
    momentum: float = 0.0  # where there are running statistics
    dead: int = 0  # channels whose gamma is 0 beside the largest
    tied: bool = False  # a parameter is another norm's, too
    decay: float | None = None  # None without an optimizer, nan for what is not in it
    bias: str = ""  # a layer right in front whose bias the norm takes away
    layout: tuple = ()  # axes, whether it centres, the axes in words, what it adds to its weight
    dtype: torch.dtype = torch.float32  # of the inputs
    eps: float = 0.0
    values: int = 0  # for one statistic, the fewest
    samples: int = 0
    kappa: float = 1.0  # the largest; 1 without centring
    spread: list[float] = field(default_factory=list)  # the median of the variances, by call
    sums: dict[int, list] = field(default_factory=dict)  # count, means and variances, by call
    call: int = 0  # for one batch

    @property
    def digits(self) -> float:
        """The decimal digits that rounding of the inputs leaves of the output."""
        return max(0.0, -math.log10(torch.finfo(self.dtype).eps / 2 * self.kappa))

    @property
    def eps_share(self) -> float:
        """ε over the variance, in the middle of all."""
        middle = sorted(self.spread)[len(self.spread) // 2] if self.spread else math.nan
        return self.eps / max(middle, 1e-30)

    @property
    def few(self) -> bool:
        return bool(self.spread) and self.values < (8 if self.mode == "batch" else 3)


class Finding(NamedTuple):
    name: str
    norms: tuple[str, ...]
    says: str
    page: str  # in the book: file#section


def far(off: tuple[float, float], noise: float = 0.0) -> bool:
    return off[0] > 0.5 + noise or not off[1] <= 2.5 + 2 * noise


def by(off: tuple[float, float]) -> str:
    return f"by {off[0]:.2g} deviations and a factor of {off[1]:.2g} in the variance"


# What can be wrong with one norm, the costliest first: a name, a page, and what is said, if it is.
CHECKS: list[tuple[str, str, Callable[[Norm], Any]]] = [
    ("not finite", "floating-point#poisoned", lambda n: (
        "nan or inf in the running statistics, which keep it for ever" * (n.stored == "not finite")
        or "nan or inf in parameters or inputs" * (not n.finite))),
    ("forgotten eval", "batch-norm-in-use#forgotten-eval", lambda n: n.alone and (
        "in training mode in a network that evaluates: answers depend on the batch")),
    ("stale statistics", "evaluation-gap#stale", lambda n: n.stored == "off" and (
        f"what is stored is off {by(n.off)}: estimate anew")),
    ("few values", "batch-norm#small-batches", lambda n: n.few and (
        f"values for one statistic: {n.values}; take larger batches or groups, or another norm")),
    ("half frozen", "batch-norm-in-use#freeze-both", lambda n: n.moves and n.frozen == "γ, β" and (
        "γ and β are frozen, but the statistics move")),
    ("momentum", "frameworks#what-bites", lambda n: n.momentum >= 0.5 and (
        f"{n.momentum:g} is the weight of the new batch here: {1 - n.momentum:.2g} may be meant")),
    ("mixed calls", "where-samples-must-not-meet#apart-contrast", lambda n: far(n.apart) and (
        f"called several times for a batch, on inputs that differ {by(n.apart)}")),
    ("lost digits", "floating-point#question", lambda n: (n.kappa > 1000 or n.digits < 1) and (
        f"a mean far from 0: κ = {n.kappa:.2g} leaves {n.digits:.1f} digits of {n.dtype}")),
    ("large epsilon", "floating-point#eps", lambda n: n.eps_share > 1 and (
        f"ε = {n.eps:g} is {n.eps_share:.2g} times the variance: the input keeps its scale")),
    ("dead gain", "in-practice#zero", lambda n: n.dead and (
        f"γ is 0 beside the largest in {n.dead} of {n.module.weight.numel()} channels")),
    ("rounded averages", "floating-point#poisoned", lambda n: (
        n.moves and n.module.running_mean.element_size() == 2) and (
        "running statistics move in 16 bits, which round small steps away")),
    ("not optimized", "in-practice#decay", lambda n: math.isnan(n.decay or 0) and (
        "γ or β would learn, but the optimizer does not have them")),
    ("decay", "in-practice#decay", lambda n: (n.decay or 0) > 0 and (
        f"weight decay {n.decay:g} pulls what is learned to 0")),
    ("bias in front", "batch-norm#what-it-means", lambda n: n.bias and not n.stays and (
        f"the bias of {n.bias} is taken away again: bias=False")),
]  # fmt: skip


class Audit(NamedTuple):
    norms: tuple[Norm, ...]
    findings: tuple[Finding, ...]
    measure: str  # "accuracy", "loss", or "" without labels
    scores: tuple[float, ...]  # by batches, as stored, estimated anew

    def __str__(self) -> str:
        parts, ways = [table(self.norms)], ("by batches", "as stored", "estimated anew")
        unit, ways = " %" * (self.measure == "accuracy"), ways if len(self.scores) > 1 else ("",)
        scores = [f"{s:.3g}{unit} {w}".rstrip() for s, w in zip(self.scores, ways, strict=False)]
        said = f"{self.measure}: {', '.join(scores)}" if scores else "no labels, so no accuracies"
        count = len(self.findings)
        parts.append(f"{said}\n{count or 'no'} finding{'s' * (count != 1)}")
        for name, norms, says, page in self.findings:
            more = f" and {len(norms) - 2} more" if len(norms) > 2 else ""
            text = f"{name}: {says} ({', '.join(norms[:2])}{more})"
            lines = textwrap.fill(text, 88, subsequent_indent="  ", break_on_hyphens=False)
            parts.append(f"{lines}\n  chapters/{page.replace('#', '.html#')}")
        return "\n\n".join(parts)


def span(values: Iterable[float], form: str) -> str:
    """The least and the largest, or one if they look the same."""
    ends = sorted(value for value in values if not math.isnan(value))
    return "–".join(dict.fromkeys(format(end, form) for end in (ends[:1] + ends[-1:])))


def table(norms: Sequence[Norm]) -> str:
    """A row for each kind of norms: what they share, and how far their numbers reach."""
    head = "norms", "over", "mode", "stored", "frozen", "decay", "", "values", "κ", "digits"
    lines, rows = [(*head, "ε/variance")], defaultdict(list)
    for n in norms:
        decay = "" if n.decay is None else f"{n.decay:g}"
        places = "shared" if len(n.names) > 1 else "tied" * n.tied
        axes = n.layout[2] if n.layout else "not reached"
        rows[type(n.module).__name__, axes, n.mode, n.stored, n.frozen, decay, places].append(n)
    for kind, those in rows.items():
        met = [n for n in those if n.spread]
        numbers = [span((n.values for n in met), "d"), span((n.kappa for n in met), ".2g")]
        numbers += [span((n.digits for n in met), ".1f"), span((n.eps_share for n in met), ".0e")]
        lines.append((f"{len(those)} {kind[0]}", *kind[1:], *numbers))
    columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    kept = zip(*columns, strict=True)
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in kept)


def taken(loader: Iterable, count: int) -> list:
    """The first batches, which are kept: all passes see the same."""
    batches = [*islice(loader, count)] if isinstance(loader, Iterable) else [loader]
    first = [b[0] if isinstance(b, list | tuple) and b else b for b in batches]
    wrong = [type(x).__name__ for x in first if not isinstance(x, Tensor | Mapping)]
    if wrong or not batches:
        raise ValueError(
            f"loader must give tensors, tuples that begin with one, or dicts, but it gave "
            f"{wrong[0] if wrong else 'nothing'}; is it empty or used up? Give what the model "
            f"takes: [(b.x, b.y) for b in loader]"
        )
    return batches


def to(thing: Any, device: torch.device) -> Any:
    """The same on the network's device."""
    if isinstance(thing, Mapping):
        return {name: to(value, device) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [to(value, device) for value in thing]
    return thing.to(device) if isinstance(thing, Tensor) else thing


def score(output: Any, labels: Any) -> tuple[str, float, int]:
    """What is measured, its sum, and over how many; "" if output and labels do not fit."""
    y, loss = getattr(output, "logits", output), getattr(output, "loss", None)
    y = y[0] if isinstance(y, list | tuple) else y
    if isinstance(loss, Tensor) and loss.ndim == 0:
        return "loss", float(loss), 1
    both = isinstance(labels, Tensor) and isinstance(y, Tensor) and y.ndim > 1
    if both and not labels.is_floating_point() and y[:, 0].shape == labels.shape:
        return "accuracy", 100.0 * float((y.argmax(1) == labels).sum()), labels.numel()
    return "", 0.0, 0


@torch.no_grad()
def run(net: nn.Module, batches: list, seen: Iterable[Norm] = ()) -> tuple[str, float]:
    """One pass: what is measured, and its mean."""
    device = next((p.device for p in net.parameters()), torch.device("cpu"))
    found = []
    for number, batch in enumerate(batches):
        for norm in seen:
            norm.call = 0
        given = to(batch, device)
        try:
            if isinstance(given, dict):
                output, labels = net(**given), given.get("labels")
            else:
                x, *rest = given if isinstance(given, list) else [given]
                output, labels = net(x), rest[-1] if rest else None
        except Exception as error:
            raise ValueError(
                f"model must take what loader gives, but batch {number} raised "
                f"{type(error).__name__}: {error}; the first item of a tuple goes into the "
                f"model, a dict as its keywords"
            ) from error
        found.append(score(output, labels))
    return found[0][0], sum(s for _, s, _ in found) / max(1, sum(n for *_, n in found))


def ask(norm: nn.Module, x: Tensor) -> tuple:
    """The axes of the statistics, whether the norm centres, the axes in words, and what it adds to
    its weight. PyTorch's classes are known, others are tried."""
    space = dict(enumerate(("L", "H W", "D H W"), start=3)).get(x.ndim, "")
    if isinstance(norm, BATCH):
        return (0, *range(2, x.ndim)), True, f"N {space}".strip(), 0
    if isinstance(norm, INSTANCE):
        return tuple(range(2, x.ndim)), True, space, 0
    if isinstance(norm, nn.GroupNorm):
        return (2,), True, f"C/{norm.num_groups} {space}".strip(), 0
    if type(norm) in (nn.LayerNorm, nn.RMSNorm):
        dims, centred = len(norm.normalized_shape), type(norm) is nn.LayerNorm
        dims, added = tuple(range(x.ndim - dims, x.ndim)), 0
    else:
        try:
            dims, centred, added = probe(norm, x)
        except Exception:  # it takes more than x, or a certain x
            return (), False, "?", 0
    words = f"last {len(dims)}" if dims and dims[-1] == x.ndim - 1 else ", ".join(map(str, dims))
    return dims, centred, words or "nothing", added


@torch.enable_grad()
def probe(norm: nn.Module, x: Tensor) -> tuple[tuple[int, ...], bool, int]:
    """Which entries of x move one of y, whether y feels a constant, and what a weight of 0 does."""
    layer = copy.deepcopy(norm).double().train()
    for p in layer.parameters():
        nn.init.uniform_(p, 0.5, 1.5)
    z = torch.randn((min(2, len(x)), *x.shape[1:]), device=x.device).double().requires_grad_()
    y = layer(z)
    moved = torch.autograd.grad(y[tuple(n // 2 for n in y.shape)], z)[0].nonzero()
    dims = tuple(axis for axis in range(z.ndim) if len(moved[:, axis].unique()) > 1)
    centred = bool((layer(z + 1) - y).abs().max() < 0.01)
    if isinstance(weight := getattr(layer, "weight", None), nn.Parameter):
        nn.init.zeros_(weight)
    return dims, centred, int((layer(z) - layer(0 * z)).abs().max() > 0.1)


def watch(norm: Norm, module: nn.Module, args: tuple, named: dict) -> None:
    """Before a norm is called: measure its input."""
    x = next((v for v in (*args, *named.values()) if isinstance(v, Tensor)), None)
    if x is None or not x.is_floating_point() or not x.numel():
        return
    norm.layout = norm.layout or ask(norm.module, x)
    dims, centred, *_ = norm.layout
    view = x.reshape(len(x), module.num_groups, -1) if isinstance(module, nn.GroupNorm) else x
    values = math.prod(view.shape[axis] for axis in dims)
    norm.values = min(norm.values or values, values)
    norm.samples, norm.dtype = norm.samples + len(x), x.dtype
    epses = (getattr(module, name, None) for name in ("eps", "variance_epsilon", "epsilon"))
    default = torch.finfo(x.dtype).eps if isinstance(module, nn.RMSNorm) else 0.0
    norm.eps = next((eps for eps in epses if isinstance(eps, float)), default)
    if isinstance(module, OWN):
        module.training = norm.by_batch and values > 1  # PyTorch raises for one
        name, version = getattr(x, "written", ("", 0))
        norm.bias = name if version == x._version else ""
    if not dims:
        return
    var, mean = torch.var_mean(view if x.element_size() > 2 else view.float(), dims, correction=0)
    power = var + mean.square()
    norm.finite &= bool(power.isfinite().all())
    norm.spread.append(float((var if centred else power).median()))
    if centred and norm.finite:
        kappa = (power / (var + norm.eps).clamp_min(1e-30)).sqrt().max()
        norm.kappa = max(norm.kappa, float(kappa))
    if isinstance(module, BATCH) and values > 1:
        new = 1, mean.double(), var.double() / (values - 1) * values
        old = norm.sums.get(norm.call, (0, 0, 0))
        norm.sums[norm.call] = [a + values * b for a, b in zip(old, new, strict=True)]
        norm.call += 1


def mark(name: str, module: nn.Module, args: tuple, y: Any) -> None:
    """After a linear layer with a bias: its output says so, until something is done to it."""
    if module.bias is not None and not (isinstance(module, nn.Linear) and y.ndim > 2):
        y.written = name, y._version


def fresh(*sums: list) -> tuple[Tensor, Tensor]:
    """The mean and the variance over some calls."""
    count, means, variances = (sum(parts) for parts in zip(*sums, strict=True))
    return means / count, variances / count


def distance(these: tuple, those: tuple, eps: float) -> tuple[float, float]:
    """By how many deviations the means differ, and by what factor the variances."""
    (mean, var), (other_mean, other_var) = these, those
    shift = (mean - other_mean).abs() / (other_var + eps).sqrt()
    ratio = ((var + eps) / (other_var + eps)).log().abs()
    return float(shift.median()), math.exp(min(float(ratio.median()), 99.0))


def judge(norm: Norm, net: nn.Module, decays: dict | None) -> None:
    """What a norm holds, beside what was measured."""
    module, own = norm.module, [*norm.module.parameters(recurse=False)]
    mean, var, gamma, beta = (
        getattr(module, name, None) for name in ("running_mean", "running_var", "weight", "bias")
    )
    learns, kept = [p for p in own if p.requires_grad], mean is not None
    norm.stays = kept and not norm.by_batch
    norm.frozen = " and ".join(["γ, β"] * bool(own and not learns) + ["statistics"] * norm.stays)
    if kept or isinstance(module, BATCH):
        norm.mode = "batch" if module.training or not kept else "stored"
    norm.momentum = (getattr(module, "momentum", None) or 0.0) * kept
    norm.moves = kept and norm.by_batch and module.training
    norm.alone = norm.moves and not net.training
    norm.finite &= all(bool(p.isfinite().all()) for p in own)
    if decays is not None:
        norm.decay = (
            math.nan if {*learns} - {*decays} else max(map(decays.get, learns), default=0.0)
        )
    moved = beta is not None and bool(beta.any())
    if gamma is not None:
        gains = (gamma.detach() + (norm.layout[3] if norm.layout else 0)).abs()
        norm.dead = (
            int((gains < 1e-3 * gains.max()).sum()) if gains.any() else moved * gains.numel()
        )
        moved |= bool((gains != gains.flatten()[0]).any())
    if not kept:
        return
    begun = moved or bool(mean.any() or (var != 1).any())
    norm.stored = "fit" if begun else "start"
    if not (mean + var).isfinite().all():
        norm.stored = "not finite"
    elif norm.sums and norm.finite:
        first, *others = map(fresh, norm.sums.values())
        norm.apart = max((distance(first, o, norm.eps) for o in others), default=SAME)
        norm.off = distance((mean, var), fresh(*norm.sums.values()), norm.eps)
        if begun and not norm.stays and far(norm.off, 2 / math.sqrt(norm.samples)):
            norm.stored = "off"


def passes(model: nn.Module, norms: dict[str, Norm], batches: list) -> tuple[str, tuple]:
    """Run a copy with each kind of statistics: what was measured, and the scores."""
    net = copy.deepcopy(model).train()
    modules = {name: net.get_submodule(name) for name in norms}
    for name, norm in norms.items():  # what is frozen for good does not answer train()
        norm.by_batch &= (norm.module if model.training else modules[name]).training
    net.eval()
    linear = [(partial(mark, n), m) for n, m in net.named_modules() if isinstance(m, LINEAR)]
    hooks = [module.register_forward_hook(hook) for hook, module in linear]
    for name, norm in norms.items():
        hook = partial(watch, norm)
        hooks.append(modules[name].register_forward_pre_hook(hook, with_kwargs=True))
    measure, score = run(net, batches, norms.values())
    scores = [score] if measure else []
    for hook in hooks:
        hook.remove()
    net.eval()
    able = {modules[name]: norm for name, norm in norms.items() if norm.sums and norm.by_batch}
    if measure and able and all(m.running_mean is not None for m in able):
        scores.append(run(net, batches)[1])
        for module, norm in able.items():
            module.running_mean, module.running_var = (
                new.to(module.running_mean) for new in fresh(*norm.sums.values())
            )
        scores.append(run(net, batches)[1])
    return measure, tuple(scores)


def audit_norms(
    model: nn.Module,
    loader: Iterable,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    norms: Sequence[type] = (),
    batches: int = 16,
) -> Audit:
    """What is wrong with the norms of a network, the costliest first; the network stays as it is.

    kappa = sqrt((mean² + var) / (var + eps)),   digits = -log10(kappa · roundoff)

    A copy sees the first `batches` of the loader with the statistics of each batch, and if there
    are labels also with those that are stored, and with new ones. Dropout is off. Give batches as
    in training. A norm is one of PyTorch's, of the classes `norms`, or named like LlamaRMSNorm;
    what a model computes by functions is not seen.

    Shapes: a batch is a tensor, a tuple (x, ..., labels), or a dict of keywords with "labels".
    Errors: ValueError for a model without norms, one that cannot be copied or does not take a
    batch, and a loader without batches or of other things.
    Source: chapter "Audit your network".
    """
    found = norms_of(model, norms)
    if not found or any(map(nn.parameter.is_lazy, model.parameters())):
        raise ValueError(
            f"model must hold norms whose shapes are known, but {type(model).__name__} has "
            f"{'lazy ones' if found else 'none'}; run a batch through lazy ones, and name classes "
            f"of your own: norms=[MyNorm]"
        )
    places: dict[nn.Module, tuple] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        places[module] = (*places.get(module, ()), name or "model")
    seen = {name: Norm(places[m], m, isinstance(m, OWN)) for name, m in found.items()}
    with torch.random.fork_rng():
        measure, scores = passes(model, seen, taken(loader, batches))
    groups = optimizer.param_groups if optimizer else []
    decays = {p: group.get("weight_decay", 0.0) for group in groups for p in group["params"]}
    uses = Counter(p for m in found.values() for p in m.parameters(recurse=False))
    for norm in seen.values():
        judge(norm, model, decays if optimizer else None)
        norm.tied = any(uses[p] > 1 for p in norm.module.parameters(recurse=False))
    findings = []
    for name, page, check in CHECKS:
        hits = {norm.names[0]: said for norm in seen.values() if (said := check(norm))}
        if hits:
            findings.append(Finding(name, tuple(hits), next(iter(hits.values())), page))
    return Audit(tuple(seen.values()), tuple(findings), measure, scores)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m normlib.audit", description=__doc__)
    parser.add_argument("place", metavar="MODULE:FUNCTION")
    sys.path.insert(0, os.getcwd())
    try:
        made = pkgutil.resolve_name(parser.parse_args(arguments).place)()
        audit = audit_norms(*made[:2], optimizer=made[2] if len(made) > 2 else None)
    except Exception as error:
        print(f"normlib.audit: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    print(audit)
    return 1 if audit.findings else 0


if __name__ == "__main__":
    sys.exit(main())
