"""CUDA graphs: training steps and evaluations that are captured once and replayed.

A graph reads and writes its tensors at fixed addresses: all of them must exist as long as the graph does.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.base import Loader
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.epoch_plan import EpochPlan
from tailcloud.data.loaders.images import Images
from tailcloud.evaluation import DevicePredictions, predict_on_device
from tailcloud.garbage_collection import collection_paused
from tailcloud.side_stream import SideStream
from tailcloud.training.executors.base import EpochState
from tailcloud.training.executors.eager import EagerExecutor
from tailcloud.training.executors.step import TrainingStep

STEPS_PER_GRAPH = 4
AHEAD = 2  # graphs that are launched before the first of them has ended
ROOM = 2  # free memory that a capture should find, as a multiple of what its warm-up may have taken

_capturing = Lock()  # one capture at a time, whatever other runs of this process do meanwhile


def capture(
    work: Callable[[], None], warm_up: Callable[[], None], generator: torch.Generator | None = None
) -> torch.cuda.CUDAGraph:
    """A graph of ``work``, after a call of ``warm_up``; ``generator`` is what the work draws from.

    One call compiles kernels and creates the handles of libraries; algorithms are not chosen by trial, because they are
    deterministic. Other runs of this process go on: unlike ``torch.cuda.graph``, this does not wait for the whole
    device before the capture. The warm-up is inside the lock, since it is Python code that would only slow down the
    capture of another run.
    """
    graph = torch.cuda.CUDAGraph()
    with _capturing:
        # Streams come from a small pool; nothing else here uses those of high priority.
        stream = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                warm_up()
        finally:  # a caller that restores tensors after a failed warm-up must do so after it
            torch.cuda.current_stream().wait_stream(stream)
        if generator is not None:
            graph.register_generator_state(generator)
        torch._C._cuda_clearCublasWorkspaces()  # graphs that run at the same time must not share one
        if memory_is_short():
            torch.cuda.empty_cache()
        with torch.cuda.stream(stream), collection_paused():  # memory that is freed during a capture makes it fail
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                work()
            finally:
                graph.capture_end()
        torch.cuda.current_stream().wait_stream(stream)  # which has set the generator's seed
        torch._C._cuda_clearCublasWorkspaces()
    return graph


def memory_is_short() -> bool:
    """Whether a capture may need the memory that PyTorch keeps for tensors to come, which a graph cannot take."""
    free, _ = torch.cuda.mem_get_info()
    return free < ROOM * (torch.cuda.memory_reserved() - torch.cuda.memory_allocated())


def release_cached_memory() -> None:
    """Give back the memory that no tensor and no graph needs. It waits for the device, so it is for rare occasions."""
    with _capturing:  # not while a graph is captured
        torch.cuda.empty_cache()


class GraphedEvaluation:
    """Evaluates a split as ``predict_on_device`` does, by a graph."""

    def __init__(self, network: Callable[[Tensor], Tensor], images: Images, transform: Normalise, scale: float) -> None:
        self.network, self.images, self.transform, self.scale = network, images, transform, scale
        self.predictions: DevicePredictions | None = None
        self.graph = capture(self.work, self.work)

    def work(self) -> None:
        """What is captured."""
        self.predictions = predict_on_device(self.network, self.images.in_order(self.transform), self.scale)

    def __call__(self) -> DevicePredictions:
        """The predictions of the network as it is now."""
        assert self.predictions is not None
        self.graph.replay()
        return self.predictions


class GraphedExecutor(EagerExecutor):
    """The whole step (batch, forward, backward, update) captured once as a CUDA graph, and replayed.

    The graph reads the epoch's plan, the position in it and its learning rates from tensors at fixed addresses.
    """

    def __init__(self, step: TrainingStep, loader: Loader) -> None:
        super().__init__(step, loader)
        self.plan: EpochPlan | None = None
        self.first_row, self.step_number = (torch.zeros(1, dtype=torch.int64, device=self.device) for _ in range(2))
        dtype = next(step.model.parameters()).dtype
        self.step_losses = torch.zeros(loader.steps, dtype=dtype, device=self.device)
        self.rates = torch.zeros(loader.steps, len(step.optimizer.groups), device=self.device)
        self.offsets = torch.arange(STEPS_PER_GRAPH, device=self.device)
        self.rows = {
            size: torch.arange(STEPS_PER_GRAPH * size, device=self.device).view(-1, size) for size in set(loader.sizes)
        }
        self.graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        self.ahead: tuple[tuple[int, float], EpochPlan] | None = None  # the next epoch and its progress, and its draws

    def prepare(self) -> None:
        """Capture every graph that an epoch needs; model, optimiser and buffers are restored."""
        self.plan = self.loader.plan(0)
        model, optimizer = self.step.model, self.step.optimizer
        state = {**model.state_dict(), **optimizer.state}
        before = {name: value.clone() for name, value in state.items()}
        try:
            for steps, size in dict.fromkeys(self.launches(self.loader.steps)):
                warm = any(size == captured for _, captured in self.graphs)
                warm_up = optimizer.zero_grad if warm else partial(self.warm_up_step, size)
                self.graphs[steps, size] = capture(partial(self.several_steps, steps, size), warm_up, self.generator)
        finally:
            for name, value in state.items():
                value.copy_(before[name])

    def epoch(
        self,
        number: int,
        rates: Sequence[float],
        *,
        resume_from: EpochState | None = None,
        between_steps: Callable[[], None] | None = None,
    ) -> Tensor:
        """Train one epoch; the loss of each step, still on the device. The rest of an unfinished epoch runs eagerly."""
        if self.plan is None:
            self.prepare()
        assert self.plan is not None
        launches = self.launches(len(rates))
        if resume_from or not self.graphs.keys() >= {*launches}:
            return super().epoch(number, rates, resume_from=resume_from, between_steps=between_steps)
        for static, fresh in zip(self.plan.tensors(), self.drawn(number).tensors(), strict=True):
            static.copy_(fresh)
        self.rates[: len(rates)] = self.step.optimizer.rate_table(rates)
        self.seed_noise(number)
        self.go_to(0)
        self.replay(launches)
        self.draw_ahead(number + 1)
        return self.step_losses[: len(rates)].clone()

    def drawn(self, number: int) -> EpochPlan:
        """The draws of an epoch, on the host; those that were drawn ahead, unless the schedule has changed since."""
        key, ahead = (number, self.loader.progress(number)), self.ahead
        self.ahead = None
        return ahead[1] if ahead and ahead[0] == key else self.loader.draw_plan(number)

    def draw_ahead(self, number: int) -> None:
        """Draw an epoch while the device computes the last steps of the one before."""
        progress = self.loader.progress(number)
        if progress < 1:  # from 1 on the stage is over
            self.ahead = (number, progress), self.loader.draw_plan(number)

    def replay(self, launches: Sequence[tuple[int, int]]) -> None:
        """Launch graphs, only so many ahead of the device: where its queue is full, every run of the process waits."""
        ends = deque[torch.cuda.Event]()
        for launch in launches:
            if len(ends) == AHEAD:
                ends.popleft().synchronize()
            self.graphs[launch].replay()
            ends.append(torch.cuda.Event(blocking=True))  # type: ignore[no-untyped-call]
            ends[-1].record()

    def launches(self, steps: int) -> list[tuple[int, int]]:
        """The graphs of the first steps of an epoch in order, each as (steps, images per step)."""
        sizes, launches, at = self.loader.sizes[:steps], list[tuple[int, int]](), 0
        while at < len(sizes):
            several = sizes[at : at + STEPS_PER_GRAPH] == [sizes[at]] * STEPS_PER_GRAPH
            launches.append((STEPS_PER_GRAPH if several else 1, sizes[at]))
            at += launches[-1][0]
        return launches

    def warm_up_step(self, size: int) -> None:
        """A step as it will be captured; its gradients are removed afterwards."""
        self.go_to(self.loader.sizes.index(size))
        self.several_steps(1, size)
        self.step.optimizer.zero_grad()

    def several_steps(self, steps: int, size: int) -> None:
        """The steps of one graph, from the current position, which then moves on.

        A batch depends on no weight, so a second stream makes the next one while a step runs. The second stream waits
        for the step before that: so a batch takes the memory of one that is not needed any more.
        """
        with SideStream(self.device) as beside:
            numbers = beside.run(lambda: self.step_number + self.offsets[:steps])
            ahead = beside.run(partial(self.batch_and_noise, numbers, 0, size))
            losses = list[Tensor]()
            for place in range(steps):
                beside.wait()
                batch, noise = ahead
                if place + 1 < steps:
                    ahead = beside.run(partial(self.batch_and_noise, numbers, place + 1, size))
                else:
                    beside.run(partial(self.move_on, steps, size))
                self.step.optimizer.set_rate_from(self.rates, numbers[place : place + 1])
                losses.append(self.step.update(batch, noise))
            self.step_losses.index_copy_(0, numbers, torch.stack(losses))

    def batch_and_noise(self, numbers: Tensor, place: int, size: int) -> tuple[Batch, Any]:
        """The batch of one of the next steps, with the logits of teachers, and the random numbers of its clouds."""
        assert self.plan is not None
        lam = self.plan.lambdas.index_select(0, numbers[place : place + 1]).squeeze(0)
        batch = self.loader.assemble(self.plan, self.first_row + self.rows[size][place], lam)
        return self.step.precompute(batch), self.step.draw(batch, self.generator)

    def move_on(self, steps: int, size: int) -> None:
        """Set the position to after these steps."""
        self.first_row += steps * size
        self.step_number += steps

    def go_to(self, number: int) -> None:
        """Set the position in the epoch to before a step."""
        self.first_row.fill_(sum(self.loader.sizes[:number]))
        self.step_number.fill_(number)
