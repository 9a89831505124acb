"""What is each optimisation on a CPU worth? Each is reverted alone and timed against the code as it is.

    python benchmarks/ablation.py --root data

Processor seconds of one thread, in turn, and of each pair the ratio; their median counts: other programs on the machine
hardly disturb it. The figures say how much longer a training step (or an evaluation) takes without the change; negative
ones, that it is faster without. Changes that were tried and left out are timed the same way.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F  # noqa: N812
from epoch_speed import Problem, problems
from measurement import RESULTS, write_record
from torch import Tensor, nn

from tailcloud.backbones.cifar_resnet import BasicBlock, CifarResNet
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.batch import WHOLE_BATCH, Batch, BatchShare
from tailcloud.data.loaders.resident import ResidentImages
from tailcloud.errors import TailcloudError
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import StageParts, make_parts
from tailcloud.training.stages.trainable import set_modes


def sliced_shortcut(self: BasicBlock, x: Tensor) -> Tensor:
    if self.stride == 1 and not self.grow:
        return x
    before = self.grow // 2
    return F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.grow - before))


def plain_mean(self: CifarResNet, images: Tensor) -> Tensor:
    x = F.relu(self.bn1(self.conv1(images)), inplace=True)
    maps: Tensor = self.layer3(self.layer2(self.layer1(x)))
    return maps.mean(dim=(2, 3))


@contextmanager
def mixed_layouts() -> Iterator[None]:
    with patch.object(BasicBlock, "shortcut", sliced_shortcut), patch.object(CifarResNet, "forward", plain_mean):
        yield


def block_out_of_place(self: BasicBlock, x: Tensor) -> Tensor:
    y = F.relu(self.bn1(self.conv1(x)))
    return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def folded(conv: nn.Conv2d, norm: nn.BatchNorm2d, x: Tensor) -> Tensor:
    """A convolution and the following batch norm, with fixed statistics, as one convolution."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    factor = norm.weight * (norm.running_var + norm.eps).rsqrt()
    shift = norm.bias - norm.running_mean * factor
    return F.conv2d(x, conv.weight * factor[:, None, None, None], shift, conv.stride, conv.padding)


def folded_block(self: BasicBlock, x: Tensor) -> Tensor:
    y = F.relu(folded(self.conv1, self.bn1, x), inplace=True)
    y = folded(self.conv2, self.bn2, y)
    y += self.shortcut(x)
    return F.relu(y, inplace=True)


def batches_of(size: int) -> Callable[[ResidentImages, Normalise, BatchShare], Iterator[Batch]]:
    def in_order(self: ResidentImages, transform: Normalise, share: BatchShare = WHOLE_BATCH) -> Iterator[Batch]:
        starts = range(0, len(self.labels), size)
        for start in (starts[number] for some in share.bounds(0, len(starts)) for number in range(*some)):
            yield Batch(transform(self.images[start : start + size]), self.labels[start : start + size])

    return in_order


def channels_first(session: Session, _parts: StageParts) -> None:
    session.model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]


def update_by(**how: bool) -> Callable[[Session, StageParts], None]:
    """PyTorch's own optimiser, with its kernels chosen."""

    def prepare(_session: Session, parts: StageParts) -> None:
        ours = parts.optimizer
        theirs = torch.optim.SGD(
            ours.parameters.values(),
            lr=parts.stage.lr,
            momentum=parts.stage.momentum,
            weight_decay=parts.stage.weight_decay,
            **{"fused": False, "foreach": False} | how,
        )
        ours.step = theirs.step  # type: ignore[method-assign]

    return prepare


@contextmanager
def flushed_denormals() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def nothing(*_: object) -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Change:
    """An optimisation: ``other`` and ``prepare`` turn the code into what it is without (or with) it."""

    name: str
    predicted: str
    taken: bool = True
    other: Callable[[], AbstractContextManager[Any]] = nullcontext
    prepare: Callable[[Session, StageParts], None] = nothing
    evaluation: bool = False
    channels_last: bool = True


