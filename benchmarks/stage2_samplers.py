"""After a short first stage, which sampler should GCL's second stage have?

    python benchmarks/stage2_samplers.py tiny-imagenet-lt --folder DIR --classes 30 --epochs 20 --seeds 1

Some classes of a folder, evenly from the largest to the smallest. One first stage for each seed, from which every
second stage starts. Nothing is chosen by this: it explains what docs/results.md shows, beside which it stands. What was
measured is written to benchmarks/results/samplers-NAME.json.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch
from measurement import RESULTS, write_record

from auto_recipe import write_slice
from tailcloud.data import open_dataset
from tailcloud.recipe import Recipe, load_recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.fork import fork_run
from tailcloud.runs.observer import SilentObserver
from tailcloud.training.devices import pick_device
from tailcloud.training.loop import train

SAMPLERS = ("cb", "cben", "sqrt", "ib")
FIGURES = ("top1", "many", "medium", "few")


def recipe_for(place: Path, sampler: str, seed: int, epochs: int) -> Recipe:
    """GCL on a folder, with one sampler in its second stage."""
    settings = {
        "seed": seed,
        "data": {"spec": str(place), "size": 32},
        "model": {"backbone": "resnet20"},
        "stage1": {"epochs": epochs},
        "stage2": {"sampler": sampler},
        "selection": {"split": 0.0, "every": 10},
        "logging": {"examples": False},
    }
    return load_recipe("own/gcl", [settings])


def measure(place: Path, seed: int, epochs: int, device: torch.device) -> dict[str, Any]:
    """The first stage of a seed, and every second stage after it."""
    found: dict[str, Any] = {"seed": seed}
    home, parent = place.parent, RunFolder(place.parent / f"{seed}-{SAMPLERS[0]}")
    for sampler in SAMPLERS:
        recipe, folder = recipe_for(place, sampler, seed, epochs), RunFolder(home / f"{seed}-{sampler}")
        if sampler == SAMPLERS[0]:
            folder.create(recipe)
        else:
            fork_run(parent, folder, recipe, "")
        with folder.locked():
            dataset = open_dataset(recipe.data.spec, options=recipe.data.read_options)
            train(recipe, dataset, folder, device, SilentObserver())
        first, last = folder.result().stages
        found |= {"stage1": {key: getattr(first, key) for key in FIGURES}}
        found |= {sampler: {key: getattr(last, key) for key in FIGURES}}
        print(seed, sampler, found[sampler], flush=True)
    return found | {"counts": dataset.profile.counts.tolist()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--classes", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    device = pick_device(options.device)
    with tempfile.TemporaryDirectory() as home:
        place = Path(home) / options.name
        write_slice(place, options.folder, options.classes)
        runs = [measure(place, seed, options.epochs, device) for seed in range(options.seeds)]
    about = {"data": options.name, "epochs": options.epochs, "samplers": SAMPLERS}
    write_record(RESULTS / f"samplers-{options.name}.json", {**about, "runs": runs}, device)


if __name__ == "__main__":
    main()
