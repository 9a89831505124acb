"""Steps on batches that are computed in pieces: one after the other in this process, or by several processes at once.

The gradient is that of the whole batch: each piece counts as much as it has images. What looks at several images at
once, as batch norm does, sees a piece.
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
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.epoch_plan import Loader
from tailcloud.errors import UsageError
from tailcloud.objectives import Objective, cut
from tailcloud.optimizers import Optimizer
from tailcloud.training.distributed.world import World
from tailcloud.training.executors.cuda_graph import EagerExecutor, Standing
from tailcloud.training.executors.step import Step


def check_pieces(objective: Objective, stage: str) -> None:
    """Refuse what is no mean over images: the gradients of its pieces do not add up to that of the batch."""
    loss = objective.loss
    if objective.per_image and (loss.per_image or (loss.weighs and objective.weighs)):
        return
    what = type(loss if objective.per_image else objective).__name__
    raise UsageError(
        f"the {what} of {stage} is no mean over images: it compares those of a batch, or weighs them by their sum, "
        "so a batch cannot be computed in pieces; train in one process with engine.accumulate = 1"
    )


class Computation(nn.Module):
    """Model and objective as one module, for PyTorch to watch its gradients."""

    def __init__(self, model: Classifier, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, piece: Batch, noise: Any) -> Tensor:
        """The scalar to minimise."""
        loss: Tensor = self.objective(self.model, piece, noise)
        return loss


@dataclass(frozen=True)
class PiecedStep:
    """A step whose batch comes as pieces; after the last one the gradients of all processes are added up."""

    model: Classifier
    optimizer: Optimizer
    objective: Objective
    compute: Callable[[Batch, Any], Tensor]
    world: World
    half: bool = False

    def __call__(self, pieces: tuple[Batch, ...], generator: torch.Generator) -> Tensor:
        """Improve the model on one batch; what the own pieces add to its loss stays on the device."""
        noise = self.objective.draw(pieces[0], generator)
        self.optimizer.zero_grad()
        shares = [self.add(piece, cut(noise, piece), last=piece is pieces[-1]) for piece in pieces]
        self.optimizer.step()
        return torch.stack(shares).sum()

    def add(self, piece: Batch, noise: Any, *, last: bool) -> Tensor:
        """Add the gradient of a piece; its share of the batch's loss. PyTorch takes the mean over processes."""
        weight = len(piece.target) / piece.rows
        with self.apart(last):
            with torch.autocast(piece.images.device.type, torch.bfloat16, enabled=self.half):
                loss = weight * self.compute(piece, noise)
            (self.world.size * loss).backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def apart(self, last: bool) -> AbstractContextManager[None]:
        """Before the last piece processes do not wait for each other."""
        if last or not isinstance(self.compute, DistributedDataParallel):
            return nullcontext()
        apart: AbstractContextManager[None] = self.compute.no_sync()
        return apart


def pieced(step: Step, world: World) -> PiecedStep:
    """The same step for pieces. All processes start from the chief's weights."""
    compute: Any = Computation(step.model, step.objective)
    if world.size > 1:
        # Looking for parameters without a gradient also keeps the buckets that are sent as they are: a run that
        # is resumed then adds in the same order as one that was not stopped.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of an option's new name, which older versions do not know
            compute = DistributedDataParallel(compute, broadcast_buffers=False, find_unused_parameters=True)
    return PiecedStep(step.model, step.optimizer, step.objective, compute, world, step.half)


class PieceExecutor(EagerExecutor):
    """One step after the other, each on the pieces that are computed here."""

    def __init__(self, step: Step, loader: Loader, world: World) -> None:
        super().__init__(step, loader)
        self.world, self.whole = world, pieced(step, world)

    def prepare(self) -> None:
        """There is nothing to make ready."""

    def take(self, pieces: tuple[Batch, ...]) -> Tensor:
        """One step; what the own pieces add to its loss."""
        return self.whole(pieces, self.generator)

    def standing(self) -> Standing:
        """Where the epoch stands, with the losses of whole batches. All processes must ask."""
        own = super().standing()
        return replace(own, losses=self.world.total(own.losses))

    def go_on(self, left: Standing, number: int) -> None:
        """Stand where an epoch was left: the losses so far are the chief's, for all."""
        super().go_on(left, number)
        if not self.world.chief:
            self.losses = [torch.zeros_like(loss) for loss in self.losses]
