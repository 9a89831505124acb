"""Classifiers: a backbone and a head, built from an ``Architecture``."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from tailcloud.backbones import Backbone, create_backbone
from tailcloud.backbones.adapters import AdapterKind, insert_adapters
from tailcloud.errors import UsageError, unknown
from tailcloud.heads import HEADS, ExpertHeads, Head, inference_kind
from tailcloud.randomness import derive_seed

_global_generator = Lock()  # runs in threads must not use it at the same time


@dataclass(frozen=True)
class Architecture:
    """Everything that is needed to build a classifier."""

    backbone: str
    head: str
    width: float
    channels: int
    classes: int
    adapter: AdapterKind = "none"
    adapter_size: int = 0

    @property
    def plain(self) -> "Architecture":
        """The same without adapters."""
        return replace(self, adapter="none", adapter_size=0)

    @property
    def at_inference(self) -> "Architecture":
        """The same without what only training needs: the architecture of a finished model."""
        return replace(self, head=inference_kind(self.head))


class Classifier(nn.Module):
    """Images [batch, channels, H, W] to outputs [batch, classes]: cosines or logits, depending on the head."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        if architecture.head not in HEADS:
            raise unknown("head", architecture.head, HEADS)
        self.backbone = create_backbone(architecture.backbone, channels=architecture.channels, width=architecture.width)
        self.classes = architecture.classes
        self.head = make_head(architecture.head, self.backbone, architecture.classes)
        self.insert_adapters(architecture)

    def insert_adapters(self, architecture: Architecture) -> None:
        """Give the backbone the adapters that the architecture has, if any."""
        if architecture.adapter != "none":
            size, classes = architecture.adapter_size, architecture.classes
            insert_adapters(self.backbone, architecture.adapter, size=size, classes=classes)

    def features(self, images: Tensor) -> Tensor:
        """Features [batch, features] of normalised images, the input of the head."""
        features: Tensor = self.backbone(images)
        return features

    def layers(self) -> list[list[str]]:
        """The layers below the head, each as the names of its parts, from the input to the output."""
        layers = self.backbone.layers() if isinstance(self.backbone, Backbone) else []  # a plugin's may be any module
        return [[f"backbone.{part}" for part in layer] for layer in layers] or [["backbone"]]

    def forward(self, images: Tensor) -> Tensor:
        """The head's outputs for normalised images."""
        outputs: Tensor = self.head(self.features(images))
        return outputs


def make_head(kind: str, backbone: nn.Module, classes: int) -> Head:
    """A head for the features of a backbone, or one for each of its experts."""
    features: int = backbone.features  # type: ignore[assignment]
    experts: int = getattr(backbone, "experts", 1)  # a plugin's may be any module
    return HEADS[kind](features, classes) if experts == 1 else ExpertHeads(HEADS[kind], experts, features, classes)


def build_classifier(architecture: Architecture, seed: int) -> Classifier:
    """A fresh classifier on the CPU whose weights depend on the seed alone."""
    with _global_generator, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, "weights"))
        return Classifier(architecture)


def add_adapters(model: Classifier, architecture: Architecture, seed: int) -> None:
    """Give a classifier, whose weights may be pretrained, fresh adapters that depend on the seed alone."""
    with _global_generator, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, "adapters"))
        model.insert_adapters(architecture)


def fresh_head(model: Classifier, kind: str, seed: int) -> Head:
    """A head with fresh weights, on the device of the model; they depend on the seed alone."""
    with _global_generator, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed(seed, "fresh head"))
        head = make_head(kind, model.backbone, model.classes)
    return head.to(next(model.parameters()).device)


def inference_head(model: Classifier, kind: str) -> Head:
    """The head of that kind with the tensors that the model's head has for it."""
    trained, head = model.head.state_dict(), fresh_head(model, kind, seed=0)
    head.load_state_dict({name: trained[name] for name in head.state_dict()})
    return head


def meta_classifier(architecture: Architecture) -> Classifier:
    """A classifier on the meta device: for its shapes, or for weights that are loaded with ``assign=True``."""
    with torch.device("meta"), _SkipInitialisation():
        return Classifier(architecture)


def classifier_with_weights(architecture: Architecture, weights: Mapping[str, Tensor]) -> Classifier:
    """A classifier that has these weights; float16, bfloat16 or float64 become float32, as PyTorch itself does it.

    Raises:
        RuntimeError: names or shapes are those of another model.
        TypeError: a weight has another kind of numbers, such as integers.
    """
    classifier = meta_classifier(architecture)
    expected = classifier.state_dict()
    classifier.load_state_dict(
        {name: _of_dtype(value, expected.get(name)) for name, value in weights.items()}, assign=True
    )
    return classifier


