"""What people do to networks with normalization layers, one function for each, on PyTorch.

This file needs torch and the standard library alone, so it can be copied as it is.
"""

import copy
from collections.abc import Iterable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

__all__ = [
    "center",
    "convert_batch_norm",
    "fold",
    "fold_gain",
    "freeze",
    "masked_batch_norm",
    "merge_statistics",
    "param_groups",
    "reestimate",
    "to_group_norm",
    "to_rms_norm",
]


def norms_of(net: nn.Module, kinds: Sequence[type] = ()) -> dict[str, nn.Module]:
    """The norms of a network: PyTorch's, those of `kinds`, and what is named like LlamaRMSNorm."""
    own = nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm
    found = {}
    for name, module in net.named_modules():
        word = type(module).__name__.rstrip("123d")  # BatchNorm2d of another library
        named = word.endswith("Norm") and not word.endswith(("WeightNorm", "SpectralNorm"))
        ours = type(module).__module__.startswith("torch.")  # LocalResponseNorm, say
        leaf = not any(module.children())  # an adaptive norm holds one, and a linear map
        if isinstance(module, (*own, *kinds)) or (named and leaf and not ours):
            found[name] = module
    return found


def param_groups(
    net: nn.Module,
    *,
    weight_decay: float,
    norms: Sequence[type] = (),
) -> list[dict]:
    """Two groups for an optimizer: weights with weight decay, gains and biases without.

    decay = weight_decay for matrices and kernels,
    decay = 0 for what has a single axis longer than 1, or belongs to a norm

    A tied weight stands in its group once. `norms` are classes of norms beside PyTorch's and
    those that `norms_of` knows by their name: one is needed where its gain has several axes, or
    is a `weight` of shape (1, C, 1, 1). Decay would pull the gain to 0, but to 1 where a layer
    multiplies by 1 + weight.

    Shapes: any.
    Errors: ValueError for a negative decay, a net without parameters, or one of the `norms`
    that the net does not hold.
    Source: chapter "Normalization layers in practice".
    """
    named = [*net.named_parameters()]  # a tied one once
    if weight_decay < 0:
        raise ValueError(
            f"weight_decay must not be negative, but it is {weight_decay}; the "
            f"optimizer subtracts it by itself"
        )
    if not named:
        raise ValueError("net must hold parameters, but has none; build it first")
    for kind in norms:
        if not any(isinstance(module, kind) for module in net.modules()):
            raise ValueError(
                f"norms must be classes of modules in net, but {kind.__name__} is "
                f"of none; print(net) says which there are"
            )
    found = norms_of(net, norms).values()
    of_norms = {p for norm in found for p in norm.parameters(recurse=False)}
    weights, spared = [], []
    for name, p in named:
        single = p.numel() == max(p.shape, default=1)  # (C,), but (C, 1, 1) as well
        length = name.endswith(("weight_g", "original0"))  # of weight norm
        matrix = p.ndim > 1 and "weight" in name and not length  # with one row, say
        free = p in of_norms or (single and not matrix)
        (spared if free else weights).append(p)
    return [
        {"params": weights, "weight_decay": weight_decay},
        {"params": spared, "weight_decay": 0.0},
    ]


def batch_norms(net: nn.Module) -> list:
    """The batch norms of a network; each must have running statistics."""
    kind = nn.modules.batchnorm._BatchNorm
    found = [module for module in net.modules() if isinstance(module, kind)]
    if not found or any(norm.running_mean is None for norm in found):
        raise ValueError(
            f"net must hold batch norms with running statistics, but it has "
            f"{'one without' if found else 'no batch norm'}; "
            f"track_running_stats=True keeps them"
        )
    return found


def stay(norm: nn.Module, mode: bool = True) -> nn.Module:
    """What `norm.train(mode)` does once the norm is frozen: nothing."""
    return norm


def freeze(net: nn.Module) -> nn.Module:
    """Freeze the batch norms of a network in place, both halves, for good.

    y = gamma · (x - running_mean) / sqrt(running_var + eps) + beta

    A later `net.train()` leaves them as they are, also in a copy and in a network that was
    saved whole; in a new one that loads a state_dict, freeze again. `del norm.train` thaws.

    Shapes: any.
    Errors: ValueError for a net without batch norm, or one without running statistics.
    Source: chapter "Batch normalization in use".
    """
    for norm in batch_norms(net):
        norm.eval().requires_grad_(False)
        norm.train = partial(stay, norm)
    return net


