"""Eager execution: one step after the other, launched from Python."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from tailcloud.data.loaders.base import Loader
from tailcloud.data.loaders.batch import Batch
from tailcloud.kernels import FusedNetwork
from tailcloud.randomness import derive_seed
from tailcloud.training.executors.base import EpochState
from tailcloud.training.executors.step import TrainingStep


class EagerExecutor:
    """One step after the other, launched from Python."""

    def __init__(self, step: TrainingStep, loader: Loader) -> None:
        self.step, self.loader = step, loader
        self.device = loader.device
        self.generator = torch.Generator(self.device)
        self.losses: list[Tensor] = []

    def prepare(self) -> None:
        """Compile fused kernels here, where plain ones can still replace one that fails."""
        if isinstance(self.step.network, FusedNetwork):
            self.warm_up()

    def warm_up(self) -> None:
        """Compute a loss and its gradients for every batch size, without an update; buffers are restored."""
        plan, sizes = self.loader.plan(0), self.loader.sizes
        buffers = list(self.step.model.buffers())
        before = [buffer.clone() for buffer in buffers]
        try:
            for size in dict.fromkeys(sizes):
                batch = self.loader.at(plan, sizes.index(size))
                self.step.differentiate(batch, self.step.objective.draw(batch, self.generator))
                self.step.optimizer.zero_grad()
        finally:
            self.step.optimizer.zero_grad()
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)

    def epoch(
        self,
        number: int,
        rates: Sequence[float],
        *,
        resume_from: EpochState | None = None,
        between_steps: Callable[[], None] | None = None,
    ) -> Tensor:
        """Train one epoch, or the rest of an unfinished one; the loss of each step, still on the device."""
        self.seed_noise(number)
        self.losses = []
        if resume_from:
            self.restore(resume_from, number)
        first = len(self.losses)
        for micro_batches in self.loader.micro_batches(number, first):
            if between_steps and len(self.losses) > first:
                between_steps()
            if len(self.losses) >= len(rates):
                break
            self.step.optimizer.set_rate(rates[len(self.losses)])
            self.losses.append(self.train_step(micro_batches))
        return self.state().losses

    def train_step(self, micro_batches: tuple[Batch, ...]) -> Tensor:
        """One step; its loss."""
        (batch,) = micro_batches
        return self.step(batch, self.generator)

    def state(self) -> EpochState:
        """The state of the current epoch, between two steps."""
        return EpochState(torch.stack(self.losses), self.generator.get_state())

    def restore(self, state: EpochState, number: int) -> None:
        """Continue an unfinished epoch. A generator state of another kind of device is replaced by a new seed."""
        self.losses = list(state.losses.to(self.device).unbind())
        try:
            self.generator.set_state(state.clouds)
        except RuntimeError:
            seed = derive_seed(self.loader.seed, self.loader.stage, "cloud", number, len(self.losses))
            self.generator.manual_seed(seed)

    def seed_noise(self, number: int) -> None:
        """Seed the noise of an epoch."""
        self.generator.manual_seed(derive_seed(self.loader.seed, self.loader.stage, "cloud", number))
