"""How the steps of an epoch are run: one by one, or as a CUDA graph that is captured once and replayed.

All executors, the one in ``compiled.py`` too, compute the same: the same draws, the same batches, the same formulas.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.epoch_plan import EpochPlan, Loader
from tailcloud.randomness import derive_seed
from tailcloud.training.executors.graph_capture import captured
from tailcloud.training.executors.step import Step

STEPS_PER_LAUNCH = 4


@dataclass(frozen=True)
class Standing:
    """Where an epoch was left: the losses of the steps that are done, and the state of the clouds' generator."""

    losses: Tensor
    clouds: Tensor


class Executor(Protocol):
    """Runs whole epochs of one stage."""

    def prepare(self) -> None:
        """Make ready before the first epoch; the model, in the modes of its stage, is left as it was."""

    def epoch(
        self, number: int, lr: float, *, left: Standing | None = None, between: Callable[[], None] | None = None
    ) -> Tensor:
        """Train one epoch, or the rest of one that was left; the loss of each step, still on the device.

        ``between`` is called between two steps where there is such a moment. It may ask for ``standing``, or raise.
        """

    def standing(self) -> Standing:
        """Where the epoch stands, between two steps."""


class EagerExecutor:
    """One step after the other, launched from Python."""

    def __init__(self, step: Step, loader: Loader) -> None:
        self.step, self.loader = step, loader
        self.device = loader.device
        self.generator = torch.Generator(self.device)
        self.losses: list[Tensor] = []

    def prepare(self) -> None:
        """Kernels of our own are compiled here, where one that fails can still be replaced."""
        if self.step.network not in {None, self.step.model}:
            self.rehearse()

    def rehearse(self) -> None:
        """Go through every size of batch without an update; gradients and statistics are put back as they were."""
        plan, sizes = self.loader.plan(0), self.loader.sizes
        buffers = list(self.step.model.buffers())
        before = [buffer.clone() for buffer in buffers]
        try:
            for size in dict.fromkeys(sizes):
                batch = self.loader.at(plan, sizes.index(size))
                self.step.loss(batch, self.generator).backward()  # type: ignore[no-untyped-call]
                self.step.optimizer.zero_grad()  # kernels of our own do not add to gradients
        finally:
            self.step.optimizer.zero_grad()
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)

    def epoch(
        self, number: int, lr: float, *, left: Standing | None = None, between: Callable[[], None] | None = None
    ) -> Tensor:
        """Train one epoch, or the rest of one that was left; the loss of each step, still on the device."""
        self.begin(number, lr)
        self.losses = []
        if left:
            self.go_on(left, number)
        first = len(self.losses)
        for pieces in self.loader.rounds(number, first):
            if between and len(self.losses) > first:
                between()
            self.losses.append(self.take(pieces))
        return self.standing().losses

    def take(self, pieces: tuple[Batch, ...]) -> Tensor:
        """One step; its loss."""
        (batch,) = pieces
        return self.step(batch, self.generator)

    def standing(self) -> Standing:
        """Where the epoch stands, between two steps."""
        return Standing(torch.stack(self.losses), self.generator.get_state())

    def go_on(self, left: Standing, number: int) -> None:
        """Stand where an epoch was left; on another kind of device its clouds cannot go on, and start anew."""
        self.losses = list(left.losses.to(self.device).unbind())
        try:
            self.generator.set_state(left.clouds)
        except RuntimeError:
            seed = derive_seed(self.loader.seed, self.loader.stage, "cloud", number, len(self.losses))
            self.generator.manual_seed(seed)

    def begin(self, number: int, lr: float) -> None:
        """Set the learning rate, and start the clouds' random numbers of this epoch."""
        self.step.optimizer.set_rate(lr)
        self.generator.manual_seed(derive_seed(self.loader.seed, self.loader.stage, "cloud", number))


class GraphedExecutor(EagerExecutor):
    """The whole step (batch, forward, backward, update) captured once as a CUDA graph, and replayed.

    The graph reads the epoch's plan, its place in it and the learning rate from tensors that stay where they are.
    """

    def __init__(self, step: Step, loader: Loader) -> None:
        super().__init__(step, loader)
        self.plan: EpochPlan | None = None
        self.start, self.number = (torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(2))
        dtype = next(step.model.parameters()).dtype
        self.each = torch.zeros(loader.steps, dtype=dtype, device=self.device)
        self.rows = {size: torch.arange(size, device=self.device) for size in set(loader.sizes)}
        self.graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}

    def prepare(self) -> None:
        """Capture every graph that an epoch needs; model, optimiser and statistics are put back as they were."""
        self.plan = self.loader.plan(0)
        model, optimizer = self.step.model, self.step.optimizer
        state = {**model.state_dict(), **optimizer.state}
        before = {name: value.clone() for name, value in state.items()}
        try:
            for steps, size in dict.fromkeys(self.launches()):
                self.graphs[steps, size] = captured(
                    partial(self.some_steps, steps, size), partial(self.rehearse_step, size), self.generator
                )
        finally:
            for name, value in state.items():
                value.copy_(before[name])

    def epoch(
        self, number: int, lr: float, *, left: Standing | None = None, between: Callable[[], None] | None = None
    ) -> Tensor:
        """Train one epoch; the loss of each step, still on the device. The rest of one that was left runs eagerly."""
        if left:
            return super().epoch(number, lr, left=left, between=between)
        if self.plan is None:
            self.prepare()
        assert self.plan is not None
        for static, fresh in zip(self.plan.tensors(), self.loader.plan(number).tensors(), strict=True):
            static.copy_(fresh)
        self.begin(number, lr)
        self.go_to(0)
        for launch in self.launches():
            self.graphs[launch].replay()
        return self.each.clone()

    def launches(self) -> list[tuple[int, int]]:
        """The graphs of an epoch in order, each as (steps, images a step)."""
        sizes, launches, at = self.loader.sizes, [], 0
        while at < len(sizes):
            steps = STEPS_PER_LAUNCH if sizes[at : at + STEPS_PER_LAUNCH] == [sizes[at]] * STEPS_PER_LAUNCH else 1
            launches.append((steps, sizes[at]))
            at += steps
        return launches

    def rehearse_step(self, size: int) -> None:
        """A step as it will be captured, after which no gradient is left behind."""
        self.go_to(self.loader.sizes.index(size))
        self.one_step(size)
        self.step.optimizer.zero_grad()

    def some_steps(self, steps: int, size: int) -> None:
        """Steps of a launch."""
        for _ in range(steps):
            self.one_step(size)

    def go_to(self, number: int) -> None:
        """Stand before a step of the epoch."""
        self.start.fill_(sum(self.loader.sizes[:number]))
        self.number.fill_(number)

    def one_step(self, size: int) -> None:
        """A step where the last one stopped. A graph reads its tensors where they lie: all of them must live on."""
        assert self.plan is not None
        lam = self.plan.lambdas.index_select(0, self.number).squeeze(0)
        batch = self.loader.assemble(self.plan, self.start + self.rows[size], lam)
        loss = self.step(batch, self.generator)
        self.each.index_copy_(0, self.number, loss.reshape(1))
        self.start += size
        self.number += 1
