"""The nearest class mean instead of a trained classifier (NCM; Kang et al., ICLR 2020)."""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F  # noqa: N812

from tailcloud.head_transforms.base import HeadTransform, TrainedModelView
from tailcloud.heads import Head, NearestMeanHead
from tailcloud.losses.base import one_of

Normalisation = Literal["cl2n", "l2n", "un"]


class NearestMean(HeadTransform):
    """Classifies by the nearest class mean of the training features; the trained head is not used.

    Args:
        counts: training images per class; a class without any is never predicted.
        normalise: of features: "cl2n": subtract the mean of all training features, then scale to length 1; "l2n": scale
            to length 1; "un": none. Class means are computed afterwards and not normalised.
    """

    balances: ClassVar[bool] = True

    def __init__(self, counts: Sequence[int], *, normalise: Normalisation = "cl2n") -> None:
        super().__init__(counts)
        self.normalise = one_of("normalise", normalise, Normalisation)

    def head_after(self, before: str) -> str:  # noqa: ARG002
        """A nearest-mean head, after any other."""
        return "nearest-mean"

    def apply(self, old: Head, new: Head, trained: TrainedModelView) -> None:  # noqa: ARG002
        """Compute the means in float64 on the CPU, where the order of additions is fixed."""
        assert isinstance(new, NearestMeanHead)
        features, labels = (values.cpu() for values in trained.features())
        features = features.double()
        centre = features.mean(dim=0) if self.normalise == "cl2n" else torch.zeros_like(features[0])
        features = features - centre
        if self.normalise != "un":
            features = F.normalize(features, dim=1)
        sums = torch.zeros(new.means.shape, dtype=torch.float64).index_add_(0, labels, features)
        counts = torch.bincount(labels, minlength=len(sums))[:, None]
        new.means.copy_((sums / counts).masked_fill_(counts == 0, torch.inf))
        new.centre.copy_(centre)
        new.unit.fill_(self.normalise != "un")
