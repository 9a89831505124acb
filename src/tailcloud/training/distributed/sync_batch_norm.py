"""Synchronised batch norm over all ranks, on CPUs and GPUs.

x̂ = (x − μ) / √(σ² + e) with μ and σ² of the micro-batches that all ranks compute at the moment, of any size.
"""

from typing import Any

import torch
from torch import Tensor, nn

from tailcloud.errors import UsageError
from tailcloud.training.distributed.world import World

KINDS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def synchronise(model: nn.Module, world: World) -> None:
    """Replace every batch norm of a model by a synchronised one; parameters and their names stay the same."""
    if world.size == 1:
        return
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if not isinstance(child, KINDS):
                continue
            if type(child) not in KINDS:
                raise UsageError(
                    f"engine.sync_batch_norm supports PyTorch's batch norm, and this model has {type(child).__name__}; "
                    "set it to false, or choose another backbone"
                )
            setattr(parent, name, SyncBatchNorm(child, world))


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """Replaces a batch norm and keeps its parameters and statistics."""

    def __init__(self, plain: nn.modules.batchnorm._BatchNorm, world: World) -> None:
        super().__init__(plain.num_features, plain.eps, plain.momentum, plain.affine, plain.track_running_stats)
        self._parameters, self._buffers = plain._parameters, plain._buffers
        self.training, self.world = plain.training, world

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of dimensions is allowed."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalised over all ranks in training mode, by the running statistics in evaluation mode."""
        if not self.training:
            return super().forward(input)
        normalised: Tensor
        normalised, mean, square, count = _Normalise.apply(  # type: ignore[no-untyped-call]
            input, self.weight, self.bias, self.eps, self.world
        )
        if self.track_running_stats:
            self._update_statistics(mean, square / (count - 1), count)
        return normalised

    @torch.no_grad()
    def _update_statistics(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        """Move the running statistics towards those of the batch; the variance is unbiased."""
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.num_batches_tracked += 1
        rate = 1 / self.num_batches_tracked.to(mean) if self.momentum is None else mean.new_tensor(self.momentum)
        rate = torch.where(count > 1, rate, 0)
        self.running_mean.lerp_(mean.to(self.running_mean), rate.to(self.running_mean))
        self.running_var.lerp_(variance.nan_to_num().to(self.running_var), rate.to(self.running_var))


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float, world: World
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Normalised x; mean, sum of squared deviations and count of each channel, over all ranks."""
        wide = x if x.dtype == torch.float64 else x.float()
        mean, square, count = merged(*moments(wide), world)
        scale = (square / count.clamp(min=1) + eps).rsqrt()
        unit = (wide - along(mean, x)) * along(scale, x)
        context.save_for_backward(unit, weight, scale, count)
        context.world, context.dtype = world, x.dtype
        context.mark_non_differentiable(mean, square, count)
        result = unit if weight is None else unit * along(weight.to(unit), x)
        return (result if bias is None else result + along(bias.to(unit), x)).to(x.dtype), mean, square, count

    @staticmethod
    def backward(context: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """∂/∂x = w/σ · (u − mean(u) − x̂ · mean(u·x̂)), the means over all ranks, u the upstream gradient."""
        unit, weight, scale, count = context.saved_tensors
        upstream = upstream.to(unit)
        own = torch.stack([channel_sum(upstream), channel_sum(upstream * unit)])
        means = context.world.sum(own) / count.clamp(min=1)
        slope = upstream - along(means[0], unit) - unit * along(means[1], unit)
        factor = scale if weight is None else scale * weight.to(scale)
        by_weight, by_bias = (None, None) if weight is None else (own[1].to(weight), own[0].to(weight))
        return (slope * along(factor, unit)).to(context.dtype), by_weight, by_bias, None, None


def moments(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and sum of squared deviations of each channel [C] of x [batch, C, …], and the count of its numbers [1]."""
    count = x.new_tensor([x.numel() // x.shape[1]])
    mean = channel_sum(x) / count.clamp(min=1)
    return mean, channel_sum((x - along(mean, x)).square()), count


def merged(mean: Tensor, square: Tensor, count: Tensor, world: World) -> tuple[Tensor, Tensor, Tensor]:
    """The same over all ranks: Σ (q_i + n_i·(μ_i − μ)²), which loses no digits to large means."""
    sums = world.sum(torch.cat([count, mean * count]))
    counts, overall = sums[:1], sums[1:] / sums[:1].clamp(min=1)
    return overall, world.sum(square + count * (mean - overall).square()), counts


def channel_sum(x: Tensor) -> Tensor:
    """The sum over all dimensions but channels."""
    return x.sum(dim=[0, *range(2, x.ndim)])


def along(values: Tensor, x: Tensor) -> Tensor:
    """Values of channels [C], reshaped to broadcast with x [batch, C, …]."""
    return values.view(1, -1, *[1] * (x.ndim - 2))
