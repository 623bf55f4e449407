"""Messages and symptoms of networks with norms: what causes each, and what mends it.

A row carries code that brings its symptom about and code that mends it, so a page can run both.
"""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch


class Row(NamedTuple):
    says: str  # the words of PyTorch, or in silence those of whoever wonders
    cause: str
    page: str  # a link to what explains it
    mend: str
    given: str  # what is there before
    holds: str  # true with the mend, and not without it
    fails: str = ""  # what makes PyTorch speak; empty for a silent symptom


Names = Mapping[str, Any]  # what a page has imported


def prepared(row: Row, names: Names) -> dict:
    """What is there before the mend."""
    torch.manual_seed(0)
    found = dict(names)
    exec(row.given, found)
    return found


def raised(row: Row, names: Names) -> str:
    """What PyTorch says: its error, or else its warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = prepared(row, names)
        seen.clear()  # what is said before does not count
        try:
            exec(row.fails, found)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            leave()
    return " ".join(str(warning.message) for warning in seen)


def mended(row: Row, names: Names) -> bool:
    """Whether the trouble is over after the mend, whose lines are run as they stand."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = prepared(row, names)
        try:
            exec(row.mend, found)
            return bool(eval(row.holds, found))
        except Exception:
            if not row.fails:  # in silence there is always an answer
                raise
            return False
        finally:
            leave()


def by_rows(terms: torch.Tensor) -> torch.Tensor:
    """Their sum, row after row, rounded to their own type each time."""
    found = torch.zeros_like(terms[0])
    for term in terms:
        found = found + term
    return found


def roundings(norm: torch.nn.Module, x: torch.Tensor, dy: torch.Tensor) -> float:
    """How far the gradient of the last parameter is from that in float64, in roundings of its
    largest entry."""
    grads = []
    for kind in (x.dtype, torch.float64):
        norm.to(kind).zero_grad()
        norm(x.to(kind)).backward(dy.to(kind))
        grads.append([*norm.parameters()][-1].grad.double())
    unit = torch.finfo(x.dtype).eps / 2 * grads[1].abs().max()
    return ((grads[0] - grads[1]).abs().max() / unit).item()


def leave() -> None:
    """End the group of processes that a row has begun."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def code(text: str) -> str:
    """Lines of code in a cell of a table."""
    marks = {line: "``" if "`" in line else "`" for line in text.splitlines()}
    padded = {line: f" {line} " if mark == "``" else line for line, mark in marks.items()}
    return "<br>".join(f"{mark}{padded[line]}{mark}" for line, mark in marks.items())


def brought_about(rows: list[Row]) -> list[tuple[str, str, str]]:
    """The code behind the rows: what is there before, and what raises or is true when mended."""
    return [(told(r), code(r.given), code(r.fails or r.holds)) for r in rows]


def shown(rows: list[Row]) -> list[tuple[str, str]]:
    """Rows as a page shows them: what one sees; why, and below it the mend."""
    return [(told(r), f"{r.cause} {r.page}<br>{code(r.mend)}") for r in rows]


def told(row: Row) -> str:
    """What one sees: PyTorch's words as code, others as they are."""
    return code(row.says) if row.fails else row.says


