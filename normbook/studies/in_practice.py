"""Questions that come up when networks with normalization layers are trained, as functions."""

import copy

import torch
from torch import Tensor, nn


def reach(layer: nn.Module, shape: tuple, *, training: bool = True) -> tuple:
    """For each axis, at how many positions the output moves with one entry."""
    layer = copy.deepcopy(layer).double().train(training)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator, dtype=torch.float64)
    step = torch.zeros_like(x)
    step[(0,) * x.ndim] = 1
    moved = torch.autograd.functional.jvp(layer, x, step)[1].abs() > 1e-12
    others = [[b for b in range(x.ndim) if b != a] for a in range(x.ndim)]
    return tuple(int(moved.any(dim=axes).sum()) for axes in others)


def inputs() -> Tensor:
    return torch.randn(32, 8, generator=torch.Generator().manual_seed(1)).double()


def network(*, eps: float = 1e-14, activation: type = nn.ReLU) -> nn.Sequential:
    """Two hidden layers of 8 units; γ and β are random, as after training."""
    modules: list[nn.Module] = []
    for _ in range(2):
        norm = nn.BatchNorm1d(8, eps=eps, track_running_stats=False)
        modules += [nn.Linear(8, 8, bias=False), norm, activation()]
    net = nn.Sequential(*modules, nn.Linear(8, 3)).double()
    generator = torch.Generator().manual_seed(2)
    for parameter in net.parameters():
        _ = nn.init.normal_(parameter, generator=generator)
    return net


@torch.no_grad()
def measure_move(names: list[str], factor: float = 0.9, **options) -> float:
    """How far the outputs move, without the last bias, if these parameters shrink."""
    net = network(**options)
    parameters = dict(net.named_parameters())
    _ = parameters["6.bias"].zero_()
    before = net(inputs())
    for name in names:
        parameters[name] *= factor
    return float((net(inputs()) - before).norm() / before.norm())


def masked_batch_norm(norm: nn.BatchNorm1d, x: Tensor, mask: Tensor) -> Tensor:
    """Normalize the valid positions of x (N, C, T) by themselves; mask (N, T)."""
    rows = x.transpose(1, 2)
    y = torch.zeros_like(rows)
    y[mask] = norm(rows[mask])
    return y.transpose(1, 2)
