"""Internal covariate shift by the definition of Santurkar et al. (2018), at a step of training."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from normlib.experiments import networks
from normlib.experiments.training import Moment, Params


class Shift(NamedTuple):
    """The gradient of one layer's weights before and after the layers below it have moved."""

    before: Tensor  # G
    after: Tensor  # G'

    @property
    def difference(self) -> float:
        """Definition 2.1: the distance of G and G'."""
        return (self.before - self.after).norm().item()

    @property
    def relative(self) -> float:
        """The distance as a share of |G|; not a number where both are zero."""
        return ((self.before - self.after).norm() / self.before.norm()).item()

    @property
    def cosine(self) -> float:
        lengths = self.before.norm() * self.after.norm()
        return ((self.before * self.after).sum() / lengths).item()


def layer_of(name: str, params: Params) -> int:
    """The layer of a parameter, from 0 on: 3 for w3, gamma3 and beta3, the last for the output."""
    digits = name.lstrip("abegmtw")
    return int(digits) if digits.isdigit() else networks.depth(params)


def weights_of(layer: int, params: Params) -> str:
    return f"w{layer}" if layer < networks.depth(params) else "w_out"


def slope(params: Params, loss: Callable, rows: Any, name: str) -> Tensor:
    """The gradient of the loss with respect to one parameter."""
    free = params[name].detach().requires_grad_()
    return torch.autograd.grad(loss(params | {name: free}, rows), free)[0]


def below_moved(moment: Moment, layer: int) -> Params:
    """The parameters of the step, with those of all layers below `layer` already updated."""
    return {
        name: moment.after[name] if layer_of(name, moment.before) < layer else value
        for name, value in moment.before.items()
    }


def shift_of_gradient(moment: Moment, loss: Callable, layer: int) -> Shift:
    """G and G' of Santurkar et al. (2018), Definition 2.1, for the weights of one layer.

    G is the gradient at step t. G' is the gradient on the same batch, with all parameters of the
    layers below at their values of step t + 1, and those of this layer and above as they were.
    """
    name = weights_of(layer, moment.before)
    return Shift(moment.slopes[name], slope(below_moved(moment, layer), loss, moment.rows, name))


def first_order_shift(moment: Moment, loss: Callable, layer: int) -> Tensor:
    """The derivative of G' with respect to the length of the step, in the direction of the step:
    the mixed block of the Hessian times the move of the layers below, G' - G to first order."""
    name = weights_of(layer, moment.before)
    moved = below_moved(moment, layer)
    below = [n for n in moment.before if layer_of(n, moment.before) < layer]
    free = {n: moment.before[n].detach().requires_grad_() for n in [*below, name]}
    value = loss(moment.before | free, moment.rows)
    own = torch.autograd.grad(value, free[name], create_graph=True)[0]
    weights = torch.ones_like(own).requires_grad_()
    back = torch.autograd.grad(own, [free[n] for n in below], weights, create_graph=True)
    along = sum((b * (moved[n] - moment.before[n])).sum() for n, b in zip(below, back, strict=True))
    return torch.autograd.grad(along, weights)[0]
