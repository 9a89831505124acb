"""Copies of many tensors at once.

A transfer from a CUDA device costs about the same for one number and for a million, and waits for the device each time.
So tensors are packed into one tensor there, which needs one transfer.
"""

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from typing import Generic, TypeVar

import torch
from torch import Tensor

PINNED_BYTES = 64 * 2**20  # at most; larger copies come in parts

Key = TypeVar("Key", bound=Hashable)
Layouts = dict[Key, tuple[torch.dtype, torch.Size, tuple[int, ...]]]  # dtype, shape and strides


class Snapshot(Generic[Key]):
    """A copy of tensors as they are now: it does not change if they do.

    Tensors on a CUDA device are copied there, on the current stream and without waiting; others to the CPU. If the
    device lacks memory for that, all are copied to the CPU at once.
    """

    def __init__(self, tensors: Mapping[Key, Tensor]) -> None:
        on_gpu = {key: value for key, value in tensors.items() if value.is_cuda}
        self.layouts: Layouts[Key] = {}
        self.ready: torch.cuda.Event | None = None
        try:
            if on_gpu:
                self.packed, self.layouts = pack(on_gpu)
                self.ready = torch.cuda.current_stream(self.packed.device).record_event()
        except torch.OutOfMemoryError:
            on_gpu = {}
        self.others = {key: copied(value) for key, value in tensors.items() if key not in on_gpu}

    def on_cpu(self) -> dict[Key, Tensor]:
        """The copies on the CPU. From the device they come on a stream of their own, so any thread can fetch them."""
        if self.ready is None:
            return self.others
        return {**self.others, **unpack(fetch(self.packed, self.ready), self.layouts)}


def to_cpu(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors on the CPU. Waits for the device, once. Tensors that are there already are not copied."""
    if not all(tensor.is_cuda for tensor in tensors):
        return [tensor.cpu() for tensor in tensors]
    packed, layouts = pack(dict(enumerate(tensors)))
    on_cpu = unpack(packed.cpu(), layouts)
    return [on_cpu[number] for number in range(len(tensors))]


def pack(tensors: Mapping[Key, Tensor]) -> tuple[Tensor, Layouts[Key]]:
    """The bytes of all tensors in one, those with the largest elements first, so that all of them are aligned."""
    ordered = sorted(tensors.items(), key=lambda item: -item[1].element_size())
    dense = {key: in_one_piece(value.detach()) for key, value in ordered}
    layouts = {key: (value.dtype, value.shape, value.stride()) for key, value in dense.items()}
    return torch.cat([value.as_strided((value.numel(),), (1,)).view(torch.uint8) for value in dense.values()]), layouts


def unpack(packed: Tensor, layouts: Layouts[Key]) -> dict[Key, Tensor]:
    """The tensors that ``pack`` packed, as views of it."""
    tensors, start = dict[Key, Tensor](), 0
    for key, (dtype, shape, strides) in layouts.items():
        end = start + shape.numel() * dtype.itemsize
        tensors[key] = packed[start:end].view(dtype).as_strided(shape, strides)
        start = end
    return tensors


def in_one_piece(tensor: Tensor) -> Tensor:
    """The tensor, or a copy if its elements are not next to each other in memory."""
    if tensor.is_contiguous() or (tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last)):
        return tensor
    return tensor.contiguous()


def copied(tensor: Tensor) -> Tensor:
    """A copy on the CPU."""
    return tensor.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)


def fetch(packed: Tensor, ready: torch.cuda.Event) -> Tensor:
    """A tensor of bytes on the CPU, through pinned memory: other threads can use the device meanwhile."""
    result = torch.empty(len(packed), dtype=torch.uint8)
    pinned = torch.empty(min(len(packed), PINNED_BYTES), dtype=torch.uint8, pin_memory=True)
    stream = copy_stream(packed.device)
    stream.wait_event(ready)
    with torch.cuda.stream(stream):
        for part, target in zip(torch.split(packed, PINNED_BYTES), torch.split(result, PINNED_BYTES), strict=True):
            pinned[: len(part)].copy_(part, non_blocking=True)
            done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # its waiting thread sleeps
            done.record()
            done.synchronize()
            target.copy_(pinned[: len(part)])
    return result


@cache
def copy_stream(device: torch.device) -> torch.cuda.Stream:
    """The stream on which copies of this process leave a device."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
