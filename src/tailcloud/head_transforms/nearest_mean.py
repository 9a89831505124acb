"""The nearest class mean in the place of a classifier (NCM; Kang et al., ICLR 2020)."""

from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

import torch
import torch.nn.functional as F  # noqa: N812

from tailcloud.head_transforms.base import HeadTransform, Trained
from tailcloud.heads import Head, NearestMeanHead

Normalisation = Literal["cl2n", "l2n", "un"]


class NearestMean(HeadTransform):
    """Classes are the means of their training features; the head before does not matter.

    Args:
        counts: training images per class; a class without any is never predicted.
        normalise: "cl2n": the mean of all training features is taken off, and what is left brought to length 1; "l2n":
            brought to length 1 alone; "un": features as they are. Means are taken afterwards and left as they are.
    """

    balances: ClassVar[bool] = True

    def __init__(self, counts: Sequence[int], *, normalise: Normalisation = "cl2n") -> None:
        super().__init__(counts)
        if normalise not in get_args(Normalisation):
            raise ValueError(f'normalise = "{normalise}" must be one of {", ".join(get_args(Normalisation))}')
        self.normalise = normalise

    def kind(self, before: str) -> str:  # noqa: ARG002
        """Whatever was before."""
        return "nearest-mean"

    def apply(self, old: Head, new: Head, trained: Trained) -> None:  # noqa: ARG002
        """Means in float64 on the CPU, where sums do not depend on who comes first."""
        assert isinstance(new, NearestMeanHead)
        found, classes = trained.features()
        features, labels = found.cpu().double(), classes.cpu()
        centre = features.mean(dim=0) if self.normalise == "cl2n" else torch.zeros_like(features[0])
        features = features - centre
        if self.normalise != "un":
            features = F.normalize(features, dim=1)
        sums = torch.zeros(new.means.shape, dtype=torch.float64).index_add_(0, labels, features)
        counts = torch.bincount(labels, minlength=len(sums))[:, None]
        new.means.copy_((sums / counts).masked_fill_(counts == 0, torch.inf))
        new.centre.copy_(centre)
        new.unit.fill_(self.normalise != "un")
