"""How fast fine-tuning steps are on a GPU: captured as a CUDA graph, with own kernels, against eager; images resident.

    python benchmarks/finetune_speed.py --out benchmarks/results/finetune-speed.json

EfficientNet-Lite0 from its weights, bfloat16, AdamW, logit adjustment, crops, flips and colours: whole epochs of noise,
with the draws and batches of a real run.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tailcloud.data import Dataset, Split
from tailcloud.files import json_text
from tailcloud.recipe import load_recipe
from tailcloud.runs.observer import SilentObserver
from tailcloud.training.devices import commit, machine, set_deterministic
from tailcloud.training.loop import prepare_stage, train_epoch
from tailcloud.training.schedule import learning_rates
from tailcloud.training.session import Session
from tailcloud.training.stages.start import start_stage

CLASSES, IMAGES, EPOCHS = 121, 8192, 3


def noise(size: int) -> Dataset:
    random = np.random.RandomState(0)

    def split(count: int) -> Split:
        labels = np.arange(count, dtype=np.int64) % CLASSES
        return Split(random.randint(0, 256, (count, size, size, 3), np.uint8), labels)

    names = [f"class{number}" for number in range(CLASSES)]
    return Dataset("./noise", split(IMAGES), split(256), names, [0.5] * 3, [0.5] * 3)


def images_per_second(
    size: int, batch: int, executor: str, kernels: str, device: torch.device, *, trivial: bool
) -> float:
    stage = {"epochs": EPOCHS + 1, "batch": batch, "optimizer": "adamw", "lr": 1e-3, "lr_interval": "step", "warmup": 0}
    augment: dict[str, Any] = {"crop_padding": 0, "crop_area": [0.3, 1.0], "color_jitter": [0.3] * 3}
    settings = {
        "data": "./noise",
        "method": "logit-adjust",
        "model": {"backbone": "efficientnet_lite0", "weights": "pretrained"},
        "augment": {**augment, "trivial_augment": trivial},
        "stage1": {**stage, "decay_norms": False, "lr_factors": {"backbone": 0.3}},
        "engine": {"executor": executor, "kernels": kernels},
    }
    recipe = load_recipe(None, [settings])
    session = Session(recipe, noise(size), device)
    start_stage(session, "stage1")
    parts = prepare_stage(session, "stage1", SilentObserver())
    for epoch in range(EPOCHS + 1):
        if epoch == 1:
            torch.cuda.synchronize()
            started = time.perf_counter()
        train_epoch(session, parts, epoch, learning_rates(recipe.stage1, epoch, parts.loader.steps))
    return EPOCHS * IMAGES / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    device = torch.device("cuda")
    set_deterministic(device)
    rows = []
    for size, batch, trivial in ((128, 128, False), (128, 128, True), (224, 64, True)):
        row: dict[str, Any] = {"size": size, "batch": batch, "trivial_augment": trivial}
        for executor, kernels in (("eager", "plain"), ("graphed", "plain"), ("graphed", "fused")):
            name = f"{executor}, {kernels} kernels"
            row[name] = images_per_second(size, batch, executor, kernels, device, trivial=trivial)
        row["ratio"] = row["graphed, fused kernels"] / row["eager, plain kernels"]
        print(row, flush=True)
        rows.append(row)
    about = {"machine": machine(device), "commit": commit(), "epochs": EPOCHS, "images": IMAGES}
    options.out.write_text(json_text({"images_per_second": rows, **about}) + "\n")


if __name__ == "__main__":
    main()
