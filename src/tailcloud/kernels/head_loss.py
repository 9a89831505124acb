"""Head and loss in one kernel, with their gradients: features in, the loss of the batch out.

What ``Classify`` computes from a head and a loss of the softmax family, for as many classes as one program can hold:

    z_j = s·cos θ_j − s·k·δ_j·|ε_j| − s·m·[j = y],   L = −(1 − p_y)^γ · log p_y,   p = softmax(z)

with λ and 1 − λ before the terms of a mixed batch. A linear head has w·f + b instead of cos θ.
"""

from typing import Any

import torch
import triton
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import CosineHead, Head, LinearHead
from tailcloud.kernels.head_loss_kernel import finish
from tailcloud.kernels.launch import launch
from tailcloud.losses import CrossEntropyLoss, GCLLoss, Loss
from tailcloud.losses.gcl import SIGMA
from tailcloud.objectives import Network
from tailcloud.objectives.classify import Classify, Noise

TINY = 1e-12  # the shortest length that PyTorch's normalize divides by
ROWS = 32  # samples at a time
LARGEST = 128  # classes, and features


def fits(head: Head, loss: Loss) -> bool:
    """Whether the kernel can compute that head and loss."""
    plain = type(loss) is CrossEntropyLoss and loss.weights is None and not loss.smoothing
    clouded = type(loss) is GCLLoss and not loss.tau
    known = type(head) in {CosineHead, LinearHead} and (plain or clouded)
    return known and max(max(weight.shape) for weight in head.parameters()) <= LARGEST


class FusedClassify(Classify):
    """The same objective; the kernel takes the absolute value of its random numbers."""

    def draw(self, batch: Batch, generator: torch.Generator) -> Noise:
        """The normal numbers of both terms."""
        if not isinstance(self.loss, GCLLoss):
            return None, None
        shape, device = self.loss.shape(len(batch.target)), batch.target.device
        first = torch.randn(shape, device=device, generator=generator)
        return first, torch.randn(shape, device=device, generator=generator) if batch.other is not None else None

    def forward(self, network: Network, batch: Batch, noise: Noise) -> Tensor:
        """The scalar to minimise."""
        with torch.autocast(batch.images.device.type, enabled=False):
            return self.of_features(network.features(batch.images), network.head, batch, noise)

    def of_features(self, features: Tensor, head: Head, batch: Batch, noise: Noise) -> Tensor:
        """The same from the features of the batch's images."""
        assert isinstance(head, CosineHead | LinearHead)
        bias = None if isinstance(head, CosineHead) else head.bias
        loss: Tensor = _HeadLoss.apply(features, head.weight, bias, self, batch, noise)
        return loss


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, features: Tensor, weight: Tensor, bias: Tensor | None, objective: FusedClassify, batch: Batch,
        noise: Noise,
    ) -> Tensor:  # fmt: skip
        loss = objective.loss
        (classes, size), cosine, mixed = weight.shape, bias is None, batch.other is not None
        gradients = [like.new_empty(like.shape) for like in (features, weight, weight[:, 0])]
        value = torch.empty((), device=features.device)
        first, second = noise
        down, across = (
            (0, 0) if first is None else (s if n > 1 else 0 for s, n in zip(first.stride(), first.shape, strict=True))
        )
        clouded = isinstance(loss, GCLLoss)
        launch(
            finish, (1,),
            features, weight, weight if bias is None else bias, batch.target,
            batch.other if mixed else batch.target, batch.lam if mixed else value,
            features if first is None else first, features if second is None else second,
            loss.reach if clouded else features, value, *gradients,
            len(features), loss.scale, loss.margin if clouded else 0.0, loss.focal if clouded else 0.0,
            D=size, BD=max(16, triton.next_power_of_2(size)), C=classes, BC=max(16, triton.next_power_of_2(classes)),
            BN=ROWS, COSINE=cosine, MIXED=mixed, NOISY=first is not None, ACROSS=across, DOWN=down,
            SIGMA=SIGMA, TINY=TINY, num_warps=4 if classes <= 32 else 8, num_stages=1,
        )  # fmt: skip
        context.save_for_backward(*gradients)
        context.cosine = cosine
        return value

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        by_features, by_weight, by_bias = torch._foreach_mul(list(context.saved_tensors), gradient)
        return by_features, by_weight, None if context.cosine else by_bias, None, None, None
