"""Kernels in 16 bits: a right one passes, and each witness turns red for its own error."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from normlib import verify

ROWS = {"shapes": ((16, 64), (64,))}
WIDE = lambda a: a.float()  # noqa: E731


def reference(x, weight, eps=1e-5):
    return F.rms_norm(x, weight.shape, weight, eps)


def rms_norm(x, weight, cut=WIDE, eps=1e-5):
    """float32 inside, one rounding at the end; `cut` is what rstd is kept in."""
    h = x.float()
    r = cut((h * h).mean(-1, keepdim=True).add(eps).rsqrt()).float()
    return (h * r * weight.float()).to(x.dtype)


def add_norm(x, residual, weight):
    h = x.float() + residual.float()
    return rms_norm(h, weight).to(x.dtype), h.to(x.dtype)


def add_reference(x, residual, weight):
    return reference(x + residual, weight), x + residual


def add_up_in_16_bits(dy, cache):
    x, r, weight = cache
    total = torch.zeros_like(weight)
    for row in dy.float() * x.float() * r:
        total = (total.float() + row).to(weight.dtype)
    d = dy.float() * weight.float()
    dx = r * d - x.float() * r**3 * (d * x.float()).mean(-1, keepdim=True)
    return dx.to(x.dtype), total


def with_cache(x, weight):
    r = (x.float() ** 2).mean(-1, keepdim=True).add(1e-5).rsqrt()
    return rms_norm(x, weight), (x, r, weight)


class Unsteady:
    """The last bit of one entry turns with each call, as where threads add in any order."""

    calls = 0

    def __call__(self, x, weight):
        self.calls += 1
        y = rms_norm(x, weight)
        return torch.where(torch.arange(64) == 0, y * (1 + self.calls % 2 * 2**-7), y)


def by_rows(x, weight):
    """Another last bit where there is one row alone."""
    return rms_norm(x, weight) * (1 + (len(x) == 1) * 2**-7)


def by_strides(x, weight):
    return rms_norm(x if x.stride(-1) == 1 else x * 1.1, weight)


def judge(layer, backward=None, right=reference, options=ROWS, **more):
    return verify.kernel(layer, backward, reference=right, raises=False, **options, **more)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_right_kernel_is_green_at_every_seed_and_has_all_witnesses(dtype):
    for seed in range(20):
        for shapes in (((4, 8), (8,)), ROWS["shapes"]):
            options = {"shapes": shapes, "dtype": dtype, "seed": seed, "compiled": rms_norm}
            verdict = judge(rms_norm, options=options)
            assert not verdict.red and not verdict.not_run, verdict.differences()
    two = judge(add_norm, right=add_reference, options={"shapes": ((16, 64), (16, 64), (64,))})
    assert not two.red and {"y0", "y1", "dresidual"} <= {c.argument for c in two.checks}


WRONG = {  # a kernel, options, and a witness that is red among others
    "rstd in 16 bits": (lambda x, w: rms_norm(x, w, lambda r: r.to(x.dtype)), {}, "rounding"),
    "another eps": (lambda x, w: rms_norm(x, w, eps=1e-2), {}, "rounding"),
    "unsteady": (Unsteady(), {}, "repeat"),
    "by rows": (by_rows, {}, "batch"),
    "by strides": (by_strides, {}, "layouts"),
    "compiled otherwise": (
        rms_norm, {"compiled": lambda x, w: rms_norm(x, w, eps=1e-2)}, "compiled"),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", WRONG)
def test_each_witness_sees_its_error(case, dtype):
    layer, options, witness = WRONG[case]
    assert witness in judge(layer, dtype=dtype, **options).caught_by


def test_each_array_is_laid_out_alone():
    """PyTorch's batch norm passes back a γ with other strides as if it had none, for (N, C) only:
    dx is then that of the numbers that lie side by side in memory."""
    layer = lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)  # noqa: E731
    shapes, seen = ((16, 8), (8,), (8,)), ("layouts", "dx", "w, every second value")
    found = verify.kernel(layer, shapes=shapes, dtype=torch.float32, raises=False).red
    assert [(c.witness, c.argument, c.how) for c in found] == [seen]
    assert {
        (c.witness, c.argument, c.how) for c in verify.check(layer, shapes=shapes, raises=False).red
    } == {seen}
    maps = (shapes[0] + (3, 3), *shapes[1:])
    assert not verify.kernel(layer, shapes=maps, dtype=torch.float32, raises=False).red


def test_a_pair_that_adds_up_in_16_bits_is_told_so():
    with pytest.raises(verify.VerificationError, match=r"kept in bfloat16.*roundings=2"):
        verify.kernel(with_cache, add_up_in_16_bits, reference=reference, **ROWS)


def test_labels_a_loss_and_a_number_are_taken_and_rows_that_depend_on_others_are_named():
    x, labels = np.random.default_rng(0).standard_normal((16, 10)), np.arange(16) % 10
    loss = judge(
        lambda x, t: F.cross_entropy(x.float(), t), right=F.cross_entropy,
        options={"args": (x, labels)},
    )  # fmt: skip
    assert not loss.red and "batch" in dict(loss.not_run)
    tanh = lambda x, alpha: torch.tanh(alpha.float() * x.float()).to(x.dtype)  # noqa: E731
    shapes = {"shapes": ((16, 8), ())}
    assert not judge(tanh, right=lambda x, alpha: torch.tanh(alpha * x), options=shapes).red


def test_what_cannot_be_asked_is_refused_or_named():
    for options, message in (
        ({"device": "nowhere"}, "device must be one that torch can use here"),
        ({"dtype": torch.float64}, "for float64 there is verify.check"),
        ({"roundings": 0}, "at least 1 rounding"),
    ):
        with pytest.raises(ValueError, match=message):
            judge(rms_norm, **options)
    with pytest.raises(ValueError, match=r"must return float64 .* got bfloat16; give a reference"):
        judge(lambda x, w: rms_norm(x, w).bfloat16(), right=None)
    lacking = dict(judge(rms_norm, right=None).not_run)
    assert {"forward", "compiled"} == {*lacking}