HEAD_TRANSFORMS = (
    Change(
        "maps in memory as [image, row, column, channel]",
        "a third: single convolutions of 16 channels are 2 to 3 times faster",
        prepare=channels_first,
        channels_last=False,
    ),
    Change(
        "gradients in the same layout as maps",
        "a tenth: the slice of a shortcut gives its gradient back in the other layout, and so do all before it",
        other=mixed_layouts,
    ),
    Change(
        "ReLU and shortcut in place",
        "a few percent: a third less memory is written forward",
        other=lambda: patch.object(BasicBlock, "forward", block_out_of_place),
    ),
    Change(
        "one kernel for SGD",
        "a few percent of small steps: four kernels a parameter become one for all",
        prepare=update_by(),
    ),
    Change(
        "evaluation by as many pixels as a cache holds, not by 512 images",
        "a fifth of an evaluation of CIFAR images, nothing for digits",
        other=lambda: patch.object(ResidentImages, "in_order", batches_of(512)),
        evaluation=True,
    ),
    Change("SGD by `foreach`", "nothing beside the one kernel", taken=False, prepare=update_by(foreach=True)),
    Change("denormal numbers flushed to zero", "nothing, if there are none", taken=False, other=flushed_denormals),
    Change(
        "evaluation with batch norm folded into the convolutions of the blocks",
        "a tenth of an evaluation; but a second way through the network, which nothing that watches layers sees",
        taken=False,
        other=lambda: patch.object(BasicBlock, "forward", folded_block),
        evaluation=True,
    ),
    Change(
        "evaluation 64 images at a time",
        "nothing for CIFAR images: both fit",
        taken=False,
        other=lambda: patch.object(ResidentImages, "in_order", batches_of(64)),
        evaluation=True,
    ),
)


class Timer:
    """One variant of the code, ready to be timed."""

    def __init__(self, problem: Problem, change: Change | None, *, evaluation: bool) -> None:
        self.other = change.other if change else nullcontext
        self.evaluation = evaluation
        recipe = problem.engine("eager")
        with self.other():
            self.session = Session(recipe, problem.dataset, problem.device)
            self.parts = make_parts(self.session, "stage1")
            batch = next(self.parts.loader.epoch(0))
        if change:
            change.prepare(self.session, self.parts)
        keep = change is None or change.channels_last
        self.batch = batch if keep else replace(batch, images=batch.images.contiguous())
        self.generator = torch.Generator()

    def milliseconds(self) -> float:
        with self.other():
            if not self.evaluation:
                set_modes(self.session.model, self.parts.stage)
            started = time.process_time()
            if self.evaluation:
                self.session.predict(self.session.images.test, self.parts.scale)
            else:
                self.parts.executor.step(self.batch, self.generator)  # type: ignore[attr-defined]
            return 1e3 * (time.process_time() - started)


def measure(problem: Problem, change: Change, budget: float) -> dict[str, float]:
    """Milliseconds as the code is, and how many times that it would be otherwise; in turn until the budget is spent."""
    timers = [Timer(problem, one, evaluation=change.evaluation) for one in (None, change)]
    pairs: list[list[float]] = []
    ends = time.monotonic() + budget
    while len(pairs) < 3 or time.monotonic() < ends:
        pairs.append([timer.milliseconds() for timer in timers])
    ours = [first for first, _ in pairs[1:]]  # the first pair is a warm-up
    return {"ms": min(ours), "ratio": median(second / first for first, second in pairs[1:]), "pairs": len(ours)}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="the folder of CIFAR; without it digits-lt alone is measured")
    parser.add_argument("--seconds", type=float, default=20.0, help="for each change and problem")
    parser.add_argument("--write", type=Path, default=RESULTS / "ablation-cpu.json")
    options = parser.parse_args(words)
    options.data = options.images = None
    torch.set_num_threads(1)
    device = torch.device("cpu")
    try:
        chosen = {problem.recipe.data.spec: problem for problem in problems(options, device)}
    except TailcloudError as error:
        print(error, file=sys.stderr)
        return 1
    changes = []
    for change in HEAD_TRANSFORMS:
        found = {data: measure(problem, change, options.seconds) for data, problem in chosen.items()}
        changes.append({"name": change.name, "predicted": change.predicted, "taken": change.taken, "problems": found})
        print(change.name, *(f"{data} × {one['ratio']:.3f}" for data, one in found.items()), sep="; ", flush=True)
        write_record(options.write, {"seconds": options.seconds, "changes": changes}, device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
