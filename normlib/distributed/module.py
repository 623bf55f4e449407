"""The torch module: parameters, buffers and their names as in torch.nn.BatchNorm1d, 2d and 3d."""

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from normlib.distributed.batch import BatchNormCache, Moments, batch_norm, batch_norm_backward
from normlib.layers.batch import batch_norm_inference
from normlib.layers.guard import check_eps, check_number


class _Pair(torch.autograd.Function):
    """The pair, as autograd calls it."""

    @staticmethod
    def forward(ctx, x: Tensor, gamma: Tensor, beta: Tensor, eps: float, group):
        y, cache = batch_norm(x, gamma, beta, eps=eps, group=group)
        ctx.save_for_backward(cache.xhat, cache.rstd, cache.gamma)
        ctx.rest = cache.moments, cache.group
        return y, cache.moments

    @staticmethod
    @once_differentiable
    def backward(ctx, dy: Tensor, _):
        gradients = batch_norm_backward(dy, BatchNormCache(*ctx.saved_tensors, *ctx.rest))
        return *gradients, None, None


class BatchNorm(nn.Module):
    """Batch normalization of one batch that lies on several workers, for x (N, C, *spatial).

    In training it normalizes by the statistics of all workers, who must all call it, and all call
    backward, even on an empty part. Parameters and buffers have PyTorch's names, so a state_dict
    fits both ways. The gradients of weight and bias are this worker's share, as those of all other
    parameters: DistributedDataParallel treats them alike. `momentum` is the weight of the new
    batch; None keeps the plain mean of all batches. In evaluation nothing is sent.

    Errors: those of `batch_norm`; ValueError if the whole batch has a single value per channel,
    whose unbiased variance is undefined. After an error the buffers are as they were.
    """

    def __init__(
        self, num_features: int, *, eps: float = 1e-5, momentum: float | None = 0.1, group=None
    ):
        super().__init__()
        self.num_features, self.eps, self.group = num_features, check_eps(eps), group
        self.momentum = momentum and check_number("momentum", momentum, 0.0, 1.0)
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            statistics = self.running_mean, self.running_var
            return batch_norm_inference(x, *statistics, self.weight, self.bias, eps=self.eps)[0]
        y, whole = _Pair.apply(x, self.weight, self.bias, self.eps, self.group)
        self._follow(whole)
        return y

    @torch.no_grad()
    def _follow(self, whole: Moments) -> None:
        """The running statistics, after one more batch."""
        if whole.count < 2:
            raise ValueError(
                "x must have at least 2 values in each channel, over all workers, but got a single "
                "one; its unbiased variance is undefined, so use a larger batch"
            )
        self.num_batches_tracked += 1
        weight = 1 / int(self.num_batches_tracked) if self.momentum is None else self.momentum
        for buffer, new in (
            (self.running_mean, whole.mean),
            (self.running_var, whole.m2 / (whole.count - 1)),
        ):
            buffer.lerp_(new.to(buffer.dtype), weight)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"
