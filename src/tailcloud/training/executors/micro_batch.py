"""Steps on batches that are cut into micro-batches: one after the other (gradient accumulation), or on several ranks.

The gradient is that of the whole batch: each micro-batch is weighted by its number of images. What compares images, as
batch norm does, sees one micro-batch.
"""

import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tailcloud.classifier import Classifier
from tailcloud.data.loaders.base import Loader
from tailcloud.data.loaders.batch import Batch
from tailcloud.errors import UsageError
from tailcloud.objectives import Network, Objective, cut
from tailcloud.optimizers import Optimizer, SharpnessAware
from tailcloud.training.distributed.world import World
from tailcloud.training.executors.base import EpochState
from tailcloud.training.executors.eager import EagerExecutor
from tailcloud.training.executors.step import TrainingStep


def check_micro_batches(objective: Objective, stage: str) -> None:
    """Refuse a loss that is not a mean over images: its micro-batch gradients do not add up to that of the batch.

    A part of a plugin is one if it says so.
    """
    loss = objective.loss
    if objective.per_image and (loss.per_image or (loss.weighs and objective.weighs)):
        return
    part = type(loss if objective.per_image else objective)
    alone = "train in one process with engine.accumulate = 1"
    if part.__module__.partition(".")[0] != __name__.partition(".")[0]:
        raise UsageError(
            f"the {part.__name__} of {stage} does not declare per_image = True, so a batch is not cut into "
            f"micro-batches; add that line to its class if it is a mean over images, or {alone}"
        )
    raise UsageError(
        f"the {part.__name__} of {stage} is not a mean over images: what an image adds depends on the others of its "
        f"batch, so a batch cannot be cut into micro-batches; {alone}"
    )


class ModelWithObjective(nn.Module):
    """Model and objective as one module, as DistributedDataParallel needs it."""

    def __init__(self, model: Network, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, micro_batch: Batch, noise: Any) -> Tensor:
        """The scalar to minimise."""
        loss: Tensor = self.objective(self.model, micro_batch, noise)
        return loss


@dataclass(frozen=True)
class MicroBatchStep:
    """A step on micro-batches; after the last one the gradients of all ranks are added."""

    model: Classifier
    optimizer: Optimizer
    objective: Objective
    compute: Callable[[Batch, Any], Tensor]
    world: World
    half: bool = False
    sam: SharpnessAware | None = None

    def __call__(self, micro_batches: tuple[Batch, ...], generator: torch.Generator) -> Tensor:
        """Update the model; returns what this rank's micro-batches add to the loss, on the device."""
        noise = self.objective.draw(micro_batches[0], generator)
        loss = self.differentiate(micro_batches, noise)
        if self.sam:  # all ranks have the gradients of the whole batch, so they move to the same point
            with self.sam.perturbed():
                self.differentiate(micro_batches, noise)
        self.optimizer.step()
        return loss

    def differentiate(self, micro_batches: tuple[Batch, ...], noise: Any) -> Tensor:
        """What these micro-batches add to the loss; the gradients of the whole batch replace those of before."""
        self.optimizer.zero_grad()
        shares = [self.add(each, cut(noise, each), last=each is micro_batches[-1]) for each in micro_batches]
        return torch.stack(shares).sum()

    def add(self, micro_batch: Batch, noise: Any, *, last: bool) -> Tensor:
        """Add the gradient of a micro-batch; its share of the batch's loss. PyTorch takes the mean over ranks."""
        weight = len(micro_batch.target) / micro_batch.rows
        with self.gradient_sync(last):
            with torch.autocast(micro_batch.images.device.type, torch.bfloat16, enabled=self.half):
                loss = weight * self.compute(micro_batch, noise)
            (self.world.size * loss).backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def gradient_sync(self, last: bool) -> AbstractContextManager[None]:
        """Ranks exchange gradients at the last micro-batch only."""
        if last or not isinstance(self.compute, DistributedDataParallel):
            return nullcontext()
        no_sync: AbstractContextManager[None] = self.compute.no_sync()
        return no_sync


def micro_batch_step(step: TrainingStep, world: World) -> MicroBatchStep:
    """The same step on micro-batches. All ranks start with the weights of rank 0."""
    compute: Any = ModelWithObjective(step.network or step.model, step.objective)
    if world.size > 1:
        # find_unused_parameters also keeps the gradient buckets unchanged: a resumed run then adds in the same
        # order as one that was not interrupted.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about the new name of an option, unknown to older versions
            compute = DistributedDataParallel(compute, broadcast_buffers=False, find_unused_parameters=True)
    return MicroBatchStep(step.model, step.optimizer, step.objective, compute, world, step.half, step.sam)


class MicroBatchExecutor(EagerExecutor):
    """One step after the other, each on the micro-batches of this rank."""

    def __init__(self, step: TrainingStep, loader: Loader, world: World) -> None:
        super().__init__(step, loader)
        self.world, self.micro_batch_step = world, micro_batch_step(step, world)

    def prepare(self) -> None:
        """Nothing to compile."""

    def train_step(self, micro_batches: tuple[Batch, ...]) -> Tensor:
        """One step; what this rank's micro-batches add to its loss."""
        return self.micro_batch_step(micro_batches, self.generator)

    def state(self) -> EpochState:
        """The state of the current epoch, with the losses of whole batches. All ranks must call this together."""
        own = super().state()
        return replace(own, losses=self.world.sum(own.losses))

    def restore(self, state: EpochState, number: int) -> None:
        """Continue an unfinished epoch: rank 0 keeps the losses so far, the others add nothing to them."""
        super().restore(state, number)
        if not self.world.rank0:
            self.losses = [torch.zeros_like(loss) for loss in self.losses]
