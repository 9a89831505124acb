"""Unit-length weights of a cosine head, so that a learning rate has the same effect in every run."""

import torch.nn.functional as F  # noqa: N812

from tailcloud.head_transforms.base import HeadTransform, TrainedModelView, look_up_head
from tailcloud.heads import CosineHead, Head


class UnitNorm(HeadTransform):
    """Scales the class weights of a cosine head to length 1; its outputs stay the same.

    The angle by which a step turns a weight is proportional to the learning rate over the squared length of the weight,
    and lengths differ from run to run.
    """

    def head_after(self, before: str) -> str:
        """Only a cosine head: the outputs of a linear head depend on the lengths."""
        return look_up_head(before, {"cosine": "cosine"}, "unit")

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:  # noqa: ARG002
        """Keep the directions."""
        assert isinstance(old, CosineHead)
        assert isinstance(new, CosineHead)
        new.weight.copy_(F.normalize(old.weight, dim=1))