@torch.no_grad()
def reestimate(net: nn.Module, loader: Iterable) -> nn.Module:
    """A copy in evaluation mode, with the running statistics of these batches.

    running_mean = sum(m · batch mean) / sum(m),
    running_var = sum(m · unbiased batch variance) / sum(m)

    Dropout is off. m is how many values per channel the batch has, so a small last batch counts
    little. Each norm has its momentum back at the end. A frozen norm is left alone. The variances
    are those within batches: mix the samples. A batch is a tensor, or a tuple that begins with
    one.

    Shapes: as net takes them.
    Errors: ValueError for an empty loader, a batch with one value per channel, a batch that is
    no tensor, or a net without batch norm.
    Source: chapter "When evaluation is worse than training".
    """
    net = copy.deepcopy(net).eval()
    norms = batch_norms(net)
    former = {norm: norm.momentum for norm in norms if norm.train().training}
    seen = dict.fromkeys(former, 0)

    def weigh(norm, inputs):
        count = inputs[0].numel() // norm.num_features
        if count < 2:
            raise ValueError(
                f"loader must give batches with 2 values per channel or more, but "
                f"one has {count}; drop_last=True leaves out a last one of 1 sample"
            )
        if not seen[norm]:
            norm.reset_running_stats()  # 0 · nan would stay
        seen[norm] += count
        norm.momentum = count / seen[norm]

    hooks = [norm.register_forward_pre_hook(weigh) for norm in former]
    for batch in loader:
        x = batch[0] if isinstance(batch, list | tuple) else batch
        if not isinstance(x, Tensor):
            raise ValueError(
                f"loader must give tensors, or tuples that begin with one, but it "
                f"gave {type(x).__name__}; pick the input: (b['x'] for b in loader)"
            )
        net(x.to(norms[0].running_mean.device))
    if not any(seen.values()):
        raise ValueError(
            "loader must give a batch that reaches a norm, but none did; is it "
            "empty or used up, or is every norm frozen?"
        )
    for hook, (norm, momentum) in zip(hooks, former.items(), strict=True):
        hook.remove()
        norm.momentum = momentum
    return net.eval()


def masked_batch_norm(norm: nn.BatchNorm1d, x: Tensor, mask: Tensor) -> Tensor:
    """Batch norm over the valid positions of padded sequences; 0 at the others.

    y[mask] = norm(x[mask])

    Statistics, and running ones, are those of the valid positions.

    Shapes: `x` and y (N, C, T); `mask` (N, T), True where valid.
    Errors: ValueError for a norm that is no BatchNorm1d, a mask that is not of bool or not shaped
    so, or fewer than 2 valid positions in training.
    Source: chapter "Normalization layers in practice".
    """
    if not isinstance(norm, nn.BatchNorm1d) or x.shape[1:2] != (norm.num_features,):
        raise ValueError(
            f"norm must be a BatchNorm1d over axis 1 of x, but it is {norm} for a "
            f"shape of {tuple(x.shape)}; transpose x if its channels come last"
        )
    if mask.dtype != torch.bool or x.ndim != 3 or mask.shape != x[:, 0].shape:
        raise ValueError(
            f"mask must be (N, T) of bool for x (N, C, T), but it is "
            f"{tuple(mask.shape)} of {mask.dtype} for {tuple(x.shape)}; "
            f"mask.bool() makes one of 0 and 1"
        )
    if norm.training and mask.sum() < 2:
        raise ValueError(
            f"mask must leave 2 positions or more in training, but it leaves "
            f"{int(mask.sum())}; True marks what is valid, so try ~mask"
        )
    rows = x.transpose(1, 2)
    y = torch.zeros_like(rows)
    y[mask] = norm(rows[mask])
    return y.transpose(1, 2)


