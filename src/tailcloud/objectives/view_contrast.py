"""What BCL and ProCo share: one view of each image is classified, two further views are contrasted."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.heads import Head
from tailcloud.heads.projection import Projecting
from tailcloud.losses import Loss
from tailcloud.losses.base import not_negative, positive
from tailcloud.objectives.base import Network
from tailcloud.objectives.classify import Classify, Noise


class ViewContrast(Classify):
    """a · L(z, y) of the first view, which may be mixed, and b · L_contrast of the others, which never are.

    Args:
        loss: of the classifier.
        counts: training images per class.
        features: the length of a feature.
        classify_weight: a, the weight of the loss.
        contrast_weight: b, the weight of the contrast.
        temperature: T, the divisor of similarities.
    """

    views: ClassVar[int] = 2
    needs: ClassVar[type[Head] | None] = Projecting
    expert_heads: ClassVar[bool] = False
    per_image = False
    weighs: ClassVar[bool] = False

    def __init__(
        self,
        loss: Loss,
        counts: Sequence[int] = (),
        features: int = 1,
        *,
        classify_weight: float,
        contrast_weight: float,
        temperature: float,
    ) -> None:
        super().__init__(loss, counts, features)
        self.classify_weight = not_negative("classify_weight", classify_weight)
        self.contrast_weight = not_negative("contrast_weight", contrast_weight)
        self.temperature = positive("temperature", temperature)

    def with_outputs(self, network: Network, batch: Batch, noise: Noise) -> tuple[Tensor, Tensor]:
        """The scalar to minimise, and the outputs of the first view; all views go through the backbone at once."""
        features, head = network.features(torch.cat([batch.images, *batch.views])), network.head
        assert isinstance(head, Projecting)
        first, further = features[: len(batch.target)], features[len(batch.target) :]
        outputs = head(first)
        classified = self.of_outputs(outputs, batch, noise)
        contrast = self.contrast(head, head.project(further), batch.target.repeat(self.views))
        return self.classify_weight * classified + self.contrast_weight * contrast, outputs

    def contrast(self, head: Projecting, embedding: Tensor, target: Tensor) -> Tensor:
        """The contrast of embeddings [batch, D] of length 1, of the classes ``target``, in float32 or better."""
        raise NotImplementedError
