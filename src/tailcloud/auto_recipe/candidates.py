"""Candidate models and image sizes for a data set, in order of preference."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from tailcloud.backbones import BACKBONES
from tailcloud.backbones.timm_models import TIMM_PREFIX, timm_is_installed
from tailcloud.data import OWN, Dataset, parse_spec
from tailcloud.data.read_options import Fit
from tailcloud.recipe import Recipe
from tailcloud.weights import available
from tailcloud.weights.resolve import PRETRAINED, is_file_name

Part = Literal["all", "last", "head"]

TINY_SIDE, LARGE_SIDE = 20, 96  # pixels: below, one block a stage is enough; from here on, a stem with strides
MIN_SIDE = 32  # pixels; images are not shrunk below this to save time
FEWEST_FOR_RESNET50 = 20_000  # training images of a network from scratch
NEARLY_SQUARE = 1.15  # longer over shorter side, up to which a center crop loses little
WHOLE_PICTURE: Fit = "pad"  # on photographs of 3:4 better than "squash", with a head on features
WEIGHTS_FOLDER, WEIGHTS_SUFFIXES = "weights", (".safetensors", ".pth")

PRETRAINED_BACKBONE = "efficientnet_lite0"  # its weights are in a package that is always installed
PRETRAINED_SIDES = (224, 192, 160, 128, 96)  # pixels; more are better as long as time allows
LADDER: tuple[tuple[Part, int], ...] = (  # what is trained, and at which side: the first that fits is taken
    *(("all", side) for side in PRETRAINED_SIDES[:-1]),
    *(("last", side) for side in PRETRAINED_SIDES[:-1]),
    ("head", 224),
    ("head", 192),
    ("last", 96),  # images far from those of ImageNet gain more by training than by more pixels
    ("head", 160),
    ("head", 128),
    ("head", 96),
)
SHARPEST = 1.6  # images are enlarged up to this factor; beyond, they show nothing new
SMALLEST_FULL_SIDE = 128  # but always to this side if time allows: the network has not learned from smaller ones
SMALLEST_FIXED_SIDE = 64  # images that cannot be enlarged beyond this are too small for a pretrained network


@dataclass(frozen=True)
class Candidate:
    """A backbone and an image size; with pretrained weights also which part of the network is trained.

    ``resize`` is whether images are read at that size; if not, they have it. ``fit`` is how they become square; None if
    they are square, or cannot be read in another way.
    """

    side: int
    backbone: str
    weights: str | None = None
    part: Part = "all"
    resize: bool = True
    fit: Fit | None = None
    fit_evidence: str = ""


def is_user_data(dataset: Dataset) -> bool:
    """Whether these are the user's own images, rather than a benchmark."""
    return parse_spec(dataset.spec)[0] == OWN


def has_fixed_size(dataset: Dataset, base: Recipe, *, resizable: bool) -> bool:
    """Whether images stay as large as they are: they are open already, the user says so, or it is a benchmark."""
    return not resizable or base.data.size is not None or not is_user_data(dataset)


def whole_picture(dataset: Dataset, *, resizable: bool) -> Fit | None:
    """The fit that shows the whole picture, for the user's images that are far from square; None for others."""
    ratio = dataset.native_ratio
    far_from_square = ratio is not None and ratio * NEARLY_SQUARE < 1
    return WHOLE_PICTURE if resizable and is_user_data(dataset) and far_from_square else None


def scratch_candidates(dataset: Dataset, device: torch.device, base: Recipe, *, resizable: bool) -> list[Candidate]:
    """Networks without pretrained weights; ``base`` is the recipe with the user's settings alone.

    ``resizable`` is whether the data can be read at another size.
    """
    side, images = max(dataset.shape[:2]), len(dataset.train)
    resize = not has_fixed_size(dataset, base, resizable=resizable)
    sides = _halved(side) if resize else [side]
    fit = whole_picture(dataset, resizable=resizable)
    return [Candidate(each, name, resize=resize, fit=fit) for each in sides for name in backbones(each, images, device)]


