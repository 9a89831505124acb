"""Layers that a stage leaves as they are: on a CPU they can be computed faster than those that it trains."""

import torch
from torch import Tensor, nn

from tailcloud.backbones import Backbone
from tailcloud.backbones.base import global_average_pool
from tailcloud.classifier import Classifier
from tailcloud.heads import Head
from tailcloud.training.features.batch_norm_folding import folded, images_at_once, replace_module


class FrozenLayersNetwork:
    """A classifier whose first layers do not change: batch norm folded, a few images at a time, without gradients.

    What it computes equals the classifier's up to rounding. The other layers and the head are the classifier's own.

    Args:
        model: a classifier whose backbone is ``sequential``.
        layers: how many of its layers do not change.
    """

    def __init__(self, model: Classifier, layers: int) -> None:
        self.model, self.layers = model, layers
        self.fast: Backbone | None = None
        self.versions: list[int] = []  # of the weights from which ``fast`` was made

    @property
    def head(self) -> Head:
        """Features to outputs."""
        return self.model.head

    @property
    def backbone(self) -> Backbone:
        """The classifier's own backbone."""
        backbone = self.model.backbone
        assert isinstance(backbone, Backbone)
        return backbone

    def features(self, images: Tensor) -> Tensor:
        """Features of normalised images."""
        fast, at_once = self.up_to_date(images), images_at_once(images.shape[2] * images.shape[3])
        with torch.no_grad():
            maps = torch.cat([self.frozen_maps(fast, some) for some in torch.split(images, at_once)])
        for number in range(self.layers, len(self.backbone.layers())):
            maps = self.backbone.layer(number, maps)
        return global_average_pool(maps)

    def __call__(self, images: Tensor) -> Tensor:
        """The head's outputs."""
        outputs: Tensor = self.head(self.features(images))
        return outputs

    def frozen_maps(self, fast: Backbone, images: Tensor) -> Tensor:
        """The maps after the layers that do not change."""
        for number in range(self.layers):
            images = fast.layer(number, images)
        return images

    def up_to_date(self, images: Tensor) -> Backbone:
        """The fast copy of the backbone; a new one if weights were loaded into its layers meanwhile."""
        names = [part for layer in self.backbone.layers()[: self.layers] for part in layer]
        tensors = [tensor for name in names for tensor in _tensors(self.backbone.get_submodule(name))]
        versions = [tensor._version for tensor in tensors]
        if self.fast is None or versions != self.versions:
            sample = torch.linspace(-1, 1, 2 * images[0].numel(), device=images.device).reshape(2, *images.shape[1:])
            with torch.inference_mode(False), torch.autocast(images.device.type, enabled=False):
                fast = folded(self.backbone, sample.to(tensors[0].dtype))
            assert isinstance(fast, Backbone)
            for name in (part for layer in fast.layers()[self.layers :] for part in layer):
                replace_module(fast, name, nn.Identity())
            self.fast, self.versions = fast, versions
        return self.fast


def _tensors(module: nn.Module) -> list[Tensor]:
    return [*module.parameters(), *module.buffers()]
