"""The heads of balanced contrastive learning (Zhu et al., CVPR 2022)."""

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from tailcloud.heads.cosine import CosineHead
from tailcloud.heads.linear import LinearHead
from tailcloud.heads.projection import Projecting, perceptron
from tailcloud.losses.base import at_least_float32


class WithPrototypes(Projecting):
    """A classifier and an embedding; the prototype of a class is an embedding of its row of W, by other weights."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        self.prototype_projection = perceptron(features, norm=classes > 1)  # batch norm needs two rows

    def prototypes(self) -> Tensor:
        """The prototype of each class, [classes, 128], of length 1; in float32 or better."""
        return F.normalize(at_least_float32(self.prototype_projection(self.weight)), dim=1)


class BCLHead(WithPrototypes, LinearHead):
    """With a linear classifier, as published."""

    inference = "linear"


class CosineBCLHead(WithPrototypes, CosineHead):
    """With the cosine classifier that clouds need."""

    inference = "cosine"