RAISES = [
    Row(
        "Expected more than 1 value per channel when training, got input size",
        "One value has no variance: a batch of one sample, often the last of an epoch. The same "
        "input passes in evaluation mode.",
        "[Batch normalization](small-batches)",
        mend="loader = DataLoader(data, batch_size=4, drop_last=True)",
        given="data, norm = torch.randn(9, 3), nn.BatchNorm1d(3)",
        fails="for x in DataLoader(data, batch_size=4): norm(x)",
        holds="[len(norm(x)) for x in loader] == [4, 4]",
    ),
    Row(
        "Expected more than 1 spatial element when training, got input size",
        "Instance norm takes its statistics over the pixels of one channel, and the map has one "
        "pixel. Let channels share them.",
        "[Group and instance normalization](ends-of-the-dial)",
        mend="norm = nn.GroupNorm(1, channels)",
        given="channels, x = 3, torch.randn(2, 3, 1, 1)\nnorm = nn.InstanceNorm2d(3)",
        fails="norm(x)",
        holds="norm(x).abs().max() > 0.5",
    ),
    Row(
        "expected 2D or 3D input (got 4D input)",
        "`BatchNorm1d` takes (N, C) and (N, C, T), `BatchNorm2d` images, `BatchNorm3d` volumes. "
        "Their parameters are the same.",
        "[Normalization layers in practice](axes)",
        mend="images = nn.BatchNorm2d(norm.num_features)\n"
        "images.load_state_dict(norm.state_dict())\n"
        "y = images(x)",
        given="x, norm = torch.randn(2, 3, 4, 4), nn.BatchNorm1d(3)",
        fails="norm(x)",
        holds="y.mean((0, 2, 3)).abs().max() < 1e-5",
    ),
    Row(
        "running_mean should contain 8 elements not 3",
        "Batch norm takes axis 1 for the channels. Here the image is stored with its three "
        "channels last.",
        "[Normalization layers in practice](axes)",
        mend="y = norm(x.movedim(-1, 1)).movedim(1, -1)",
        given="x, norm = torch.randn(2, 8, 8, 3), nn.BatchNorm2d(3)",
        fails="norm(x)",
        holds="y.mean((0, 1, 2)).abs().max() < 1e-5",
    ),
    Row(
        "Given normalized_shape=[3], expected input with shape [*, 3]",
        "Layer norm and RMSNorm take the last axes. Here the image has its channels on axis 1.",
        "[Layer normalization](layer-norm-axes)",
        mend="y = norm(x.movedim(1, -1)).movedim(-1, 1)",
        given="x, norm = torch.randn(2, 3, 4, 4), nn.LayerNorm(3)",
        fails="norm(x)",
        holds="y.mean(1).abs().max() < 1e-5",
    ),
    Row(
        "num_channels (48) must be divisible by num_groups (32)",
        "All groups have the same number of channels.",
        "[Group and instance normalization](group-norm)",
        mend="groups = math.gcd(32, channels)\nnorm = nn.GroupNorm(groups, channels)",
        given="channels = 48",
        fails="nn.GroupNorm(32, channels)",
        holds="norm.num_groups == 16",
    ),
    Row(
        "mixed dtype (CPU): expect parameter to have scalar type of Float",
        "The layer was cast by `half()` or `bfloat16()`, its input was not. The other way round "
        "is allowed: parameters in float32, input in 16 bits.",
        "[Normalization in floating point](sixteen-bits)",
        mend="norm.float()\ny = norm(x)",
        given="x, norm = torch.randn(4, 3), nn.LayerNorm(3).bfloat16()",
        fails="norm(x)",
        holds="y.dtype is torch.float32 and norm(x.half()).dtype is torch.float16",
    ),
    Row(
        "expected scalar type Half but found Float",
        "The parameters of a batch norm were cast by hand, its buffers were not. Leave the whole "
        "layer in float32.",
        "[Normalization in floating point](poisoned)",
        mend="norm.float()\ny = norm(x)",
        given="x, norm = torch.randn(4, 3).half(), nn.BatchNorm1d(3)\n"
        "for p in norm.parameters(): p.data = p.data.half()",
        fails="norm(x)",
        holds="y.dtype is torch.float16 and norm.running_mean.any()",
    ),
    Row(
        "one of the variables needed for gradient computation has been modified by an inplace "
        "operation",
        "The gradient of a norm contains x̂, for which PyTorch keeps the input; `h += norm(h)` "
        "overwrites it.",
        "[Layer normalization](layer-norm)",
        mend="h = h + norm(h)\nh.sum().backward()",
        given="norm, h = nn.LayerNorm(3), 2 * torch.randn(4, 3, requires_grad=True)",
        fails="h += norm(h)\nh.sum().backward()",
        holds="norm.weight.grad.any()",
    ),
    Row(
        "that would mutate a captured Tensor",
        "In training mode batch norm moves its running statistics in place, which a transform of "
        "`torch.func` forbids. The mend takes them from a copy, which uses the batch in any mode.",
        "[Batch normalization in use](batch-norm-in-use)",
        mend="net = torch.func.replace_all_batch_norm_modules_(copy.deepcopy(net))\n"
        "curvature = torch.func.hessian(lambda x: net(x).pow(3).sum())(x)",
        given="net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))\nx = torch.randn(4, 3)",
        fails="torch.func.hessian(lambda x: net(x).pow(3).sum())(x)",
        holds="curvature.shape == (4, 3, 4, 3) and curvature.any()",
    ),
    Row(
        "Batch norm got a batched tensor as input while the running_mean or running_var, which "
        "will be updated in place, were not batched",
        "Under `vmap` one running mean would have to follow many batches at once. For gradients "
        "of single samples take a norm that looks at each sample by itself.",
        "[Batch normalization](batch-norm)",
        mend="norm = nn.GroupNorm(1, 3)\ny = torch.func.vmap(norm)(x)",
        given="norm, x = nn.BatchNorm1d(3), torch.randn(5, 4, 3)",
        fails="torch.func.vmap(norm)(x)",
        holds="torch.allclose(y[0], norm(x[0]), atol=1e-6)",
    ),
    Row(
        "some parameters appear in more than one parameter group",
        "The norms were given a group of their own, and were left in that of all parameters.",
        "[Normalization layers in practice](decay)",
        mend="spared = [p for p in net.parameters() if p.ndim < 2]\n"
        "rest = [p for p in net.parameters() if p.ndim > 1]\n"
        'optimizer = AdamW([{"params": rest}, {"params": spared, "weight_decay": 0}])',
        given="net = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))",
        fails='AdamW([{"params": net.parameters()}, '
        '{"params": net[1].parameters(), "weight_decay": 0}])',
        holds='[len(group["params"]) for group in optimizer.param_groups] == [1, 3]',
    ),
    Row(
        "optimizer contains a parameter group with duplicate parameters",
        "A warning that costs: a matrix that two layers share is stepped twice.",
        "[Normalization layers in practice](decay)",
        mend="params = list(dict.fromkeys(params))\noptimizer = SGD(params, lr=0.1)",
        given="net = nn.Sequential(nn.Embedding(5, 3), nn.LayerNorm(3), nn.Linear(3, 5))\n"
        "net[2].weight = net[0].weight\n"
        "params = [p for layer in net for p in layer.parameters()]",
        fails="SGD(params, lr=0.1)",
        holds='len(optimizer.param_groups[0]["params"]) == len([*net.parameters()])',
    ),
    Row(
        "SyncBatchNorm expected input tensor to be on GPU",
        "In a group of processes PyTorch's layer wants an accelerator. To try the network on a "
        "CPU, put the plain layer in its place.",
        "[Batch normalization over processes](distributed-batch-norm)",
        mend="plain = nn.BatchNorm1d(norm.num_features)\n"
        "plain.load_state_dict(norm.state_dict())\n"
        "y = plain(x)",
        given='torch.distributed.init_process_group("fake", rank=0, world_size=2)\n'
        "norm, x = nn.SyncBatchNorm(3), torch.randn(4, 3)",
        fails="norm(x)",
        holds="y.mean(0).abs().max() < 1e-5",
    ),
]

