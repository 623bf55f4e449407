"""Group and instance normalization."""

from functools import partial

import numpy as np
from torch import Tensor
from torch.nn import functional

from normlib import layers
from normlib.evidence import notation
from normlib.evidence.batch import derive_batch_norm, with_channels
from normlib.evidence.case import Case
from normlib.evidence.core import PLANTS, affine, centred, over_positions, spread_mean
from normlib.evidence.layer import derive_layer_norm
from normlib.verify.derivations import Derivation, Shapes
from normlib.verify.numeric import Flat


def derive_group_norm() -> Derivation:
    """One sample, one group of m channels, each with its own gamma and beta (Wu and He 2018): layer
    norm's formula."""
    return derive_layer_norm()._replace(keywords={"groups": 1})


def derive_instance_norm() -> Derivation:
    """One sample, one channel, m positions: batch norm's formula (Ulyanov et al. 2016)."""
    return derive_batch_norm()._replace(shapes=lambda n: ((1, 1, n), (1,), (1,)))


def torch_group_norm(x: Tensor, gamma: Tensor, beta: Tensor, *, groups: int, eps: float) -> Tensor:
    return functional.group_norm(x, groups, gamma, beta, eps=eps)


def torch_instance_norm(x: Tensor, gamma: Tensor, beta: Tensor, *, eps: float) -> Tensor:
    return functional.instance_norm(x, weight=gamma, bias=beta, eps=eps)


arguments = partial(with_channels, count=2)


def group_shapes(groups: int) -> tuple[Shapes, ...]:
    return arguments((1, 2 * groups, 2)), arguments((2, 3 * groups))


def over_groups(groups: int) -> Flat:
    """The mean of each sample over each group of its channels, spread out again."""

    def mean(a: np.ndarray, *_) -> np.ndarray:
        return spread_mean(a.reshape(len(a), groups, -1), (2,)).reshape(a.shape)

    return centred(mean)


GROUP_NORM = Case(
    forward=layers.group_norm,
    backward=layers.group_norm_backward,
    reference=torch_group_norm,
    lines=notation.GROUP,
    derivation=derive_group_norm,
    shapes=group_shapes,
    flat=over_groups,
    plants=(*PLANTS, *affine("group_norm_backward")),
    errors=16,
    arguments=arguments,
    examples=tuple(
        map(arguments, [(3, 4, 5), (2, 4), (1, 6, 2, 3), (2, 2, 1, 2, 3), (2, 4, 1, 1)])
    ),
    forms=("images",),
    keywords={"groups": 2},
)

INSTANCE_NORM = Case(
    forward=layers.instance_norm,
    backward=layers.instance_norm_backward,
    reference=torch_instance_norm,
    lines=notation.INSTANCE,
    derivation=derive_instance_norm,
    shapes=lambda: (arguments((2, 2, 3)), arguments((1, 1, 2, 2))),
    flat=lambda: centred(over_positions),
    plants=(*PLANTS, *affine("group_norm_backward")),  # it calls group norm
    errors=16,
    arguments=arguments,
    examples=tuple(map(arguments, [(2, 3, 4), (1, 1, 5), (2, 3, 2, 2), (2, 3, 2, 1, 2)])),
    forms=("images",),
)
