"""A second stream of a captured step: for work that the step does not wait for until it needs it."""

from collections.abc import Callable
from typing import TypeVar

import torch

Result = TypeVar("Result")


class SideStream:
    """In a captured step, runs work on a second stream, which the first stream waits for at the end.

    Streams of high priority come from a small pool and belong to the capture that is running: a step that is launched
    from Python must not use one, since another run may be capturing it. There, work runs where it is.
    """

    def __init__(self, device: torch.device) -> None:
        captured = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        self.stream = torch.cuda.Stream(device, priority=-1) if captured else None  # type: ignore[no-untyped-call]

    def __enter__(self) -> "SideStream":
        return self

    def run(self, work: Callable[[], Result]) -> Result:
        """Run work after everything that was launched before."""
        if self.stream is None:
            return work()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            return work()

    def wait(self) -> None:
        """What the first stream is given from now on starts after all work of the second."""
        if self.stream is not None:
            torch.cuda.current_stream().wait_stream(self.stream)

    def __exit__(self, *_error: object) -> None:
        self.wait()
