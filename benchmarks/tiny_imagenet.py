"""Larger images and backbones: cross-entropy, CE + mixup + cRT and GCL from scratch on a folder of images.

    python benchmarks/tiny_imagenet.py tiny-imagenet-lt --folder DIR --backbone resnet18 --epochs 200

The methods of a backbone train side by side in one command, all with the same settings for the first stage. Runs that
are in --out go on where they were broken off. What was measured is written to
benchmarks/results/larger-NAME-BACKBONE.json, which docs/results.md shows.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from measurement import RESULTS, write_record

from tailcloud.runs.result import Result, read_result
from tailcloud.training.devices import pick_device

METHODS = ("ce", "ce-mixup+crt", "gcl")


def settings(backbone: str, size: int, epochs: int) -> list[str]:
    """What all methods of a backbone share."""
    fields = {
        "data.size": size,
        "model.backbone": backbone,
        "augment.crop_padding": size // 8,
        "selection.split": 0.0,
        "selection.every": 5,
        "stage1.batch": 128,
        "stage1.epochs": epochs,
        "stage1.weight_decay": 5e-4,
    }
    return [word for field, value in fields.items() for word in ("--set", f"{field}={value}")]


def train(folder: Path, words: list[str], out: Path, device: str, seeds: int) -> tuple[list[str], float | None]:
    """One command for all methods, and its seconds; null if runs were interrupted."""
    recipes = [f"own/{method}" for method in METHODS]
    numbers = [word for seed in range(seeds) for word in ("--seed", str(seed))]
    command = ["train", *recipes, "--data", str(folder), *numbers, *words, "--device", device]
    resumed, started = ["--resume"] if out.exists() else [], time.perf_counter()
    subprocess.run([sys.executable, "-m", "tailcloud", *command, "--out", str(out), *resumed], check=True)
    return command, None if resumed else time.perf_counter() - started


def figures(result: Result) -> dict[str, Any]:
    """The short figures of a result."""
    content = result.content()
    kept = ("method", "top1", "top5", "many", "medium", "few", "ece", "model", "seconds", "protocol")
    of_stage = ("name", "epochs", "top1", "many", "medium", "few", "seconds", "executor")
    stages = [{key: getattr(stage, key) for key in of_stage} for stage in result.stages]
    return {**{key: content[key] for key in kept}, "stages": stages, "fingerprint": result.dataset.fingerprint}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--backbone", action="append", required=True)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="where the runs are kept [default: a temporary folder]")
    options = parser.parse_args()
    device: torch.device = pick_device(options.device)
    for backbone in options.backbone:
        with tempfile.TemporaryDirectory() as home:
            words, out = settings(backbone, options.size, options.epochs), (options.out or Path(home)) / backbone
            command, seconds = train(options.folder, words, out, device.type, options.seeds)
            results = [read_result(file) for file in sorted(out.rglob("result.json"))]
            runs, counts = [figures(result) for result in results], results[0].dataset.counts
        record = {
            "data": options.name,
            "backbone": backbone,
            "size": options.size,
            "epochs": options.epochs,
            "command": " ".join(command),
            "seconds": seconds,
            "counts": counts,
            "runs": runs,
        }
        write_record(RESULTS / f"larger-{options.name}-{backbone}.json", record, device)


if __name__ == "__main__":
    main()
