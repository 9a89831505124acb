"""Balanced contrastive learning (Zhu et al., CVPR 2022).

L = a · L(z, y) + b · L_contrast,   z of the first view of each image, L_contrast of two further views
L_contrast = −mean over i of mean over p of log ( e^(v_i·v_p/T) / Σ_j mean over k of e^(v_i·v_k/T) )
p   the views of i's class but i itself, and its prototype
k   the views of class j but i itself, and its prototype, for each class j
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from tailcloud.heads import Head
from tailcloud.heads.bcl import WithPrototypes
from tailcloud.heads.projection import Projecting
from tailcloud.losses import Loss
from tailcloud.losses.base import batch_mean
from tailcloud.objectives.view_contrast import ViewContrast


class BCL(ViewContrast):
    """A loss on the outputs, and a contrast of embeddings in which every class has the same weight.

    Arguments are those of ``ViewContrast``, by default as published.
    """

    needs: ClassVar[type[Head] | None] = WithPrototypes

    def __init__(
        self,
        loss: Loss,
        counts: Sequence[int] = (),
        features: int = 1,
        *,
        classify_weight: float = 2.0,
        contrast_weight: float = 0.6,
        temperature: float = 0.1,
    ) -> None:
        super().__init__(
            loss,
            counts,
            features,
            classify_weight=classify_weight,
            contrast_weight=contrast_weight,
            temperature=temperature,
        )

    def contrast(self, head: Projecting, embedding: Tensor, target: Tensor) -> Tensor:
        """The balanced contrast, with the prototypes of the head."""
        assert isinstance(head, WithPrototypes)
        prototypes = head.prototypes()
        with torch.autocast(embedding.device.type, enabled=False):
            return balanced_contrast(embedding, target, prototypes, self.temperature)


def balanced_contrast(embedding: Tensor, target: Tensor, prototypes: Tensor, temperature: float) -> Tensor:
    """The contrast of embeddings [batch, D] and the prototypes of all classes [classes, D], all of length 1."""
    of_class = torch.cat([target, torch.arange(len(prototypes), device=target.device)])
    same = target[:, None] == of_class
    itself = torch.eye(*same.shape, dtype=torch.bool, device=target.device)
    sizes = same.sum(dim=0) + 1 - same.int()  # of each column's class, with its prototype and without the anchor
    similarity = (embedding @ torch.cat([embedding, prototypes]).T / temperature).masked_fill(itself, -torch.inf)
    total = (similarity - sizes.clamp(min=1).to(similarity).log()).logsumexp(dim=1, keepdim=True)
    gap, positives = (total - similarity).masked_fill(itself, 0), same & ~itself
    return batch_mean((gap * positives).sum(dim=1) / positives.sum(dim=1))
