"""A classifier is a backbone and a head; what it is made of fits in a small record."""

from dataclasses import dataclass
from functools import partial
from threading import Lock

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from tailcloud.backbones import create_backbone
from tailcloud.errors import unknown
from tailcloud.heads import HEADS, Head
from tailcloud.randomness import derive_seed

_global_generator = Lock()  # runs that train in threads must not draw from it at the same time


@dataclass(frozen=True)
class Architecture:
    """Everything that is needed to build a classifier again."""

    backbone: str
    head: str
    width: float
    channels: int
    classes: int


class Classifier(nn.Module):
    """Images [batch, channels, H, W] to outputs [batch, classes]: cosines or logits, as the head has it."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        if architecture.head not in HEADS:
            raise unknown("head", architecture.head, HEADS)
        self.backbone = create_backbone(architecture.backbone, channels=architecture.channels, width=architecture.width)
        self.classes = architecture.classes
        self.head: Head = HEADS[architecture.head](self.backbone.features, architecture.classes)

    def features(self, images: Tensor) -> Tensor:
        """What the head sees of normalised images: [batch, features]."""
        features: Tensor = self.backbone(images)
        return features

    def forward(self, images: Tensor) -> Tensor:
        """The head's outputs for normalised images."""
        outputs: Tensor = self.head(self.features(images))
        return outputs


def build_classifier(architecture: Architecture, seed: int) -> Classifier:
    """A fresh classifier on the CPU whose weights depend on the seed alone."""
    with _global_generator, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, "weights"))
        return Classifier(architecture)


def fresh_head(model: Classifier, kind: str, seed: int) -> Head:
    """A head for the model that was never trained, where the model is; its weights depend on the seed alone."""
    with _global_generator, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, "fresh head"))
        head = HEADS[kind](model.backbone.features, model.classes)
    return head.to(next(model.parameters()).device)


@dataclass(frozen=True)
class Cost:
    """What a classifier costs: its parameters, and for one image the forward FLOPs and the floats that are kept."""

    parameters: int
    flops: int
    activations: int


def cost(architecture: Architecture, height: int, width: int) -> Cost:
    """Counted on shapes alone, without computing anything. A multiply-add is two FLOPs."""
    kept: list[int] = []
    with torch.device("meta"):
        model = Classifier(architecture).eval()  # batch norm refuses to train on a single pixel
        image = torch.empty(1, architecture.channels, height, width)
    for module in model.modules():
        if not list(module.children()):
            module.register_forward_hook(partial(_note_size, kept))
    with FlopCounterMode(display=False) as counter:
        model(image)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return Cost(parameters, int(counter.get_total_flops()), sum(kept))


def _note_size(sizes: list[int], _module: nn.Module, _inputs: object, output: Tensor) -> None:
    sizes.append(output.numel())
