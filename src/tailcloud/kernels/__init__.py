"""Kernels of our own for a small network on a CUDA GPU, where PyTorch's many small ones leave it idle.

They compute what the plain modules compute, from the same parameters, in bfloat16 with float32 sums, and fall back to
the plain ones where they do not fit. docs/performance.md says what each of them gained.
"""

from importlib.util import find_spec

from torch import Tensor

from tailcloud.backbones.cifar_resnet import CifarResNet
from tailcloud.classifier import Classifier
from tailcloud.data.loaders.resident import ResidentLoader
from tailcloud.heads import Head
from tailcloud.objectives import Objective
from tailcloud.objectives.classify import Classify

__all__ = ["CannotFuse", "FusedNetwork", "obstacle"]


LARGEST_SIDE = 128  # pixels; the kernels count in 32 bits, and evaluation takes many images at a time


class CannotFuse(Exception):
    """A kernel did not compile; nothing was changed."""


def obstacle(model: Classifier, height: int, width: int) -> str | None:
    """Why a model cannot be computed by these kernels on images of that size, if so."""
    if max(height, width) > LARGEST_SIDE:
        return f"they are made for images of at most {LARGEST_SIDE} pixels a side"
    if find_spec("triton") is None:
        return "the package triton is not installed"
    from tailcloud.kernels.residual import fits

    return None if fits(model.backbone) else "they are made for small residual networks of at most 64 channels"


class FusedNetwork:
    """A classifier whose backbone is computed by the kernels."""

    def __init__(self, model: Classifier, height: int, width: int) -> None:
        from tailcloud.kernels.residual import FusedResNet

        assert isinstance(model.backbone, CifarResNet)  # or there was an obstacle
        self.model = model
        self.backbone = FusedResNet(model.backbone, height, width)

    @property
    def head(self) -> Head:
        """The model's, as it is now."""
        return self.model.head

    def features(self, images: Tensor) -> Tensor:
        """Features [batch, D] in float32 of normalised images."""
        return self.backbone(images)

    @property
    def loader(self) -> type[ResidentLoader]:
        """Makes batches in one kernel."""
        from tailcloud.kernels.batch_assembly import FusedLoader

        return FusedLoader

    def objective(self, plain: Objective) -> Objective:
        """Head and loss in one kernel, where they fit; else the objective as it is."""
        from tailcloud.kernels.head_loss import FusedClassify, fits

        return FusedClassify(plain.loss) if type(plain) is Classify and fits(self.head, plain.loss) else plain

    def __call__(self, images: Tensor) -> Tensor:
        """The head's outputs for normalised images."""
        outputs: Tensor = self.head(self.features(images))
        return outputs