@torch.no_grad()
def fold(layer: nn.Module, norm: nn.Module) -> nn.Module:
    """A copy of a linear layer or a convolution that does what it and the batch norm behind it do.

    W' = s · W,   b' = s · (b - running_mean) + beta,
    s = gamma / sqrt(running_var + eps)

    s multiplies what leads to its output: a row of Linear and Conv, and a column within each group
    of ConvTranspose. Behind Linear the channels must be the last axis: inputs (N, in).

    Shapes: as of `layer`, with C outputs; `norm` over C.
    Errors: ValueError for a layer of another class or with parametrized weights, for a norm that
    is no batch norm, is in training mode or has no running statistics, or for other channels.
    Source: chapter "Batch normalization in use".
    """
    convs = nn.Conv1d, nn.Conv2d, nn.Conv3d
    transposed = nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d
    w, size = getattr(layer, "weight", None), getattr(norm, "num_features", 0)
    plain = type(layer) in (nn.Linear, *convs, *transposed)
    if not plain or not isinstance(w, nn.Parameter):  # another forward?
        raise ValueError(
            f"layer must be torch's own Linear, Conv or ConvTranspose of plain "
            f"weights, but it is {type(layer).__name__}; remove what makes them"
        )
    if not isinstance(norm, nn.modules.batchnorm._BatchNorm):
        raise ValueError(
            f"norm must be a batch norm, but it is {type(norm).__name__}; the "
            f"statistics of others depend on the input, and nothing can be folded"
        )
    if norm.training or norm.running_mean is None:
        raise ValueError(
            f"norm must be in evaluation mode and have running statistics, but it "
            f"{'is in training mode' if norm.training else 'has none'}; call eval()"
        )
    outputs = layer.out_features if type(layer) is nn.Linear else layer.out_channels
    if outputs != size:
        raise ValueError(
            f"norm must have as many channels as layer has outputs, {outputs}, but "
            f"it has {size}; is it the norm behind this layer?"
        )
    gamma = 1.0 if norm.weight is None else norm.weight
    beta = 0.0 if norm.bias is None else norm.bias
    scale = gamma * (norm.running_var + norm.eps).rsqrt()
    if type(layer) in transposed:  # the weights are (in, out / groups, ...)
        inputs = layer.in_channels // layer.groups
        factor = scale.reshape(layer.groups, -1).repeat_interleave(inputs, dim=0)
    else:
        factor = scale[:, None]
    factor = factor.reshape(*factor.shape, *[1] * (w.ndim - 2))
    b = 0.0 if layer.bias is None else layer.bias
    shift = scale * (b - norm.running_mean) + beta
    folded = copy.deepcopy(layer)
    folded.weight.copy_(factor * w)
    folded.bias = nn.Parameter(shift.to(w.dtype), w.requires_grad)
    return folded


@torch.no_grad()
def fold_gain(norm: nn.Module, *readers: nn.Linear) -> list[nn.Module]:
    """The norm without gain and shift, and copies of its readers that have taken them over.

    W' = W · diag(gamma),   b' = b + W · beta

    Give every layer that reads the norm. A copy is no longer tied to another layer, such as an
    embedding. Of a class that multiplies by 1 + weight, put the sum into an nn.RMSNorm first.

    Shapes: `norm` over (d,); each of the `readers` (d, out).
    Errors: ValueError for a norm that is no LayerNorm or RMSNorm over one axis, for no reader, or
    for one that is no Linear of d inputs.
    Source: chapter "QK-norm, folding and turning the stream".
    """
    known = type(norm) in (nn.LayerNorm, nn.RMSNorm)
    if not known or len(norm.normalized_shape) > 1:
        raise ValueError(
            f"norm must be torch's LayerNorm or RMSNorm over one axis, but it is "
            f"{norm}; copy what multiplies in it into one of these"
        )
    sizes = [getattr(reader, "in_features", None) for reader in readers]
    linear = all(type(reader) is nn.Linear for reader in readers)
    if not linear or {*sizes} != {*norm.normalized_shape}:
        raise ValueError(
            f"readers must be Linear of {norm.normalized_shape[0]} inputs, but they"
            f" are {readers}; give all that read the norm, and no others"
        )
    bare = type(norm)(norm.normalized_shape, norm.eps, elementwise_affine=False)
    gamma, beta = norm.weight, getattr(norm, "bias", None)
    copies = copy.deepcopy(readers)
    for new, old in zip(copies, readers, strict=True):
        w, b = old.weight, 0.0 if old.bias is None else old.bias
        if gamma is not None:
            new.weight.copy_(w * gamma)
        if beta is not None:
            shifted = (b + (w * beta).sum(dim=1)).to(w.dtype)
            new.bias = nn.Parameter(shifted, w.requires_grad)
    return [bare.train(norm.training), *copies]


