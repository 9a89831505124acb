"""A memory of class centroids instead of a classifier (OLTR; Liu et al., CVPR 2019)."""

import torch

from tailcloud.head_transforms.base import HeadTransform, Trained
from tailcloud.heads import Head
from tailcloud.heads.oltr import MemoryHead


class Remember(HeadTransform):
    """A memory head whose centroids are the class means of the training features; its other weights are fresh.

    A class without images has its centroid where it starts, at 0.
    """

    def kind(self, before: str) -> str:  # noqa: ARG002
        """A memory head, after any other."""
        return "memory"

    def apply(self, old: Head, new: Head, trained: Trained) -> None:  # noqa: ARG002
        """Means in float64 on the CPU, where sums do not depend on who comes first."""
        assert isinstance(new, MemoryHead)
        features, target = (found.cpu() for found in trained.features())
        sums = torch.zeros(new.centroids.shape, dtype=torch.float64).index_add_(0, target, features.double())
        images = target.bincount(minlength=len(sums)).clamp(min=1)
        new.centroids.copy_(sums / images[:, None])