def _of_dtype(value: Tensor, expected: Tensor | None) -> Tensor:
    if expected is None or not expected.is_floating_point():  # unknown names are refused later; counters do no harm
        return value
    if not value.is_floating_point():
        raise TypeError(f"{value.dtype} instead of {expected.dtype}")
    return value.to(expected.dtype)


def meta_head(kind: str, experts: int) -> Head:
    """A head on the meta device, for the names of its parameters."""
    with torch.device("meta"), _SkipInitialisation():  # any sizes: the names are the same
        return HEADS[kind](4, 2) if experts == 1 else ExpertHeads(HEADS[kind], experts, 4 * experts, 2)


def meta_backbone(name: str, width: float = 1.0) -> Backbone:
    """A backbone on the meta device, for the names of its parameters."""
    with torch.device("meta"), _SkipInitialisation():
        return create_backbone(name, width=width)


class _SkipInitialisation(TorchFunctionMode):
    """Skips the initialisation of weights; on the meta device PyTorch would import its compiler for it."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in {Tensor.normal_, Tensor.uniform_, F.normalize}:
            return args[0]
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Cost:
    """The cost of a classifier: parameters, and for one image the forward FLOPs and activations (floats).

    ``largest_activation`` is the output of the layer with the largest one.
    """

    parameters: int
    flops: int
    activations: int
    largest_activation: int


def cost(architecture: Architecture, height: int, width: int) -> Cost:
    """The cost of an architecture."""
    with _SkipInitialisation():  # on the CPU: a forward pass on the meta device imports PyTorch's compiler, seconds
        model = Classifier(architecture)
    return cost_of(model, architecture.channels, height, width)


def cost_of(model: Classifier, channels: int, height: int, width: int) -> Cost:
    """The cost of a model on one image, counted on the CPU. A multiply-add is two FLOPs."""
    kept: list[int] = []
    device = next(model.parameters()).device
    if device.type not in {"cpu", "meta"}:  # a GPU prepares every convolution for a new shape: seconds
        model, device = _on_cpu(model), torch.device("cpu")
    image = torch.zeros(1, channels, height, width, device=device)
    leaves = [module for module in model.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(partial(_note_size, kept)) for module in leaves]
    model.eval()  # batch norm cannot train on a single pixel
    try:
        with torch.no_grad(), _FlopCounter() as counter:
            model(image)
    except (AssertionError, RuntimeError) as error:
        raise UsageError(
            f"the backbone cannot process images of {height} × {width} pixels "
            f"({' '.join(str(error).split()).rstrip('.')}); set data.size to its size, or choose another backbone"
        ) from None
    finally:
        for hook in hooks:
            hook.remove()
    return Cost(
        sum(parameter.numel() for parameter in model.parameters()), counter.flops, sum(kept), max(kept, default=0)
    )


def _on_cpu(model: Classifier) -> Classifier:
    """A copy of a model on the CPU with zeros for weights: nothing waits for the device."""
    zeros = {id(tensor): torch.zeros_like(tensor, device="cpu") for tensor in (*model.parameters(), *model.buffers())}
    parameters = {id(tensor): nn.Parameter(zeros[id(tensor)], tensor.requires_grad) for tensor in model.parameters()}
    return deepcopy(model, zeros | parameters)


class _FlopCounter(TorchFunctionMode):
    """Counts the FLOPs of convolutions and matrix products; PyTorch's own counter imports its compiler: seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in PRODUCTS:
            self.flops += 2 * result.numel() * PRODUCTS[func](*args[:2])
        return result


PRODUCTS: dict[Callable[..., Any], Callable[[Tensor, Tensor], int]] = {  # multiplications for each number of the result
    torch.conv2d: lambda _, weight: weight[0].numel(),
    F.linear: lambda _, weight: weight.shape[1],
    **dict.fromkeys(
        (torch.matmul, torch.mm, torch.bmm, Tensor.matmul, Tensor.mm, Tensor.bmm), lambda a, _: a.shape[-1]
    ),
    Tensor.__matmul__: lambda a, _: a.shape[-1],
}


def _note_size(sizes: list[int], _module: nn.Module, _inputs: object, output: Tensor) -> None:
    sizes.append(output.numel())
