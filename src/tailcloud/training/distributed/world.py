"""The processes (ranks) of a distributed run, and how they exchange data.

``torchrun`` starts the processes and sets RANK and WORLD_SIZE. All ranks draw the same epochs, and each computes its
micro-batches of every batch. Rank 0 writes the run folder and prints.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from tailcloud.data.loaders.batch import BatchShare
from tailcloud.errors import SilentExit, TailcloudError, UsageError, explained
from tailcloud.training.signals import Terminated

TIMEOUT = timedelta(minutes=30)  # long, since a rank may have to prepare data first

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """The rank of this process and the number of ranks; by default the only process."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among the ranks of this machine

    @property
    def rank0(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def share(self, accumulate: int = 1) -> BatchShare:
        """The micro-batches of every batch that this rank computes: ``accumulate`` of them."""
        return BatchShare(first=self.rank * accumulate, count=accumulate, of=self.size * accumulate)

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether any rank sets it. Costs one message, and does not wait for the device."""
        if self.size == 1:
            return flags
        raised = torch.tensor(flags, dtype=torch.int32)
        distributed.all_reduce(raised, distributed.ReduceOp.MAX)
        return tuple(bool(flag) for flag in raised)

    def gather(self, value: T) -> list[T]:
        """The value of every rank, in order."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all ranks, added in the order of ranks: the same bits on every rank."""
        if self.size == 1:
            return values
        gathered = [torch.empty_like(values) for _ in range(self.size)]
        distributed.all_gather(gathered, values.contiguous())
        for other in gathered[1:]:
            gathered[0] += other
        return gathered[0]

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite the tensors of all ranks with those of rank 0."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor.detach(), 0)

    @contextmanager
    def rank0_errors(self) -> Iterator[None]:
        """Around code that fails on all ranks or on none: only rank 0 prints the error."""
        try:
            yield
        except TailcloudError as error:
            if self.rank0:
                raise
            raise silent_exit(error.exit_code) from None

    def on_all_ranks(self, work: Callable[[], T]) -> T:
        """Do some work on every rank; if any rank fails, all ranks end, and each error is printed once."""
        if self.size == 1:
            return work()
        values: list[T] = []
        failure: TailcloudError | None = None
        try:
            values.append(work())
        except Terminated:  # the other ranks get SIGTERM too; do not wait for them
            raise
        except Exception as error:
            failure = explained(error)
            if failure is None:
                raise
        failures = self.gather((str(failure), failure.exit_code) if failure else None)
        if failure and failures.index((str(failure), failure.exit_code)) == self.rank:
            raise failure
        for other in filter(None, failures):
            raise silent_exit(other[1])
        return values[0]

    def from_rank0(self, work: Callable[[], T]) -> T:
        """Do some work on rank 0 and give all ranks its value; if it fails, all ranks end, and rank 0 prints why."""
        if self.size == 1:
            return work()
        answer: list[Any] = [None, None]  # the value, and the exit code of a failure
        failure: TailcloudError | None = None
        if self.rank0:
            try:
                answer[0] = work()
            except Exception as error:
                failure = explained(error)
                if failure is None:
                    raise
                answer[1] = failure.exit_code
        distributed.broadcast_object_list(answer, 0)
        if failure is not None:
            raise failure
        if answer[1] is not None:
            raise silent_exit(answer[1])
        value: T = answer[0]
        return value


SINGLE_PROCESS = World()


def silent_exit(code: int) -> SilentExit:
    """An error that ends this rank with an exit code and prints nothing: another rank prints the reason."""
    error = SilentExit("another process of this run prints the reason")
    error.exit_code = code
    return error


def world_from_environment(environment: Mapping[str, str] = os.environ) -> World:
    """The world that ``torchrun`` sets in the environment."""
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return SINGLE_PROCESS
    try:
        numbers = [int(environment.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")]
    except ValueError:
        numbers = [-1, 0, 0]
    world = World(*numbers)
    if not 0 <= world.rank < world.size:
        raise UsageError(
            f"RANK={environment['RANK']} and WORLD_SIZE={environment['WORLD_SIZE']} in the environment are not a rank "
            "and a number of ranks; start with torchrun, or unset both to train in one process"
        )
    if world.size > 1 and "MASTER_ADDR" not in environment:
        raise UsageError(
            f"WORLD_SIZE={world.size} in the environment needs {world.size} processes, but MASTER_ADDR is not set; "
            "start them with torchrun, or unset WORLD_SIZE to train in one process"
        )
    return world


def check_single_process(verb: str) -> None:
    """Refuse a verb that cannot run under ``torchrun``."""
    world = world_from_environment()
    if world.size > 1:
        with world.rank0_errors():
            raise UsageError(
                f'"tailcloud {verb}" cannot run under torchrun (WORLD_SIZE={world.size}); start it without torchrun'
            )


def rank_device(world: World, device: torch.device) -> torch.device:
    """The GPU of this rank, which becomes PyTorch's current device; on a CPU all ranks share the cores."""
    if world.size == 1 or device.type != "cuda":
        return device
    if world.local_rank >= torch.cuda.device_count():
        raise UsageError(
            f"this machine has {torch.cuda.device_count()} GPUs, and process {world.local_rank + 1} needs its own; "
            f"start with torchrun --nproc-per-node {torch.cuda.device_count()}"
        )
    torch.cuda.set_device(world.local_rank)
    return torch.device("cuda", world.local_rank)


@contextmanager
def process_group(world: World, device: torch.device) -> Iterator[None]:
    """Connect the ranks, with NCCL for tensors on GPUs and gloo for everything else."""
    if world.size == 1:
        yield
        return
    if device.type not in {"cpu", "cuda"}:
        raise UsageError(f"a run on several processes needs --device cpu or cuda, not {device.type}")
    try:
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            rank=world.rank, world_size=world.size, timeout=TIMEOUT,
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        raise TailcloudError(f"the {world.size} processes of this run could not connect: {first_line(error)}") from None
    with lost_rank_errors(world):
        yield
        distributed.barrier()
    distributed.destroy_process_group()


@contextmanager
def lost_rank_errors(world: World) -> Iterator[None]:
    """Turn PyTorch's error about a rank that ended into one sentence, which rank 0 prints."""
    try:
        yield
    except RuntimeError as error:
        if not is_connection_error(error):
            raise
        if not world.rank0:
            raise silent_exit(1) from None
        raise TailcloudError(
            f"another process of this run ended ({first_line(error)}); its own error, if any, is above. "
            "Start all processes again with --resume"
        ) from None


def is_connection_error(error: RuntimeError) -> bool:
    """Whether an error is about the connection to other ranks."""
    if isinstance(error, distributed.DistError):
        return True
    text = str(error).lower()
    return any(word in text for word in ("gloo", "nccl", "connection closed", "connection reset", "timed out waiting"))


def first_line(error: Exception) -> str:
    """The first line of an error, without the place in PyTorch's sources and without advice."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text.rpartition("] ")[2].partition(". ")[0][:200].rstrip(".")
