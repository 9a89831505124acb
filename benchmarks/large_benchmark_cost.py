"""What the large benchmarks cost, from what was measured on one GPU and one core: the arithmetic of docs/scaling.md.

A run's work is counted in FLOPs by our own counter. One image through training costs three forward passes where
everything moves; where only a part of the network moves, one pass through all of it and two more through that part.
Images that are only measured on cost one pass: those for testing and validation as often as the recipe says, and in the
end. Dividing by the FLOPs a second of a measured training step gives seconds.
"""

from dataclasses import dataclass
from functools import cache
from math import ceil

import torch
from torch import nn

from tailcloud.backbones import ResNet
from tailcloud.backbones.resnet import Bottleneck
from tailcloud.classifier import Cost, cost_of

PIXELS, SIDE, CHANNELS = 224, 256, 3  # what a model sees; the square that a training image is cached in
FEATURES, LAST_MAP = 2048, 7
LARGEST_MAP = 256 * 56 * 56  # numbers of one image; a block has one as input and one as output
FLOAT, HALF = 4, 2  # bytes
IN_THE_END = 4  # more passes over test images: each stage is concluded, examples are chosen, calibration is measured

# Assumptions, not measurements: the page says so, and these are the places to put one's own.
PRICE = 3.0  # US dollars for an hour of one GPU
EFFICIENCY = {1: 1.0, 8: 0.9, 64: 0.7}  # of that many GPUs on one run, against as many runs on one GPU each
BANDWIDTH = {8: 200e9, 64: 25e9}  # bytes a second of each GPU: inside of one machine, between machines


@dataclass(frozen=True)
class Benchmark:
    """A large data set and the recipe for it: how much there is to compute."""

    spec: str
    train: int
    val: int
    test: int
    classes: int
    blocks: tuple[int, int, int, int]
    epochs: tuple[int, int]  # of the two stages
    batch: int = 512
    every: int = 10  # epochs from one evaluation to the next
    frozen: bool = False  # a pre-trained trunk that stays as it is: only the last block and the head move in stage 1

    @property
    def backbone(self) -> str:
        """The network's usual name: its depth counts convolutions and the head."""
        return f"ResNet-{3 * sum(self.blocks) + 2}"


BENCHMARKS = (
    Benchmark("imagenet-lt", 115_846, 20_000, 50_000, 1000, (3, 4, 6, 3), (200, 30)),
    Benchmark("inat2018", 437_513, 0, 24_426, 8142, (3, 4, 6, 3), (200, 30)),
    Benchmark("places-lt", 62_500, 7_300, 36_500, 365, (3, 8, 36, 3), (90, 30), frozen=True),
)


@dataclass(frozen=True)
class Work:
    """What a benchmark computes and keeps, counted on shapes."""

    forward: int  # FLOPs of one image
    first: int  # FLOPs of one image in a training step of stage 1
    parameters: int
    moving: int  # parameters that stage 1 trains
    kept: int  # numbers of one image that wait for the backward pass of stage 1
    total: float  # FLOPs of a run, both stages and all evaluations


@cache
def work_of(benchmark: Benchmark) -> Work:
    """Counted by ``cost_of``; a head has a product of features and classes."""
    with torch.device("meta"):
        whole, block = ResNet(Bottleneck, benchmark.blocks), Bottleneck(FEATURES, FEATURES // 4, 1)
    trunk, last = _cost(whole, CHANNELS, PIXELS), _cost(block, FEATURES, LAST_MAP)
    head = FEATURES * benchmark.classes
    forward = trunk.flops + 2 * head
    part = last if benchmark.frozen else trunk
    first = forward + 2 * (part.flops + 2 * head)
    shown = benchmark.train * (benchmark.epochs[0] * first + benchmark.epochs[1] * (forward + 4 * head))
    times = sum(ceil(epochs / benchmark.every) for epochs in benchmark.epochs)
    judged = forward * (benchmark.test * (times + IN_THE_END) + benchmark.val * (times + 1))
    return Work(forward, first, trunk.parameters + head, part.parameters + head, part.activations, shown + judged)


def _cost(model: nn.Module, channels: int, side: int) -> Cost:
    """Of a model on the meta device, which has no weights; any will do."""
    model = model.to_empty(device="cpu")
    return cost_of(model, channels, side, side)  # type: ignore[arg-type]  # nothing of a classifier is asked for


@dataclass(frozen=True)
class Estimate:
    """One run on some GPUs."""

    gpus: int
    seconds: float
    waiting: float  # of these, seconds for which sums of gradients take longer than what they hide behind
    traffic: float  # bytes that each GPU sends in a step of stage 1

    @property
    def money(self) -> float:
        """US dollars, at the assumed price."""
        return self.gpus * self.seconds / 3600 * PRICE


def estimate(benchmark: Benchmark, speed: float, gpus: int) -> Estimate:
    """A run on ``gpus`` that each compute ``speed`` FLOPs a second.

    Gradients are summed in a ring while the backward pass goes on: a step takes as long as the longer of the two.
    """
    work, steps = work_of(benchmark), ceil(benchmark.train / benchmark.batch)
    rate = gpus * EFFICIENCY[gpus] * speed
    traffic = 2 * (gpus - 1) / gpus * FLOAT * work.moving
    computing = benchmark.train / steps * work.first / rate
    exchange = traffic / BANDWIDTH[gpus] if gpus > 1 else 0.0
    waiting = benchmark.epochs[0] * steps * max(0.0, exchange - computing)
    return Estimate(gpus, work.total / rate + waiting, waiting, traffic)


def memory(benchmark: Benchmark, gpus: int) -> float:
    """Bytes on each GPU in stage 1: weights, and of what moves gradients and momentum; half-precision copies; maps.

    Maps are those that wait for the backward pass, and the two largest, which are at work at the same time.
    """
    work = work_of(benchmark)
    maps = ceil(benchmark.batch / gpus) * (work.kept + 2 * LARGEST_MAP)
    return (FLOAT + HALF) * work.parameters + 2 * FLOAT * work.moving + HALF * maps


def cache_bytes(benchmark: Benchmark) -> int:
    """All images as the cache has them, squares of bytes: those for training are larger, so that crops can be cut."""
    measured_on = benchmark.test + benchmark.val
    return CHANNELS * (benchmark.train * SIDE**2 + measured_on * PIXELS**2)


def folder_bytes(benchmark: Benchmark) -> int:
    """A finished run folder: a model, and two checkpoints of each stage with weights and momentum of what moves."""
    work = work_of(benchmark)
    head = FEATURES * benchmark.classes
    first, second = (work.parameters + moving for moving in (work.moving, head))
    return FLOAT * (work.parameters + 2 * first + 2 * second)
