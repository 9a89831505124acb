"""Does the memory of a process grow over many short epochs? Its resident memory, in one process or under torchrun.

torchrun --nproc-per-node 2 benchmarks/rank_memory.py --out benchmarks/results/rank-memory.json
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from tailcloud.data import open_dataset
from tailcloud.files import write_json
from tailcloud.launch.torchrun import Silent
from tailcloud.recipe import load_recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.training.devices import commit, machine
from tailcloud.training.distributed.world import joined, world_of
from tailcloud.training.loop import train

CPU = torch.device("cpu")


def resident() -> float:
    """This process's resident memory, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


class Measuring(Silent):
    """Measures after some of the epochs."""

    def __init__(self, every: int) -> None:
        self.every, self.seen = every, dict[int, float]()

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is over."""
        if line["epoch"] == 10 or line["epoch"] % self.every == 0:
            self.seen[line["epoch"]] = round(resident(), 1)


def main() -> None:
    """Train many tiny epochs; rank 0 writes what every process measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--out", type=Path, required=True)
    words = parser.parse_args()
    table = {
        "model": {"width": 0.25},
        "stage1": {"epochs": words.epochs, "batch": 64},
        "stage2": {"epochs": 0},
        "engine": {"checkpoint_seconds": 0.05},
        "selection": {"every": 10},
    }
    recipe, world, measuring = load_recipe("digits-lt/gcl", [table]), world_of(), Measuring(words.epochs // 10)
    with TemporaryDirectory() as folder, joined(world, CPU):
        place = RunFolder(Path(folder) / "run")
        if world.chief:
            place.create(recipe, "benchmarks/rank_memory.py")
        train(recipe, open_dataset("digits-lt", "data"), place, CPU, measuring, world)
        ranks = world.gather(measuring.seen)
    if world.chief:
        record = {"what": "resident MB of each rank after so many epochs", "steps_per_epoch": 6, "ranks": ranks}
        write_json(words.out, {**record, "machine": machine(CPU), "commit": commit()})
        print(ranks)


if __name__ == "__main__":
    main()