@torch.no_grad()
def center(writer: nn.Module) -> nn.Module:
    """A copy of a layer whose outputs have the mean 0 over their features.

    W' = W - mean(W),   b' = b - mean(b)

    The means run over the output features. Of a residual stream, center all that is added to it,
    embeddings of positions as well.

    Shapes: `writer` any.
    Errors: ValueError for a writer that is no Linear or Embedding, or whose max_norm changes its
    rows in a call.
    Source: chapter "QK-norm, folding and turning the stream".
    """
    fits = type(writer) in (nn.Linear, nn.Embedding)
    if not fits or getattr(writer, "max_norm", None) is not None:
        raise ValueError(
            f"writer must be a Linear, or an Embedding without max_norm, but it is "
            f"{writer}; take the mean out of its outputs, or make it one of these"
        )
    new, axis = copy.deepcopy(writer), 0 if type(writer) is nn.Linear else 1
    new.weight -= new.weight.mean(axis, keepdim=True)
    if getattr(new, "bias", None) is not None:
        new.bias -= new.bias.mean()
    return new


@torch.no_grad()
def to_rms_norm(norm: nn.LayerNorm) -> nn.RMSNorm:
    """The RMSNorm that does on centred inputs what this layer norm does.

    y = gamma · x / sqrt(mean(x²) + eps) where mean(x) = 0

    It is another function of any other input: `center` all layers that write it.

    Shapes: `norm` over (d,).
    Errors: ValueError for a norm that is no LayerNorm over one axis, or whose shift is not 0.
    Source: Zhang and Sennrich (2019); chapter "QK-norm, folding and turning the stream".
    """
    if type(norm) is not nn.LayerNorm or len(norm.normalized_shape) > 1:
        raise ValueError(
            f"norm must be torch's LayerNorm over one axis, but it is {norm}; "
            f"center takes the mean from a single axis"
        )
    if norm.bias is not None and norm.bias.any():
        raise ValueError(
            "norm must have a shift of 0, but its bias is not; RMSNorm has none, "
            "so move it into the next layers by fold_gain first"
        )
    affine = norm.weight is not None
    new = nn.RMSNorm(norm.normalized_shape, norm.eps, elementwise_affine=affine)
    if affine:
        new.weight = copy.deepcopy(norm.weight)
    return new.train(norm.training)


def to_group_norm(net: nn.Module, groups: int) -> nn.Module:
    """A copy with group norm in the place of each batch norm, with its gamma, beta and eps.

    y = gamma · (x - mean of the group) / sqrt(var of the group + eps) + beta

    It is another function, so train it on. On inputs (N, C) a group needs 2 channels or more: with
    a single one only beta is left.

    Shapes: as net takes them.
    Errors: ValueError for a net without batch norm, or channels that `groups` does not divide.
    Source: chapter "Group and instance normalization".
    """
    root, made = nn.Sequential(copy.deepcopy(net)), {}
    for name, norm in [*root.named_modules(remove_duplicate=False)]:
        if not isinstance(norm, nn.modules.batchnorm._BatchNorm):
            continue
        channels = norm.num_features
        if groups < 1 or not channels or channels % groups:
            raise ValueError(
                f"groups must divide the channels of every norm, but {groups} does "
                f"not divide {channels}, of {name[2:] or 'net'}; take fewer groups"
            )
        if norm not in made:
            made[norm] = nn.GroupNorm(groups, channels, norm.eps, norm.affine)
            made[norm].weight, made[norm].bias = norm.weight, norm.bias
        path, _, child = name.rpartition(".")
        setattr(root.get_submodule(path), child, made[norm])
    if not made:
        raise ValueError(
            "net must hold a batch norm, but it has none; is it the part that you "
            "meant, or were its norms replaced before?"
        )
    return root[0]


