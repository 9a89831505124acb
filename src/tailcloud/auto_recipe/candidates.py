"""Which models and image sizes come into question, the most wanted first."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from tailcloud.backbones import BACKBONES
from tailcloud.backbones.timm_models import INSTALL, PREFIX, timm_is_here
from tailcloud.data import OWN, Dataset, parse_spec
from tailcloud.recipe import Recipe

TINY, LARGE = 20, 96  # pixels a side: below, one block a stage is enough; from here on, a stem that shrinks images
SMALLEST = 32  # images are not made smaller than this to save time
FEW_IMAGES = 20_000  # with fewer, weights that were trained before help most
FOLDER, SUFFIXES = "weights", (".safetensors", ".pth")


@dataclass(frozen=True)
class Candidate:
    """A backbone on images of a size, perhaps with weights to start from."""

    side: int
    backbone: str
    weights: str | None = None


def is_own(dataset: Dataset) -> bool:
    """Whether these are images of one's own, which can be read at any size."""
    return parse_spec(dataset.spec)[0] == OWN


def few_images(dataset: Dataset) -> bool:
    """Whether weights that were trained before would help: images of one's own, few, and not tiny."""
    return is_own(dataset) and len(dataset.train) < FEW_IMAGES and max(dataset.shape[:2]) >= SMALLEST


def candidates(dataset: Dataset, device: torch.device, base: Recipe) -> list[Candidate]:
    """Models for a data set, the most wanted first; ``base`` is the recipe as it was asked for."""
    side, images = max(dataset.shape[:2]), len(dataset.train)
    start = weights_for(base.model.weights) if base.model.weights else None
    if not start and few_images(dataset):
        start = weights_here(base.root)
    free = is_own(dataset) and base.data.size is None
    found = [Candidate(max(side, LARGE) if free else side, *start)] if start else []
    sides = _sides(side) if free else [side]
    return [*found, *(Candidate(each, name) for each in sides for name in backbones(each, images, device))]


def _sides(side: int) -> Iterator[int]:
    """The size of the images, and halves of it."""
    yield side
    while side // 2 >= SMALLEST:
        side //= 2
        yield side


def backbones(side: int, images: int, device: torch.device) -> list[str]:
    """Backbones for images of a size, the largest first."""
    if side < TINY:
        return ["resnet8"]
    if side >= LARGE:
        return ["resnet50", "resnet18"] if device.type == "cuda" and images > FEW_IMAGES else ["resnet18"]
    return ["resnet32", "resnet20", "resnet8"]


def weights_here(root: str) -> tuple[str, str] | None:
    """A backbone and the file with its weights, from the folder ``weights`` beside the data; None if there is none."""
    folder = Path(root) / FOLDER
    files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES) if folder.is_dir() else []
    return next((found for path in files if (found := weights_for(str(path)))), None)


def weights_for(file: str) -> tuple[str, str] | None:
    """The backbone that a file of weights is named after, as published ones are, and the file.

    ``resnet18-f37072fd.pth`` is for resnet18, ``convnext_tiny.in12k.safetensors`` for timm's convnext_tiny.
    """
    name = Path(file).stem.partition(".")[0].partition("-")[0]
    if name in BACKBONES:
        return name, file
    return (PREFIX + name, file) if timm_is_here() and _timm_has(name) else None


def _timm_has(name: str) -> bool:
    import timm

    return bool(timm.is_model(name))


def better_with(root: str) -> str:
    """What would help small data, as a sentence."""
    others = "" if timm_is_here() else f', or of any other model after "{INSTALL}"'
    return (
        "Weights that were trained before would help so few images: put published ones of resnet18, resnet34 or "
        f"resnet50 into {Path(root) / FOLDER}{others}."
    )
