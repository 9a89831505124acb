"""A memory of class centroids (OLTR; Liu et al., CVPR 2019)."""

import torch

from tailcloud.head_transforms.base import HeadTransform, TrainedModelView
from tailcloud.heads import Head
from tailcloud.heads.oltr import MemoryHead


class MemoryTransform(HeadTransform):
    """A memory head whose centroids are the class means of the training features; its other weights are fresh.

    The centroid of a class without images is 0.
    """

    def head_after(self, before: str) -> str:  # noqa: ARG002
        """A memory head, after any other."""
        return "memory"

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:  # noqa: ARG002
        """Compute the means in float64 on the CPU, where the order of additions is fixed."""
        assert isinstance(new, MemoryHead)
        features, target = (values.cpu() for values in trained.features())
        sums = torch.zeros(new.centroids.shape, dtype=torch.float64).index_add_(0, target, features.double())
        images = target.bincount(minlength=len(sums)).clamp(min=1)
        new.centroids.copy_(sums / images[:, None])
