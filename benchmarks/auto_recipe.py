"""The recipe that tailcloud chooses, against cross-entropy in the same time and against a recipe made by hand.

    python benchmarks/auto_recipe.py digits --seeds 3 --budget 30s
    python benchmarks/auto_recipe.py cifar10-lt --spec cifar10-lt:100 --root data --budget 60s --device cuda
    python benchmarks/auto_recipe.py tiny-imagenet-lt --folder DIR --classes 20 --budget 3m

Every run is a command of its own; its seconds are those of the whole command. The images of a SPEC are written as PNG
files before. A folder gives some of its classes, evenly from the largest to the smallest. What was measured is
written to benchmarks/results/choosing-NAME.json, which docs/results.md shows.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from measurement import RESULTS, write_record
from PIL import Image

from tailcloud.data import open_dataset
from tailcloud.runs.folder import RunFolder

FIGURES = ("many", "medium", "few", "ece")
SMALL = (
    *("own/gcl", "--set", "data.size=32", "--set", "model.backbone=resnet20", "--set", "stage1.epochs=40"),
    *("--set", "stage1.mixup=0.4", "--set", "stage2.epochs=6"),
)


def write_images(place: Path, spec: str, root: str) -> None:
    """The images of a data set as PNG files: place/train/03/17.png."""
    dataset = open_dataset(spec, root)
    for name, part in {"train": dataset.train, "test": dataset.test}.items():
        for number, (image, label) in enumerate(zip(part.pixels, part.labels, strict=True)):
            file = place / name / f"{label:02}" / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(file)


def write_slice(place: Path, folder: Path, classes: int) -> None:
    """Some classes of folder/train and folder/val, evenly from the largest to the smallest."""
    sizes = sorted(((len(list(one.iterdir())), one.name) for one in (folder / "train").iterdir()), reverse=True)
    picked = [sizes[round(k * (len(sizes) - 1) / (classes - 1))][1] for k in range(classes)]
    for name in picked:
        shutil.copytree(folder / "train" / name, place / "train" / name)
        shutil.copytree(folder / "val" / name, place / "test" / name)


def measure(place: Path, words: list[str], seed: int) -> dict[str, Any]:
    """Run one command; the figures of its run."""
    out = place.parent / f"run{time.time_ns()}"
    command = [sys.executable, "-m", "tailcloud", "train", *words, "--data", str(place), "--seed", str(seed)]
    started = time.perf_counter()
    subprocess.run([*command, "--out", str(out)], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    result = RunFolder(out).result()
    return {
        "seed": seed,
        "seconds": seconds,
        "top1": result.top1.last,
        **{key: getattr(result, key) for key in FIGURES},
        "method": result.method,
        "backbone": result.model.backbone,
        "size": result.dataset.shape[0],
        "epochs": [stage.epochs for stage in result.stages],
        "after": [stage.top1 for stage in result.stages],
        "images": result.dataset.images,
        "counts": result.dataset.counts,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--spec", default="digits-lt")
    parser.add_argument("--root", default="data")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--classes", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--budget", default="30s")
    parser.add_argument("--by-hand", help="a recipe and its settings; by default that of the data, or a small one")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    timed = ["--time-budget", options.budget]
    default = SMALL if options.folder else (f"{options.spec.partition(':')[0]}/gcl",)
    by_hand = shlex.split(options.by_hand) if options.by_hand else list(default)
    cases = {
        "chosen": timed,
        **{f"chosen, with {method.upper()}": [*timed, "--set", f"method={method}"] for method in ("gcl", "ce")},
        "made by hand": by_hand,
    }
    with tempfile.TemporaryDirectory() as home:
        place = Path(home) / options.name
        if options.folder:
            write_slice(place, options.folder, options.classes)
        else:
            write_images(place, options.spec, options.root)
        runs = {
            name: [measure(place, [*words, "--device", options.device], seed) for seed in range(options.seeds)]
            for name, words in cases.items()
        }
    about = {"data": options.name, "budget": options.budget, "busy": os.getloadavg()[1]}
    commands = {name: " ".join(words) for name, words in cases.items()}
    record = {**about, "commands": commands, "runs": runs}
    write_record(RESULTS / f"choosing-{options.name}.json", record, torch.device(options.device))


if __name__ == "__main__":
    main()
