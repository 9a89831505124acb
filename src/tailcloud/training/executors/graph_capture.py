"""CUDA graphs: work that is captured once and replayed.

A graph reads and writes its tensors where they lie: all of them must live on as long as the graph.
"""

from collections.abc import Callable
from threading import Lock

import torch

from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.resident import ResidentImages
from tailcloud.evaluation import DevicePredictions, predict_on_device

WARM_UP = 3  # rehearsals before a capture, so that libraries have chosen their algorithms

_capturing = Lock()  # one capture at a time, whatever other runs do meanwhile


def captured(
    work: Callable[[], None], rehearsal: Callable[[], None], generator: torch.Generator | None = None
) -> torch.cuda.CUDAGraph:
    """A graph of some work, after a few rehearsals of it; ``generator`` is what the work draws from."""
    graph = torch.cuda.CUDAGraph()
    with _capturing:
        # Streams come from a small pool; those of high priority are nobody else's here.
        stream = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                for _ in range(WARM_UP):
                    rehearsal()
        finally:  # whoever puts things back after a rehearsal that failed must come after it
            torch.cuda.current_stream().wait_stream(stream)
        if generator is not None:
            graph.register_generator_state(generator)
        torch._C._cuda_clearCublasWorkspaces()  # graphs that run at the same time must not share one
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            work()
        torch._C._cuda_clearCublasWorkspaces()
    return graph


class GraphedJudge:
    """Judges a part of the data as ``predict_on_device`` does, by a graph."""

    def __init__(
        self,
        network: Callable[[torch.Tensor], torch.Tensor],
        images: ResidentImages,
        transform: Normalise,
        scale: float,
    ) -> None:
        self.network, self.images, self.transform, self.scale = network, images, transform, scale
        self.judged: DevicePredictions | None = None
        self.graph = captured(self.work, self.work)

    def work(self) -> None:
        """What is captured."""
        self.judged = predict_on_device(self.network, self.images.in_order(self.transform), self.scale)

    def __call__(self) -> DevicePredictions:
        """What the network says now."""
        assert self.judged is not None
        self.graph.replay()
        return self.judged
