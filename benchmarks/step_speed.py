"""What do augmentations, SAM, an average of weights and contrasts cost? Epochs of the ladder, alone and together.

    python benchmarks/step_speed.py
    python benchmarks/step_speed.py --rows gcl gcl-augmented --together 16
    python benchmarks/step_speed.py --rows bcl --profile        prints the kernels of a step

An epoch has its draws and all of its steps, without evaluation and checkpoints, on random images of the shape of
CIFAR-100-LT. "together" is so many runs at the same time, each on a stream of its own: wall clock divided by runs.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import noise_images
import torch
from measurement import RESULTS, synchronize, write_record
from torch.profiler import ProfilerActivity, profile

from tailcloud.bench import BenchProtocol, read_table
from tailcloud.bench.plan import cell_runs
from tailcloud.data import Dataset
from tailcloud.launch.run_data import open_data
from tailcloud.recipe import Recipe
from tailcloud.runs.observer import SilentObserver
from tailcloud.training.devices import pick_device, set_deterministic
from tailcloud.training.loop import prepare_stage, train_epoch
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import StageParts
from tailcloud.training.stages.start import start_stage

SPEC, STAGE, EPOCHS = "cifar100-lt:100", "stage1", 3
ROWS = ("gcl", "gcl-augmented", "logit-adjust-augmented", "bcl")
KERNELS = 25  # that --profile prints


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", default=ROWS, metavar="KEY", help="of the ladder")
    parser.add_argument("--together", type=int, default=6, help="runs at the same time")
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--profile", action="store_true", help="print the kernels of an epoch; nothing is recorded")
    parser.add_argument("--write", type=Path, default=RESULTS / "step-speed.json")
    options = parser.parse_args(words)
    device = pick_device(options.device)
    set_deterministic(device)
    with tempfile.TemporaryDirectory() as home:
        noise_images.write_cifar("cifar100", Path(home))
        recipes = {key: recipe_of(key, home) for key in options.rows}
        dataset = open_data(next(iter(recipes.values())))
    rows = []
    for key, recipe in recipes.items():
        trained = [Trained(recipe, dataset, device) for _ in range(1 if options.profile else options.together)]
        if options.profile:
            print_kernels(key, trained[0])
            continue
        alone, together = seconds(trained[:1], device), seconds(trained, device)
        rows.append({"row": key, "steps": trained[0].parts.loader.steps, "alone": alone, "together": together})
        print(f"{key:24s} {alone:.3f} s an epoch alone, {together:.3f} s each of {len(trained)}", flush=True)
        del trained
    if rows:
        content = {"data": SPEC, "images": len(dataset.train), "runs": options.together, "rows": rows}
        write_record(options.write, content, device)


def recipe_of(key: str, root: str) -> Recipe:
    """The recipe of a row."""
    (row,) = [row for row in read_table("ladder").rows if row.key == key]
    return cell_runs(row, SPEC, BenchProtocol(seeds=(0,), root=root), Path())[0].recipe


class Trained:
    """A first stage that can be trained epoch by epoch."""

    def __init__(self, recipe: Recipe, dataset: Dataset, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        with torch.cuda.stream(self.stream):
            self.session = Session(recipe, dataset, device)
            start_stage(self.session, STAGE)
            self.parts: StageParts = prepare_stage(self.session, STAGE, SilentObserver())
        self.epochs(1)

    def epochs(self, number: int) -> None:
        """Train so many epochs."""
        rates = [1e-3] * self.parts.loader.steps
        with torch.cuda.stream(self.stream):
            for epoch in range(number):
                train_epoch(self.session, self.parts, epoch, rates)


def seconds(trained: Sequence[Trained], device: torch.device) -> float:
    """Of an epoch, by wall clock, divided by the runs."""
    with ThreadPoolExecutor(len(trained)) as pool:
        synchronize(device)
        started = time.perf_counter()
        list(pool.map(lambda each: each.epochs(EPOCHS), trained))
        return (time.perf_counter() - started) / EPOCHS / len(trained)


def print_kernels(key: str, trained: Trained) -> None:
    """Where the time of an epoch goes."""
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as watched:
        trained.epochs(1)
        torch.cuda.synchronize()
    found: list[Any] = [event for event in watched.key_averages() if event.self_device_time_total]
    total = sum(event.self_device_time_total for event in found)
    print(f"{key}: {total / 1e3:.1f} ms of kernels, {trained.parts.loader.steps} steps")
    for event in sorted(found, key=lambda event: -event.self_device_time_total)[:KERNELS]:
        print(f"  {event.self_device_time_total / 1e3:8.2f} ms {event.count:6d} × {event.key[:110]}")


if __name__ == "__main__":
    main()
