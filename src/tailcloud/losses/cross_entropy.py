"""Softmax cross-entropy, the baseline of every table."""

from collections.abc import Sequence

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tailcloud.losses.base import Loss, at_least_float32, batch_mean


class CrossEntropyLoss(Loss):
    """−log p_y with p = softmax(s · z) (eq. 1). With a cosine head give it a scale, for example 30."""

    def __init__(self, counts: Sequence[int] | None = None, *, scale: float = 1.0) -> None:  # noqa: ARG002
        super().__init__(scale)

    def forward(self, output: Tensor, target: Tensor, *, epsilon: Tensor | None = None) -> Tensor:  # noqa: ARG002
        """The mean cross-entropy of a batch."""
        return batch_mean(F.cross_entropy(self.logits(at_least_float32(output)), target, reduction="none"))
