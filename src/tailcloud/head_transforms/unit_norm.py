"""Anchors of length 1, so that a learning rate means the same for every run."""

import torch.nn.functional as F  # noqa: N812

from tailcloud.head_transforms.base import HeadTransform, Trained
from tailcloud.head_transforms.head_kinds import made_of
from tailcloud.heads import CosineHead, Head


class Unit(HeadTransform):
    """The anchors of a cosine head, brought to length 1; its outputs stay as they are.

    The angle by which a step turns an anchor goes with the learning rate over the anchor's squared length, and how long
    anchors have grown differs from run to run.
    """

    def kind(self, before: str) -> str:
        """Of a linear head the lengths matter."""
        return made_of(before, {"cosine": "cosine"}, "unit")

    def apply(self, old: Head, new: Head, trained: Trained) -> None:  # noqa: ARG002
        """The same directions."""
        assert isinstance(old, CosineHead)
        assert isinstance(new, CosineHead)
        new.weight.copy_(F.normalize(old.weight, dim=1))
