"""Batches that are fetched while others are computed, and brought to the device without anybody waiting for it."""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from tailcloud.data.loaders.decoder_pool import CHUNK
from tailcloud.data.loaders.file_reader import Fetched, Reader, unpacked
from tailcloud.data.packed_names import Positions

ON_DEVICE = 2  # batches that are there, or being copied, before they are wanted
ON_HOST = 3  # batches that are fetched meanwhile, at least

Job = TypeVar("Job")


@dataclass(frozen=True)
class Arrived(Generic[Job]):
    """What a job wanted: ``pixels`` and ``aspects`` on the device, and the small tensors that go with them."""

    job: Job
    pixels: Tensor
    aspects: Tensor
    beside: tuple[Tensor, ...]
    event: torch.cuda.Event | None = None

    def wait(self) -> None:
        """From now on, whatever the device does next finds them there."""
        if self.event is not None:
            stream = torch.cuda.current_stream(self.pixels.device)
            stream.wait_event(self.event)
            for tensor in (self.pixels, *self.beside):  # aspects lie in one piece of memory with the pixels
                tensor.record_stream(stream)


Order = tuple[Job, Positions, tuple[Tensor, ...]]  # a job, the rows it wants, and what goes to the device with them


class Feeder:
    """Fetches ahead from a reader, for one device."""

    def __init__(self, reader: Reader, device: torch.device, workers: int) -> None:
        self.reader, self.device, self.workers = reader, device, workers
        self.pinned = device.type == "cuda"
        self.stream = torch.cuda.Stream(device) if self.pinned else None  # type: ignore[no-untyped-call]

    def feed(self, orders: Iterable[Order[Job]]) -> Iterator[Arrived[Job]]:
        """What each order asks for, in their order."""
        orders = iter(orders)
        fetching: deque[tuple[Order[Job], Fetched]] = deque()
        arriving: deque[Arrived[Job]] = deque()
        try:
            while True:
                self._ask(orders, fetching)
                while fetching and (not arriving or (len(arriving) < ON_DEVICE and fetching[0][1].done)):
                    arriving.append(self._bring(*fetching.popleft()))
                    self._ask(orders, fetching)
                if not arriving:
                    return
                arrived = arriving.popleft()
                arrived.wait()
                yield arrived
        finally:
            for _, fetched in fetching:
                fetched.cancel()

    def _ask(self, orders: Iterator[Order[Job]], fetching: "deque[tuple[Order[Job], Fetched]]") -> None:
        """Keep every process busy, and some batches ahead."""
        while len(fetching) < ON_HOST or sum(len(fetched.rows) for _, fetched in fetching) < 2 * CHUNK * self.workers:
            order = next(orders, None)
            if order is None:
                return
            fetching.append((order, self.reader.fetch(order[1], pinned=self.pinned)))

    def _bring(self, order: Order[Job], fetched: Fetched) -> Arrived[Job]:
        """Start the copy to the device of what has been fetched."""
        self.reader.wait(fetched)
        job, _, beside = order
        with torch.cuda.stream(self.stream) if self.stream else nullcontext():
            pixels, aspects = unpacked(self._to_device(fetched.packed), fetched.pixels.shape)
            there = tuple(self._to_device(tensor) for tensor in beside)
            event = torch.cuda.Event() if self.stream else None  # type: ignore[no-untyped-call]
            if event:
                event.record(self.stream)
        return Arrived(job, pixels, aspects, there, event)

    def _to_device(self, tensor: Tensor) -> Tensor:
        pinned = tensor.pin_memory() if self.pinned and tensor.numel() and not tensor.is_pinned() else tensor
        return pinned.to(self.device, non_blocking=self.pinned)
