"""Fused Triton kernels for small networks on a CUDA GPU, where PyTorch's many small kernels leave it idle.

They compute the same as the plain modules, from the same parameters, in bfloat16 with float32 sums. What they do not
support is computed by the plain modules. For small residual networks, ``residual`` (with ``convolution``) is the
backbone, ``branches`` one that has several ends, ``head_loss`` head and loss, ``batch_assembly`` makes batches, with
``image_operations`` for the operations of AutoAugment and the like. For EfficientNet-Lite, ``depthwise`` has
convolutions, and ``batch_norm`` batch norm with what follows it. ``launch`` starts kernels, ``compile_together``
compiles them before, with processes (``compiler_process``) that import Triton alone: so kernels are in files of their
own. docs/performance.md has what was gained.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from math import ceil
from typing import Unpack, cast

from torch import Tensor

from tailcloud.backbones.efficientnet_lite import EfficientNetLite, SameConv2d
from tailcloud.classifier import Classifier
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.base import Loader, LoaderOptions
from tailcloud.data.loaders.images import Images
from tailcloud.data.loaders.resident import ResidentImages
from tailcloud.heads import Head
from tailcloud.objectives import Objective
from tailcloud.objectives.classify import Classify
from tailcloud.sampling import Sampler

__all__ = ["CannotFuse", "FusedLayers", "FusedNetwork", "has_fused_layers", "obstacle"]


LARGEST_SIDE = 128  # pixels; the kernels count in 32 bits, and evaluation batches are large


class CannotFuse(Exception):
    """A kernel did not compile; nothing was changed."""


def obstacle(model: Classifier, height: int, width: int) -> str | None:
    """Why these kernels cannot compute a model on images of that size; None if they can."""
    if max(height, width) > LARGEST_SIDE:
        return f"they are made for images of at most {LARGEST_SIDE} pixels a side"
    if find_spec("triton") is None:
        return "the package triton is not installed"
    from tailcloud.kernels.residual import fits

    if fits(model.backbone):
        return None
    return "they are made for small residual networks of at most 64 channels"


class FusedNetwork:
    """A classifier whose backbone is computed by the kernels."""

    def __init__(self, model: Classifier, height: int, width: int) -> None:
        from tailcloud.kernels.branches import fused_backbone

        self.model = model
        self.backbone = fused_backbone(model.backbone, height, width)

    @property
    def head(self) -> Head:
        """The model's current head."""
        return self.model.head

    def features(self, images: Tensor) -> Tensor:
        """Features [batch, D] in float32 of normalised images."""
        return self.backbone(images)

    def loader(
        self, images: Images, sampler: Sampler, transform: Normalise, **options: Unpack[LoaderOptions]
    ) -> Loader:
        """The training batches of a stage, in one kernel each or in few."""
        from tailcloud.kernels.batch_assembly import FusedLoader

        return FusedLoader(cast(ResidentImages, images), sampler, transform, **options)  # or there was an obstacle

    def objective(self, plain: Objective) -> Objective:
        """Head and loss in one kernel if it supports them; otherwise the plain objective."""
        from tailcloud.kernels.head_loss import FusedClassify, fits

        return FusedClassify(plain.loss) if type(plain) is Classify and fits(self.head, plain.loss) else plain

    def __call__(self, images: Tensor) -> Tensor:
        """The head's outputs for normalised images."""
        outputs: Tensor = self.head(self.features(images))
        return outputs


def has_fused_layers(model: Classifier) -> bool:
    """Whether ``FusedLayers`` can compute a model, on a machine with triton."""
    return isinstance(model.backbone, EfficientNetLite) and find_spec("triton") is not None


class FusedLayers:
    """Kernels for layers of an EfficientNet-Lite, in bfloat16; all else is the model's.

    ``convolutions``: the depthwise and 1×1 ones; ``norms``: batch norm with what follows it, ReLU6 or a shortcut.
    """

    def __init__(self, model: Classifier, *, convolutions: bool = True, norms: bool = True) -> None:
        from tailcloud.kernels import batch_norm, depthwise

        self.model, modules = model, list(model.backbone.modules())
        self.convolutions = [each for each in modules if convolutions and isinstance(each, SameConv2d) and fits(each)]
        self.norms = [each for each in modules if norms and batch_norm.fits(each)]
        for convolution in self.convolutions:
            convolution.kernel = depthwise.convolve
        kernel = batch_norm.BatchNormKernel(self.norms) if self.norms else None
        for norm in self.norms:
            norm.kernel = kernel  # type: ignore[assignment]

    @property
    def kinds(self) -> str:
        """Which layers have kernels."""
        return " and ".join(name for name in ("convolutions", "norms") if getattr(self, name))

    def compile(self, height: int, width: int) -> None:
        """Compile every kernel for images of that size; at their first launch they would be, one after the other."""
        from tailcloud.kernels import batch_norm, depthwise
        from tailcloud.kernels.compile_together import compile_together

        convolutions = depthwise.compilations(self.shapes(height, width)) if self.convolutions else []
        compile_together([*convolutions, *(batch_norm.compilations() if self.norms else [])])

    def shapes(self, height: int, width: int) -> Iterator[tuple[int, int, int, int, int]]:
        """Channels, kernel and stride of each depthwise convolution, and height and width of its input maps."""
        for module in (each for each in self.model.backbone.modules() if isinstance(each, SameConv2d)):  # in order
            (kernel, _), (stride, _) = module.kernel_size, module.stride
            if module.groups > 1:
                yield module.in_channels, kernel, stride, height, width
            height, width = ceil(height / stride), ceil(width / stride)

    def remove(self) -> None:
        """PyTorch computes these layers again."""
        for layer in [*self.convolutions, *self.norms]:
            layer.kernel = None  # type: ignore[assignment]


def fits(convolution: SameConv2d) -> bool:
    """Whether there is a kernel for a convolution."""
    depthwise = convolution.groups == convolution.in_channels == convolution.out_channels
    return depthwise or (convolution.kernel_size, convolution.stride) == ((1, 1), (1, 1))