FILES = [
    Row(
        'Missing key(s) in state_dict: "running_mean", "running_var"',
        "The file has the parameters and not the buffers. Load what is there, and estimate the "
        "statistics on training data.",
        "[Batch normalization in use](in-use-on-digits)",
        mend="net.load_state_dict(state, strict=False)\nupdate_bn(loader, net)",
        given="net, loader = nn.BatchNorm1d(3), [torch.randn(64, 3) + 5]\n"
        "state = dict(net.named_parameters())",
        fails="net.load_state_dict(state)",
        holds="(net.running_mean - 5).abs().max() < 1",
    ),
    Row(
        'Unexpected key(s) in state_dict: "running_mean", "running_var", "num_batches_tracked"',
        "The file is that of a batch norm with stored statistics; this layer keeps none: another "
        "norm, or `track_running_stats=False`. If that is meant, drop the keys it does not have.",
        "[Batch normalization in use](conventions)",
        mend="state = {k: v for k, v in state.items() if k in norm.state_dict()}\n"
        "norm.load_state_dict(state)",
        given="norm, state = nn.GroupNorm(1, 3), nn.BatchNorm1d(3).state_dict()\n"
        'state["weight"] *= 2',
        fails="norm.load_state_dict(state)",
        holds="norm.weight.tolist() == [2, 2, 2]",
    ),
    Row(
        "size mismatch for weight: copying a param with shape torch.Size([3, 1, 1])",
        "γ in another shape. (C, 1, 1) can be reshaped. One value a group, as in ONNX's opset "
        "18, cannot: repeat it for the channels of the group.",
        "[Conventions of the frameworks](frameworks)",
        mend="own = norm.state_dict()\n"
        "state = {k: v.reshape(own[k].shape) for k, v in state.items()}\n"
        "norm.load_state_dict(state)",
        given="norm = nn.LayerNorm(3)\n"
        'state = {"weight": torch.full((3, 1, 1), 2.0), "bias": torch.zeros(3, 1, 1)}',
        fails="norm.load_state_dict(state)",
        holds="norm.weight.tolist() == [2, 2, 2]",
    ),
    Row(
        'Unexpected key(s) in state_dict: "parametrizations.weight.original0", '
        '"parametrizations.weight.original1"',
        "The file is that of a layer with weight norm: `original0` is g, `original1` is v. Put "
        "the norm on, load, and take it off.",
        "[Weight normalization](weight-decay)",
        mend="parametrizations.weight_norm(layer)\n"
        "layer.load_state_dict(state)\n"
        'parametrize.remove_parametrizations(layer, "weight")',
        given="layer, trained = nn.Linear(3, 3), nn.Linear(3, 3)\n"
        "state = parametrizations.weight_norm(trained).state_dict()",
        fails="layer.load_state_dict(state)",
        holds="type(layer) is nn.Linear and torch.allclose(layer.weight, trained.weight)",
    ),
    Row(
        "weight_norm of 'weight' not found in",
        "The norm was put on by `parametrizations.weight_norm`, or was taken off before. Each of "
        "the two ways has its own way back.",
        "[Weight normalization](weight-norm)",
        mend='parametrize.remove_parametrizations(layer, "weight")',
        given="layer = parametrizations.weight_norm(nn.Linear(3, 3))\n"
        "before = layer.weight.detach()",
        fails="nn.utils.remove_weight_norm(layer)",
        holds="type(layer) is nn.Linear and torch.equal(layer.weight, before)",
    ),
    Row(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`",
        "The same formula under another name. Files with `weight_g` and `weight_v` load into the "
        "new layer.",
        "[Weight normalization](weight-norm)",
        mend="parametrizations.weight_norm(layer)\nlayer.load_state_dict(old)",
        given="layer = nn.Linear(3, 3)\n"
        'old = {"weight_g": torch.ones(3, 1), "weight_v": 2 * torch.eye(3), '
        '"bias": torch.zeros(3)}',
        fails="nn.utils.weight_norm(layer)",
        holds="torch.allclose(layer.weight, torch.eye(3))",
    ),
    Row(
        "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol",
        "The deprecated `weight_norm` keeps the computed weight as a tensor with a history. "
        "Change to the new one; it starts from the weight that is there.",
        "[Weight normalization](weight-norm)",
        mend="nn.utils.remove_weight_norm(layer)\n"
        "parametrizations.weight_norm(layer)\n"
        "twin = copy.deepcopy(layer)",
        given="layer = nn.utils.weight_norm(nn.Linear(3, 3))",
        fails="copy.deepcopy(layer)",
        holds="torch.equal(twin.weight, layer.weight)",
    ),
    Row(
        "result type Float can't be cast to the desired output type Long",
        "A hand-written average over `state_dict()` meets `num_batches_tracked`, which is an "
        "integer.",
        "[When evaluation is worse than training](stale)",
        mend="floats = [k for k, v in mean.items() if v.is_floating_point()]\n"
        "for k in floats: mean[k].lerp_(new[k], 0.1)",
        given="net, ema = nn.BatchNorm1d(3), nn.BatchNorm1d(3)\n"
        "_ = net(torch.randn(64, 3) + 5)\n"
        "new, mean = net.state_dict(), ema.state_dict()",
        fails="for k, v in mean.items(): v.mul_(0.9).add_(new[k], alpha=0.1)",
        holds="(ema.running_mean - 0.05).abs().max() < 0.01",
    ),
    Row(
        "Calling eval() is not supported yet.",
        "The network was exported in training mode, and the program normalizes by the batch for "
        "ever. Export again.",
        "[Normalization layers in practice](exporting)",
        mend="net.eval()\nprogram = torch.export.export(net, (x,)).module()",
        given="net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))\n"
        "x = torch.randn(8, 3)\n"
        "program = torch.export.export(net, (x,)).module()",
        fails="program.eval()",
        holds="torch.allclose(program(x), net.eval()(x), atol=1e-6)",
    ),
    Row(
        "`Running layernorm after self-attention in FP16 may cause overflow` (a warning of "
        "[TensorRT](https://github.com/NVIDIA/TensorRT/issues/2781))",
        "In the exported graph the layer is taken apart, and squares overflow in float16 from "
        "256 on. Use the layer as one operation, in float32; ONNX has it from opset 17 on.",
        "[Normalization in floating point](sixteen-bits)",
        mend="y = F.layer_norm(x.float(), x.shape[-1:]).half()",
        given="x = 300 * torch.randn(4, 64).half()\n"
        "centred = x - x.mean(-1, keepdim=True)\n"
        "y = centred / centred.square().mean(-1, keepdim=True).sqrt()",
        holds="(y.float().square().mean(-1) - 1).abs().max() < 0.01",
    ),
]

NUMBERS = [
    Row(
        "Evaluation is far worse than training, on the same data",
        "The running statistics are stale: a momentum that is too slow, or weights that have "
        "changed since. One pass over training data.",
        "[When evaluation is worse than training](stale)",
        mend="update_bn(loader, net)\nnet.eval()",
        given="net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3, momentum=0.001))\n"
        "loader = [3 * torch.randn(64, 3) + 5 for _ in range(20)]\n"
        "for x in loader: y = net(x)",
        holds="(net.eval()(x) - y).abs().max() < 1",
    ),
    Row(
        "The answer to a sample changes with the rest of its batch",
        "`eval()` was forgotten, and batch norm normalizes by the batch.",
        "[Batch normalization in use](forgotten-eval)",
        mend="net.eval()",
        given="net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))\nx = torch.randn(8, 3)",
        holds="torch.allclose(net(x)[:2], net(x[:2]), atol=1e-6)",
    ),
    Row(
        "A frozen network answers differently after training",
        "`requires_grad_(False)` freezes γ and β, not the statistics; and every `net.train()` "
        "sets them moving again. Repeat this after it.",
        "[Batch normalization in use](freeze-both)",
        mend="kind = nn.modules.batchnorm._BatchNorm\n"
        "norms = [m for m in net.modules() if isinstance(m, kind)]\n"
        "for norm in norms: norm.eval()",
        given="net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))\n"
        "before, x = copy.deepcopy(net), torch.randn(8, 3)\n"
        "_ = net.requires_grad_(False).train()",
        holds="(net(x), torch.equal(net[1].running_mean, before[1].running_mean))[1]",
    ),
    Row(
        "The running mean jumps with every batch, in a model that comes from Keras or Flax",
        "Their momentum is the weight of the old average, PyTorch's that of the new batch.",
        "[Conventions of the frameworks](what-bites)",
        mend="norm = nn.BatchNorm1d(1, momentum=1 - 0.99)",
        given="norm = nn.BatchNorm1d(1, momentum=0.99)\n"
        "batches = [torch.randn(8, 1) for _ in range(300)]\n"
        "def seen(): return [(norm(x), norm.running_mean.item())[1] for x in batches]",
        holds="torch.tensor(seen()).std() < 0.1",
    ),
    Row(
        "The average of the weights (EMA, SWA) is far worse than the weights",
        "The average was taken over `parameters()`. Its buffers are still those of the start, "
        "and no batch has passed through the averaged weights.",
        "[When evaluation is worse than training](stale)",
        mend="update_bn(loader, ema)",
        given="net, loader = nn.BatchNorm1d(3), [torch.randn(64, 3) + 5 for _ in range(50)]\n"
        "ema = copy.deepcopy(net)\n"
        "for x in loader: y = net(x)\n"
        "for p, q in zip(ema.parameters(), net.parameters()): p.data.lerp_(q.data, 0.1)",
        holds="ema.eval()(x).mean().abs() < 0.5",
    ),
    Row(
        "`eval()` gives nan, `train()` does not",
        "One batch with an infinite value has spoilt the running statistics, which forget nothing "
        "that is not finite.",
        "[Normalization in floating point](poisoned)",
        mend="norm.reset_running_stats()\nfor x in loader: norm.train()(x)",
        given="norm, loader = nn.BatchNorm1d(3), [torch.randn(64, 3) for _ in range(50)]\n"
        "_ = norm(loader[0] / 0)\n"
        "for x in loader: y = norm(x)",
        holds="y.isfinite().all() and norm.eval()(x).isfinite().all()",
    ),
    Row(
        "Zeros or nan in float16, from an RMSNorm written by hand",
        "Squares overflow from 256 on, which gives zeros; and an ε of 1e-8 is stored as 0, which "
        "gives nan for a row of zeros. Compute in float32, round once.",
        "[Normalization in floating point](eps)",
        mend="wide = x.float()\n"
        "rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-8)\n"
        "y = weight * (wide * rstd).half()",
        given="x, weight = torch.randn(2, 64).half(), torch.ones(64).half()\n"
        "x = x * torch.tensor([[300], [0]])\n"
        "y = weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-8)",
        holds="y.isfinite().all() and y[0].abs().max() > 1",
    ),
    Row(
        "In bfloat16 on a CPU, γ and β of a `LayerNorm` hardly learn from a large batch",
        "PyTorch 2.13 adds up their gradients in the type of x, and 256 + 1 is 256 there. Neither "
        "float32 parameters nor autocast changes it; a float32 input does.",
        "[Norms and precision at work](precision-autocast)",
        mend="y = norm.float()(x.float()).bfloat16()",
        given="norm, x = nn.LayerNorm(8).bfloat16(), torch.randn(4096, 8).bfloat16()\ny = norm(x)",
        holds="(y.sum().backward(), norm.bias.grad[0] == 4096)[1]",
    ),
    Row(
        "Batch norm with a slice as γ trains badly, and its outputs are right",
        "On a CPU the backward pass for (N, C), or maps of one pixel, reads γ as if its numbers "
        "lay side by side: those between the slice's own are used. Only dx is wrong.",
        "[Check your own layer](own-layer-strides)",
        mend="gamma = gamma.contiguous()",
        given="gamma = torch.tensor([1.0, 9, 2, 9, 3, 9])[::2]\n"
        "x, dy = torch.randn(2, 8, 3)\n"
        "def dx(norm, z):\n"
        "    z = z.clone().requires_grad_()\n"
        "    return torch.autograd.grad(norm(z), z, dy)[0]\n"
        "def batch(z): return F.batch_norm(z, None, None, gamma, None, True)\n"
        "def plain(z): return gamma * F.batch_norm(z, None, None, None, None, True)",
        holds="torch.allclose(dx(batch, x), dx(plain, x), atol=1e-5)",
    ),
    Row(
        "The same sequence gives other numbers when it is padded further",
        "Batch norm counts the padding among its values, and so do group and instance norm. Hand "
        "over the valid positions only.",
        "[Normalization layers in practice](padding-and-masks)",
        mend="rows = padded.transpose(1, 2)\n"
        "y = torch.zeros_like(rows)\n"
        "y[mask] = norm(rows[mask])",
        given="norm, x = nn.BatchNorm1d(3), torch.randn(4, 3, 5) + 1\n"
        "padded, mask = F.pad(x, (0, 10)), (torch.arange(15) < 5).expand(4, 15)\n"
        "y = norm(padded).transpose(1, 2)",
        holds="torch.allclose(y[:, :5], norm(x).transpose(1, 2), atol=1e-5)",
    ),
    Row(
        "`GroupNorm` returns β, whatever comes in",
        "One value in each group: a vector, or a map of one pixel, with as many groups as "
        "channels. With two values only a sign is left.",
        "[Conditional normalization](adaptive-groups)",
        mend="norm = nn.GroupNorm(1, 6)",
        given="norm, x = nn.GroupNorm(6, 6), torch.randn(4, 6)",
        holds="norm(x).abs().max() > 0.5",
    ),
    Row(
        "The first time step depends on the last one",
        "`LayerNorm(C)` on (N, C, T) runs over time, and T = C raises no error. Batch, group and "
        "instance norm run over time in any case.",
        "[Layer normalization](layer-norm-axes)",
        mend="def over_channels(x): return norm(x.transpose(1, 2)).transpose(1, 2)\n"
        "y, z = over_channels(x), over_channels(later)",
        given="norm, x = nn.LayerNorm(6), torch.randn(2, 6, 6)\n"
        "later = x + torch.arange(6).eq(5)\n"
        "y, z = norm(x), norm(later)",
        holds="torch.equal(y[..., 0], z[..., 0]) and y.mean(1).abs().max() < 1e-5",
    ),
    Row(
        "A ported Gemma returns nearly nothing",
        "Its file holds γ − 1.",
        "[Norms in a language model](lm-four)",
        mend="norm.weight.data += 1",
        given="norm, x = nn.RMSNorm(64), torch.randn(4, 64)\n"
        "norm.weight.data = 0.1 * torch.randn(64)",
        holds="norm(x).square().mean() > 0.5",
    ),
    Row(
        "A ported diffusion transformer makes noise, and every shape fits",
        "One class takes the scale first from its linear layer, the other the shift.",
        "[Conditional normalization](adaptive-shipped)",
        mend="half = linear.out_features // 2\n"
        "for p in linear.parameters(): p.data = p.data.roll(half, 0)",
        given="linear, c, xhat = nn.Linear(4, 16), torch.randn(2, 4), torch.randn(2, 8)\n"
        "scale, shift = linear(c).chunk(2, -1)\n"
        "wanted = (1 + scale) * xhat + shift\n"
        "def ported(shift, scale): return (1 + scale) * xhat + shift",
        holds="torch.allclose(ported(*linear(c).chunk(2, -1)), wanted, atol=1e-6)",
    ),
]

LEARNING = [
    Row(
        "Four accumulated batches of 4 do not train as one of 16",
        "Each part is normalized by itself. A norm without a batch has the same gradient either "
        "way.",
        "[When evaluation is worse than training](training-itself)",
        mend="net[1] = nn.GroupNorm(1, 3)",
        given="net, w = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), torch.randn(16, 3)\n"
        "x, first = torch.randn(16, 3), net[0].weight\n"
        "def loss(rows): return (net(x[rows]) - w[rows]).square().sum()\n"
        "def slope(rows): return torch.autograd.grad(loss(rows), first)[0]",
        holds="torch.allclose(slope(torch.arange(16)), "
        "sum(map(slope, torch.arange(16).split(4))), rtol=1e-3, atol=1e-4)",
    ),
    Row(
        "The loss becomes nan after a switch to float16",
        "Adam's ε of 1e-8 is 0 there, and so is the square of a small gradient, such as that of a "
        "bias before a norm: a division by 0. Squares of 256 and more overflow. Keep the "
        "weights in float32; autocast and loss scaling do the rest. A running mean that has met "
        "an inf has to be reset.",
        "[Norms and precision at work](precision-autocast)",
        mend='net, scaler = net.float(), torch.amp.GradScaler("cpu")  # or "cuda", twice\n'
        'with torch.autocast("cpu", torch.float16): loss = loss_of(net(x))\n'
        "scaler.scale(loss).backward(), scaler.step(optimizer), scaler.update()",
        given="net, x = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).half(), "
        "torch.randn(8, 3)\n"
        "optimizer = AdamW(net.parameters())\n"
        "def loss_of(y): return y.pow(3).mean()\n"
        "def step():\n    optimizer.zero_grad()\n"
        "    loss_of(net(x.to(net[0].weight.dtype))).backward(), optimizer.step()",
        holds="(step(), all(p.isfinite().all() for p in net.parameters()))[1]",
    ),
    Row(
        "On eight devices the network trains as with an eighth of the batch",
        "`DistributedDataParallel` shares gradients, not statistics. Convert before wrapping.",
        "[Batch normalization over processes](plain-parallel)",
        mend="net = nn.SyncBatchNorm.convert_sync_batchnorm(net)",
        given="net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))",
        holds="isinstance(net[1], nn.SyncBatchNorm)",
    ),
    Row(
        "The gradient of a bias is 0, but for rounding",
        "It stands before a batch norm, which subtracts it again. Leave it out; β has its place.",
        "[Batch normalization](what-it-means)",
        mend="conv = nn.Conv2d(3, 4, 3, bias=False)",
        given="conv, norm, x = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), torch.randn(4, 3, 8, 8)\n"
        "def loss(): return norm(conv(x)).pow(3).mean()\n"
        "def slopes(): return torch.autograd.grad(loss(), [*conv.parameters()])",
        holds="min(slope.abs().max() for slope in slopes()) > 1e-4",
    ),
    Row(
        "γ shrinks, and at the last norm the answers with it",
        "Weight decay is on for all parameters. Spare those with one axis.",
        "[Normalization layers in practice](decay)",
        mend="spared = [p for p in net.parameters() if p.ndim < 2]\n"
        "rest = [p for p in net.parameters() if p.ndim > 1]\n"
        'optimizer = AdamW([{"params": rest}, {"params": spared, "weight_decay": 0}])',
        given="net, x = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)), torch.randn(4, 3)\n"
        "optimizer = AdamW(net.parameters(), weight_decay=0.1)\n"
        "(0 * net(x)).sum().backward()  # a loss that asks for nothing",
        holds="([optimizer.step() for _ in range(100)], net[1].weight.min() == 1)[1]",
    ),
    Row(
        "After one step that was too large, learning is slow for good",
        "Before a norm the gradient falls with the length of the weights, which do not shrink by "
        "themselves. Shorten the rows: the function stays, up to ε.",
        "[Scale invariance and weight decay](scale-invariance)",
        mend="layer.weight.data = F.normalize(layer.weight.data, dim=1)",
        given="layer, norm = nn.Linear(8, 4, bias=False), nn.BatchNorm1d(4)\n"
        "layer.weight.data *= 1000\n"
        "x = torch.randn(32, 8)\n"
        "before = norm(layer(x))\n"
        "def slope(y): return torch.autograd.grad(y.pow(3).mean(), layer.weight)[0].norm()",
        holds="torch.allclose(norm(layer(x)), before, atol=1e-3) and "
        "slope(norm(layer(x))) > 100 * slope(before) > 0",
    ),
]

GROUPS = {"raises": RAISES, "files": FILES, "numbers": NUMBERS, "learning": LEARNING}