def pretrained_candidates(
    dataset: Dataset, device: torch.device, base: Recipe, fields: Collection[str], *, resizable: bool = True
) -> list[Candidate]:
    """Networks with pretrained weights: all of it trained, then its last layers, then its head alone.

    Each for the largest images first. Empty if these data are trained from scratch. ``fields`` are those that the user
    has set. ``resizable`` is whether the data can be read at another size.
    """
    start = pretrained_start(dataset, base, fields, resizable=resizable)
    if start is None:
        return []
    resize = not has_fixed_size(dataset, base, resizable=resizable)
    sides = pretrained_sides(dataset, base, resizable=resizable)
    parts = trained_parts(device, base, fields)
    rungs = [(part, side) for part, side in LADDER if part in parts and side in sides]
    rungs = rungs or [(part, side) for part in parts for side in sides]  # a side that the user sets
    fit = whole_picture(dataset, resizable=resizable)
    return [Candidate(side, *start, part, resize, fit) for part, side in rungs]


def trained_parts(device: torch.device, base: Recipe, fields: Collection[str]) -> tuple[Part, ...]:
    """The parts of a pretrained network that may be trained, the largest first; a part that the user sets is kept."""
    if "stage1.train" in fields:
        return ("head",) if base.stage1.trains_only_head and "stage1.views" not in fields else ("all",)
    return ("all", "head") if device.type == "cuda" else ("all", "last", "head")


def pretrained_sides(dataset: Dataset, base: Recipe, *, resizable: bool = True) -> list[int]:
    """Sides at which a pretrained network may see the images, the largest first."""
    if has_fixed_size(dataset, base, resizable=resizable):
        return [max(dataset.shape[:2])]
    native = dataset.native_side or max(dataset.shape[:2])
    most = max(SMALLEST_FULL_SIDE, SHARPEST * native)
    return [side for side in PRETRAINED_SIDES if side <= most]


def pretrained_start(
    dataset: Dataset, base: Recipe, fields: Collection[str], *, resizable: bool = True
) -> tuple[str, str] | None:
    """The backbone and the weights that training starts from; None: from scratch.

    Weights that the user names; else those of the backbone that the user names, if they are here; else a file in the
    folder ``weights`` of the data root; else the default network. Benchmarks, tiny images, and networks of another
    width, with two branches or with experts, start from scratch.
    """
    model = base.model
    if model.pretrained:
        named = (model.backbone, model.pretrained) if "model.backbone" in fields else None
        return named or match_backbone(model.pretrained) or (PRETRAINED_BACKBONE, model.pretrained)
    changed = (model.width, model.branches, model.experts) != (1, 1, 1)
    if model.weights == "none" or not is_user_data(dataset) or changed:
        return None
    if has_fixed_size(dataset, base, resizable=resizable) and max(dataset.shape[:2]) < SMALLEST_FIXED_SIDE:
        return None
    if max(dataset.native_side or 0, *dataset.shape[:2]) < TINY_SIDE:
        return None
    if "model.backbone" in fields:
        return (model.backbone, PRETRAINED) if available(model.backbone) else None
    return find_local_weights(base.root) or (
        (PRETRAINED_BACKBONE, PRETRAINED) if available(PRETRAINED_BACKBONE) else None
    )


def _halved(side: int) -> Iterator[int]:
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
        return ["resnet50", "resnet18"] if device.type == "cuda" and images > FEWEST_FOR_RESNET50 else ["resnet18"]
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
    if not is_file_name(file):
        return None
    name = Path(file).stem.partition(".")[0].partition("-")[0]
    if name in BACKBONES:
        return name, file
    return (TIMM_PREFIX + name, file) if timm_is_installed() and _timm_has(name) else None


def _timm_has(name: str) -> bool:
    import timm

    return bool(timm.is_model(name))
