"""What the parts of the fused kernels are worth: forward and backward of ResNet-32, with and without them.

    python benchmarks/kernel_passes.py --write benchmarks/results/kernel-passes.json

64 images of 32 pixels, bfloat16, captured as graphs as in training: one run alone, and 8 and 16 runs at the same time,
each on a stream of its own; and an evaluation of 2,048 images. Rows are measured in turns, so that a clock that changes
changes all of them; the record has the median of the turns in microseconds per run.
"""

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from measurement import RESULTS, write_record

from tailcloud.backbones import CifarResNet, create_backbone
from tailcloud.kernels import residual
from tailcloud.kernels.residual import FusedResNet

NETWORK, SIDE, BATCH, EVALUATED = "resnet32", 32, 64, 2048
RUNS = {"alone": (1, 60), "of 8": (8, 30), "of 16": (16, 20)}  # runs at the same time, and replays of each
EVALUATIONS, TURNS = 10, 9
ONE_PIXEL, NEVER = {16: 1, 32: 1, 64: 1}, (99, 0)
ROWS: dict[str, dict[str, Any]] = {
    "all": {},
    "operands through shared memory": {"REGISTERS": {}},
    "one pixel in a row for weight gradients": {"PIXELS": ONE_PIXEL},
    "kernels start when the one before has ended": {"EARLY_FROM": NEVER},
    "as many registers as the compiler likes": {"FOUR_FIT": None, "THREE_FIT": None},
    "none of the four": {
        "REGISTERS": {},
        "PIXELS": ONE_PIXEL,
        "EARLY_FROM": NEVER,
        "FOUR_FIT": None,
        "THREE_FIT": None,
    },
}


@dataclass(frozen=True)
class Captured:
    """Passes of a network as a graph, on a stream of its own, and what the graph needs."""

    graph: torch.cuda.CUDAGraph
    stream: torch.cuda.Stream
    needed: tuple[Any, ...]

    def replay(self) -> None:
        """Launch it."""
        with torch.cuda.stream(self.stream):
            self.graph.replay()


def network(device: torch.device, seed: int) -> FusedResNet:
    """A network with random weights."""
    torch.manual_seed(seed)
    backbone = create_backbone(NETWORK)
    assert isinstance(backbone, CifarResNet)
    backbone.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    fused = FusedResNet(backbone, SIDE, SIDE)
    fused.compile()
    return fused


def captured(device: torch.device, images: int, seed: int, *, training: bool) -> Captured:
    """Both passes, or the forward pass of an evaluation."""
    fused = network(device, seed)
    fused.backbone.train(training)
    pixels = torch.randn(images, SIDE, SIDE, 3, device=device).to(torch.bfloat16)
    slope = torch.randn(images, fused.layers[-1].conv.out_channels, device=device) / images

    def work() -> tuple[Any, ...]:
        features = fused.forward(pixels, training=training)
        return features, fused.backward(pixels, slope) if training else None

    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = work()
    return Captured(graph, torch.cuda.Stream(device), (fused, pixels, slope, kept))  # type: ignore[no-untyped-call]


def microseconds(graphs: Sequence[Captured], replays: int) -> float:
    """Per graph and replay, by the clock on the wall."""
    torch.cuda.synchronize()
    started = time.perf_counter()
    for _ in range(replays):
        for one in graphs:
            one.replay()
    torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - started) / replays / len(graphs)


def prepared(settings: Mapping[str, Any], device: torch.device) -> tuple[list[Captured], Captured]:
    """The graphs of a row."""
    with patch.multiple(residual, _compiling={}, **settings), torch.no_grad():
        most = max(runs for runs, _ in RUNS.values())
        steps = [captured(device, BATCH, seed, training=True) for seed in range(most)]
        return steps, captured(device, EVALUATED, 0, training=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, default=RESULTS / "kernel-passes.json")
    options, device = parser.parse_args(), torch.device("cuda")
    graphs = {name: prepared(settings, device) for name, settings in ROWS.items()}
    found: dict[str, dict[str, list[float]]] = {name: {key: [] for key in (*RUNS, "evaluation")} for name in ROWS}
    for _ in range(TURNS):
        for name, (steps, evaluation) in graphs.items():
            for key, (runs, replays) in RUNS.items():
                found[name][key].append(microseconds(steps[:runs], replays))
            found[name]["evaluation"].append(microseconds([evaluation], EVALUATIONS))
    rows = [
        {"kernels": name, **{key: round(statistics.median(times), 1) for key, times in columns.items()}}
        for name, columns in found.items()
    ]
    for row in rows:
        print(row)
    write_record(options.write, {"network": NETWORK, "images": BATCH, "evaluated": EVALUATED, "rows": rows}, device)


if __name__ == "__main__":
    main()