def merge_statistics(
    means: Sequence[Tensor], variances: Sequence[Tensor], counts: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """The mean and the variance of several sets of values together.

    mean = sum(w · means),   var = sum(w · (variances + (means - mean)²)),
    w = counts / sum(counts)

    The law of total variance: a set far from the others adds its distance. Exact for biased
    variances. Running statistics of PyTorch go in as they are stored: the factor m / (m - 1) in a
    running variance stands for the scatter of batch means, which a running mean no longer holds.
    Counts may be shares: 1 - α and α for a moving average. Of averaged weights no merged
    statistics are right: `reestimate`.

    Shapes: k tensors (C,) in `means` and `variances`, k `counts`; mean and var (C,).
    Errors: ValueError for no set, shapes that do not fit, or negative variances or counts.
    Source: chapter "Batch normalization over processes".
    """
    shapes = [tuple(t.shape) for t in (*means, *variances)]
    alike = len(means) == len(variances) == len(counts)
    if not alike or len({*shapes}) != 1:
        raise ValueError(
            f"means, variances and counts must be as many, of one shape, but they "
            f"are {shapes} for {len(counts)} counts; give one of each for each set"
        )
    mean, var = torch.stack([*means]), torch.stack([*variances])
    share = torch.as_tensor(counts, dtype=mean.dtype, device=mean.device)
    if (var < 0).any() or (share < 0).any() or not share.sum() > 0:
        raise ValueError(
            "variances and counts must not be negative, nor all counts 0, but they "
            "are; means and variances may be swapped"
        )
    share = (share / share.sum()).reshape(-1, *[1] * (mean.ndim - 1))
    merged = (share * mean).sum(0)
    return merged, (share * (var + (mean - merged) ** 2)).sum(0)


def convert_batch_norm(
    values: dict,
    source: str,
    target: str,
    *,
    count: int | None = None,
) -> dict:
    """What a batch norm is made of, in the names and conventions of another framework.

    momentum' = 1 - momentum between PyTorch and another,
    var' = var without `count`, so that inference is the same function

    With `count`, the number of values per channel in a training batch, the variance becomes what
    the other framework would have stored: (count - 1) / count of it from PyTorch, whose is
    unbiased, and the inverse to it.

    Shapes: the statistics, gamma and beta (C,), of any kind of array; they stay as they are.
    Errors: ValueError for another framework, names that it does not have, a missing mean, variance
    or eps, a momentum outside [0, 1] or None, or a count below 2.
    Source: chapter "Conventions of the frameworks".
    """
    words = {
        "pytorch": "running_mean running_var eps weight bias momentum",
        "keras": "moving_mean moving_variance epsilon gamma beta momentum",
        "flax": "mean var epsilon scale bias momentum",
    }
    names = {framework: named.split() for framework, named in words.items()}
    if not {source, target} <= {*names}:
        raise ValueError(
            f"source and target must be of {[*names]}, but they are {source!r} and "
            f"{target!r}; write them so"
        )
    here, there = names[source], names[target]
    given = {*values} - {"num_batches_tracked"}  # of a state_dict
    if not {*here[:3]} <= given <= {*here}:
        raise ValueError(
            f"values must have names of {source}, {here}, at least the first "
            f"three, but has {sorted(given)}; eps is an argument of the layer"
        )
    new = {b: values[a] for a, b in zip(here, there, strict=True) if a in given}
    if (source == "pytorch") == (target == "pytorch"):
        return new
    if "momentum" in new:
        if new["momentum"] is None or not 0 <= new["momentum"] <= 1:
            raise ValueError(
                f"momentum must be from 0 to 1, but it is {new['momentum']}; leave "
                f"out PyTorch's None, the plain mean: nothing else has it"
            )
        new["momentum"] = 1 - new["momentum"]
    if count is not None:
        if count < 2:
            raise ValueError(
                f"count must be 2 or more, but it is {count}; it says how many "
                f"values a channel has in a batch, N · H · W for images"
            )
        factor = (count - 1) / count
        factor = factor if source == "pytorch" else 1 / factor
        new[there[1]] = new[there[1]] * factor
    return new
