"""Prefetching: images are read while earlier batches are computed, and copied to the device without waiting."""

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

BATCHES_ON_DEVICE = 2  # that are copied before they are needed
BATCHES_ON_HOST = 3  # that are read meanwhile, at least

Request = TypeVar("Request")


@dataclass(frozen=True)
class Prefetched(Generic[Request]):
    """The answer to a request: ``pixels`` and ``aspects`` on the device, and the ``extra`` tensors of the request."""

    request: Request
    pixels: Tensor
    aspects: Tensor
    extra: tuple[Tensor, ...]
    event: torch.cuda.Event | None = None

    def wait(self) -> None:
        """Let the current CUDA stream wait until the copies are done."""
        if self.event is not None:
            stream = torch.cuda.current_stream(self.pixels.device)
            stream.wait_event(self.event)
            for tensor in (self.pixels, *self.extra):  # aspects share their memory with the pixels
                tensor.record_stream(stream)


Order = tuple[Request, Positions, tuple[Tensor, ...]]  # a request, its rows, and tensors to copy to the device


class Prefetcher:
    """Reads ahead from a reader, for one device."""

    def __init__(self, reader: Reader, device: torch.device, workers: int) -> None:
        self.reader, self.device, self.workers = reader, device, workers
        self.pinned = device.type == "cuda"
        self.stream = torch.cuda.Stream(device) if self.pinned else None  # type: ignore[no-untyped-call]

    def prefetch(self, orders: Iterable[Order[Request]]) -> Iterator[Prefetched[Request]]:
        """The answer to each order, in their order."""
        orders = iter(orders)
        fetching: deque[tuple[Order[Request], Fetched]] = deque()
        arriving: deque[Prefetched[Request]] = deque()
        try:
            while True:
                self._fetch_ahead(orders, fetching)
                while fetching and (not arriving or (len(arriving) < BATCHES_ON_DEVICE and fetching[0][1].done)):
                    arriving.append(self._copy(*fetching.popleft()))
                    self._fetch_ahead(orders, fetching)
                if not arriving:
                    return
                arrived = arriving.popleft()
                arrived.wait()
                yield arrived
        finally:
            for _, fetched in fetching:
                fetched.cancel()

    def _fetch_ahead(self, orders: Iterator[Order[Request]], fetching: "deque[tuple[Order[Request], Fetched]]") -> None:
        """Start reading enough images to keep every decoder process busy, and some batches more."""
        enough = 2 * CHUNK * self.workers
        while len(fetching) < BATCHES_ON_HOST or sum(len(fetched.rows) for _, fetched in fetching) < enough:
            order = next(orders, None)
            if order is None:
                return
            fetching.append((order, self.reader.fetch(order[1], pinned=self.pinned)))

    def _copy(self, order: Order[Request], fetched: Fetched) -> Prefetched[Request]:
        """Wait until images are read, and start to copy them to the device."""
        self.reader.wait(fetched)
        request, _, extra = order
        with torch.cuda.stream(self.stream) if self.stream else nullcontext():
            pixels, aspects = unpacked(self._to_device(fetched.packed), fetched.pixels.shape)
            copied = tuple(self._to_device(tensor) for tensor in extra)
            event = torch.cuda.Event() if self.stream else None  # type: ignore[no-untyped-call]
            if event:
                event.record(self.stream)
        return Prefetched(request, pixels, aspects, copied, event)

    def _to_device(self, tensor: Tensor) -> Tensor:
        pinned = tensor.pin_memory() if self.pinned and tensor.numel() and not tensor.is_pinned() else tensor
        return pinned.to(self.device, non_blocking=self.pinned)
