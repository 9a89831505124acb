"""Candidate models and image sizes for a data set, in order of preference."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from tailcloud.backbones import BACKBONES
from tailcloud.backbones.timm_models import INSTALL_TIMM, TIMM_PREFIX, timm_is_installed
from tailcloud.data import OWN, Dataset, parse_spec
from tailcloud.recipe import Recipe

TINY_SIDE, LARGE_SIDE = 20, 96  # pixels: below, one block a stage is enough; from here on, a stem with strides
MIN_SIDE = 32  # pixels; images are not shrunk below this to save time
FEW_IMAGES = 20_000  # with fewer, pretrained weights help most
WEIGHTS_FOLDER, WEIGHTS_SUFFIXES = "weights", (".safetensors", ".pth")


@dataclass(frozen=True)
class Candidate:
    """A backbone and an image size, with pretrained weights or without."""

    side: int
    backbone: str
    weights: str | None = None


def is_user_data(dataset: Dataset) -> bool:
    """Whether these are the user's own images, which can be read at any size."""
    return parse_spec(dataset.spec)[0] == OWN


def needs_pretraining(dataset: Dataset) -> bool:
    """Whether pretrained weights would help: the user's own images, few, and not tiny."""
    return is_user_data(dataset) and len(dataset.train) < FEW_IMAGES and max(dataset.shape[:2]) >= MIN_SIDE


def candidates(dataset: Dataset, device: torch.device, base: Recipe) -> list[Candidate]:
    """Candidates for a data set, in order of preference; ``base`` is the recipe with the user's settings alone."""
    side, images = max(dataset.shape[:2]), len(dataset.train)
    start = match_backbone(base.model.weights) if base.model.weights else None
    if not base.model.weights and needs_pretraining(dataset):
        start = find_local_weights(base.root)
    any_size = is_user_data(dataset) and base.data.size is None
    pretrained = [Candidate(max(side, LARGE_SIDE) if any_size else side, *start)] if start else []
    sides = _sides(side) if any_size else [side]
    return [*pretrained, *(Candidate(each, name) for each in sides for name in backbones(each, images, device))]


def _sides(side: int) -> Iterator[int]:
    """The side of the images, halved again and again."""
    yield side
    while side // 2 >= MIN_SIDE:
        side //= 2
        yield side


def backbones(side: int, images: int, device: torch.device) -> list[str]:
    """Backbones for images of that size, the largest first."""
    if side < TINY_SIDE:
        return ["resnet8"]
    if side >= LARGE_SIDE:
        return ["resnet50", "resnet18"] if device.type == "cuda" and images > FEW_IMAGES else ["resnet18"]
    return ["resnet32", "resnet20", "resnet8"]


def find_local_weights(root: str) -> tuple[str, str] | None:
    """A backbone and a file with its weights, from the folder ``weights`` of the data root; None if there is none."""
    folder = Path(root) / WEIGHTS_FOLDER
    files = sorted(path for path in folder.iterdir() if path.suffix in WEIGHTS_SUFFIXES) if folder.is_dir() else []
    return next((match for path in files if (match := match_backbone(str(path)))), None)


def match_backbone(file: str) -> tuple[str, str] | None:
    """The backbone that a weights file is named after, and the file; None if no backbone has that name.

    ``resnet18-f37072fd.pth`` is for resnet18, ``convnext_tiny.in12k.safetensors`` for timm's convnext_tiny.
    """
    name = Path(file).stem.partition(".")[0].partition("-")[0]
    if name in BACKBONES:
        return name, file
    return (TIMM_PREFIX + name, file) if timm_is_installed() and _timm_has(name) else None


def _timm_has(name: str) -> bool:
    import timm

    return bool(timm.is_model(name))


def pretraining_hint(root: str) -> str:
    """How to get pretrained weights for a small data set, as a sentence."""
    others = "" if timm_is_installed() else f' (or those of any timm model, after "{INSTALL_TIMM}")'
    return (
        "Pretrained weights would help with so few images: put published weights of resnet18, resnet34 or resnet50 "
        f"into {Path(root) / WEIGHTS_FOLDER}{others}."
    )
