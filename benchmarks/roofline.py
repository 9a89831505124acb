"""Lower bounds for the seconds of a run: its arithmetic, and the memory that must move.

Arithmetic: FLOPs of the convolutions and the head. Forward every image once; backward each layer costs as much again
for its weights and as much again for its input, which the first layer and a frozen backbone do not need. Element-wise
work is not counted.

Memory: every kernel is as fused as it can be. A training step moves the map behind each convolution five times (written
and read forward; backward its gradient is written and read, and the map is read once more, for batch norm and weight
gradient together), a step that trains the head alone and an evaluation twice (written and read). Maps are in the
precision of the run. An update reads and writes weights and momentum, and writes and reads gradients, in float32. A
stored image is read once, as bytes. Nothing is counted for the rest, and nothing is taken to stay in a cache; a problem
whose maps do stay there can be faster than this floor.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from measurement import synchronize
from torch import Tensor, nn

from tailcloud.classifier import Architecture, Classifier, cost
from tailcloud.data import Dataset
from tailcloud.data.loaders.epoch_plan import batch_ends
from tailcloud.recipe import Recipe, Stage
from tailcloud.training.model import architecture

TRAINING, FORWARD = 5, 2  # how often a map moves
UPDATE = 6  # how often a number moves that is trained
FLOAT = 4


@dataclass(frozen=True)
class Peak:
    """What a machine can do at most in a second."""

    flops: float
    bytes: float
    source: str

    def or_better(self, other: "Peak") -> "Peak":
        """The best of two measurements: a busy machine seems slower than it is."""
        return replace(self, flops=max(self.flops, other.flops), bytes=max(self.bytes, other.bytes))


# Dense, from the vendor's data sheet.
PEAKS: Mapping[tuple[str, str], Peak] = {
    ("NVIDIA H200", "bfloat16"): Peak(989e12, 4.8e12, "data sheet"),
    ("NVIDIA H200", "float32"): Peak(67e12, 4.8e12, "data sheet"),
}


def peak_of(device: torch.device, precision: str) -> Peak:
    """From the table; a machine that is not in it is measured: a large matrix product, and a copy of 256 MB."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    return PEAKS.get((name, precision)) or measured_peak(device, getattr(torch, precision))


def measured_peak(device: torch.device, dtype: torch.dtype, side: int = 2048) -> Peak:
    matrix = torch.randn(side, side, device=device, dtype=dtype)
    source = torch.zeros(64 << 20, device=device)
    target = torch.empty_like(source)
    product = fastest(lambda: matrix @ matrix, device)
    copy = fastest(lambda: target.copy_(source), device)
    return Peak(2 * side**3 / product, 2 * source.nbytes / copy, "measured")


def fastest(work: Callable[[], Tensor], device: torch.device, times: int = 6) -> float:
    """Seconds until the device is done, with all its threads."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        work()
        synchronize(device)
        taken.append(time.perf_counter() - started)
    return min(taken)


@dataclass(frozen=True)
class Size:
    """What counts of a classifier, for one image: FLOPs of all, of the first and of the last layer, numbers in maps."""

    flops: int
    first: int
    head: int
    maps: int
    backbone: int  # parameters
    classifier: int  # parameters


def size_of(kind: Architecture, height: int, width: int) -> Size:
    """Counted on shapes alone."""
    found: list[tuple[int, int]] = []
    with torch.device("meta"):
        model = Classifier(kind).eval()
        image = torch.empty(1, kind.channels, height, width)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(partial(_note, found))
    model(image)
    convolutions = sum(flops for flops, _ in found)
    total = cost(kind, height, width).flops
    parameters = [sum(p.numel() for p in part.parameters()) for part in (model.backbone, model.head)]
    return Size(total, found[0][0], total - convolutions, sum(numbers for _, numbers in found), *parameters)


def _note(found: list[tuple[int, int]], module: nn.Conv2d, _inputs: object, output: Tensor) -> None:
    found.append((2 * output.numel() * module.weight[0].numel(), output.numel()))


@dataclass(frozen=True)
class Floor:
    """FLOPs and bytes of an epoch of each stage, its evaluation included."""

    flops: Mapping[str, float]
    bytes: Mapping[str, float]

    def seconds(self, peak: Peak, epochs: Mapping[str, int]) -> dict[str, float]:
        """Of a whole run, by arithmetic and by memory."""
        return {
            "arithmetic": sum(self.flops[stage] * times for stage, times in epochs.items()) / peak.flops,
            "memory": sum(self.bytes[stage] * times for stage, times in epochs.items()) / peak.bytes,
        }


def floor_of(recipe: Recipe, dataset: Dataset, precision: str) -> Floor:
    """The floor under a recipe on a data set."""
    height, width, channels = dataset.shape
    size = size_of(architecture(recipe, dataset), height, width)
    number = 2 if precision == "bfloat16" else FLOAT
    picture = height * width * channels
    flops, moved = {}, {}
    for name, stage in recipe.stages.items():
        flops[name] = len(dataset.train) * training_flops(size, stage) + len(dataset.test) * size.flops
        train = len(dataset.train) * (picture + number * size.maps * (TRAINING if stage.train == "all" else FORWARD))
        test = len(dataset.test) * (picture + number * size.maps * FORWARD)
        steps = len(batch_ends(len(dataset.train), stage.batch))
        moved[name] = train + test + steps * UPDATE * FLOAT * trained(size, stage)
    return Floor(flops, moved)


def training_flops(size: Size, stage: Stage) -> int:
    """Forward and backward for one image."""
    return 3 * size.flops - size.first if stage.train == "all" else size.flops + size.head


def trained(size: Size, stage: Stage) -> int:
    """Parameters that a stage changes."""
    return size.classifier + (size.backbone if stage.train == "all" else 0)
