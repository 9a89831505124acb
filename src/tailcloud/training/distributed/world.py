"""A run that several processes share: who takes part, and what they tell each other.

``torchrun`` starts the processes and says in each one's environment which of how many it is. All of them draw the same
epochs and compute their pieces of every batch; one of them, the chief, writes the run folder and speaks.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed

from tailcloud.data.loaders.batch_share import Share
from tailcloud.errors import Elsewhere, TailcloudError, UsageError, explained
from tailcloud.training.signals import Terminated

PATIENCE = timedelta(minutes=30)  # with one that says nothing: data may have to be prepared

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """Which process this is, of how many; by default the only one."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among those on this machine

    @property
    def chief(self) -> bool:
        """Whether this process writes and speaks."""
        return self.rank == 0

    def share(self, accumulate: int = 1) -> Share:
        """The pieces of every batch that are computed here, when each process takes ``accumulate`` of them."""
        return Share(first=self.rank * accumulate, count=accumulate, of=self.size * accumulate)

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether some process raises it. Costs one message, and waits for no device."""
        if self.size == 1:
            return flags
        raised = torch.tensor(flags, dtype=torch.int32)
        distributed.all_reduce(raised, distributed.ReduceOp.MAX)
        return tuple(bool(flag) for flag in raised)

    def gather(self, value: T) -> list[T]:
        """What every process has, by rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes, added up by rank: the same bits everywhere, in pieces or at once."""
        if self.size == 1:
            return values
        found = [torch.empty_like(values) for _ in range(self.size)]
        distributed.all_gather(found, values.contiguous())
        for other in found[1:]:
            found[0] += other
        return found[0]

    def spread(self, tensors: Iterable[Tensor]) -> None:
        """Put the chief's numbers in the place of everybody's."""
        if self.size > 1:
            for tensor in tensors:
                distributed.broadcast(tensor.detach(), 0)

    @contextmanager
    def one_voice(self) -> Iterator[None]:
        """Around what fails in all processes or in none: only the chief says why."""
        try:
            yield
        except TailcloudError as error:
            if self.chief:
                raise
            raise quiet(error.exit_code) from None

    def everywhere(self, work: Callable[[], T]) -> T:
        """What each process makes for itself; where some fail, all end, and each sentence is said once."""
        if self.size == 1:
            return work()
        made: list[T] = []
        failure: TailcloudError | None = None
        try:
            made.append(work())
        except Terminated:  # whoever ends the others tells them too, and they may have long to work still
            raise
        except Exception as error:
            failure = explained(error)
            if failure is None:
                raise
        told = self.gather((str(failure), failure.exit_code) if failure else None)
        if failure and told.index((str(failure), failure.exit_code)) == self.rank:
            raise failure
        for other in filter(None, told):
            raise quiet(other[1])
        return made[0]

    def from_chief(self, work: Callable[[], T]) -> T:
        """What the chief makes, for everybody; where it fails, all fail, and only the chief says why."""
        if self.size == 1:
            return work()
        made: list[Any] = [None, None]
        failure: TailcloudError | None = None
        if self.chief:
            try:
                made[0] = work()
            except Exception as error:
                failure = explained(error)
                if failure is None:
                    raise
                made[1] = failure.exit_code
        distributed.broadcast_object_list(made, 0)
        if failure is not None:
            raise failure
        if made[1] is not None:
            raise quiet(made[1])
        value: T = made[0]
        return value


ALONE = World()


def quiet(code: int) -> Elsewhere:
    """The end of a process whose reason another one says, with its exit code."""
    end = Elsewhere("another process of this run says why")
    end.exit_code = code
    return end


def world_of(environment: Mapping[str, str] = os.environ) -> World:
    """The world that ``torchrun`` describes in the environment."""
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return ALONE
    try:
        numbers = [int(environment.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")]
    except ValueError:
        numbers = [-1, 0, 0]
    world = World(*numbers)
    if not 0 <= world.rank < world.size:
        raise UsageError(
            f"RANK={environment['RANK']} and WORLD_SIZE={environment['WORLD_SIZE']} in the environment are no place "
            "among processes; start them with torchrun, or unset both to train in one process"
        )
    if world.size > 1 and "MASTER_ADDR" not in environment:
        raise UsageError(
            f"WORLD_SIZE={world.size} in the environment asks for {world.size} processes, but MASTER_ADDR does not say "
            "where they meet; start them with torchrun, or unset WORLD_SIZE to train in one process"
        )
    return world


def check_alone(verb: str) -> None:
    """Refuse what every process that ``torchrun`` starts would do anew."""
    world = world_of()
    if world.size > 1:
        with world.one_voice():
            raise UsageError(
                f'"tailcloud {verb}" is no work for the {world.size} processes of torchrun, which share one run of '
                f'"tailcloud train"; start it without torchrun'
            )


def own_device(world: World, device: torch.device) -> torch.device:
    """The GPU of this process, one each, which is then PyTorch's own choice too; on a CPU all share the cores."""
    if world.size == 1 or device.type != "cuda":
        return device
    if world.local_rank >= torch.cuda.device_count():
        raise UsageError(
            f"this machine has {torch.cuda.device_count()} GPUs, and process {world.local_rank + 1} would need one of "
            f"its own; start it with torchrun --nproc-per-node {torch.cuda.device_count()}"
        )
    torch.cuda.set_device(world.local_rank)
    return torch.device("cuda", world.local_rank)


@contextmanager
def joined(world: World, device: torch.device) -> Iterator[None]:
    """Be one of the processes for a while; messages about tensors go from GPU to GPU, all others over the network."""
    if world.size == 1:
        yield
        return
    if device.type not in {"cpu", "cuda"}:
        raise UsageError(f"several processes can share a run on cpu or cuda, not on {device.type}")
    try:
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
            rank=world.rank, world_size=world.size, timeout=PATIENCE,
        )  # fmt: skip
    except (RuntimeError, ValueError) as error:
        raise TailcloudError(f"the {world.size} processes of this run did not meet: {first_line(error)}") from None
    with together(world):
        yield
        distributed.barrier()
    distributed.destroy_process_group()


@contextmanager
def together(world: World) -> Iterator[None]:
    """Turn PyTorch's words for a process that went away into a sentence, which one of those that are left says."""
    try:
        yield
    except RuntimeError as error:
        if not lost(error):
            raise
        if not world.chief:
            raise quiet(1) from None
        raise TailcloudError(
            f"another process of this run went away ({first_line(error)}); if it could say why, it did. "
            "Start all of them again with --resume"
        ) from None


def lost(error: RuntimeError) -> bool:
    """Whether an error is about the connection to other processes."""
    if isinstance(error, distributed.DistError):
        return True
    said = str(error).lower()
    return any(word in said for word in ("gloo", "nccl", "connection closed", "connection reset", "timed out waiting"))


def first_line(error: Exception) -> str:
    """What an error says first, without the place in PyTorch's sources that it comes from and its advice."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    return text.rpartition("] ")[2].partition(". ")[0][:200].rstrip(".")
