"""What is each optimisation of fine-tuning on a CPU worth? Each is taken away alone, then all of them.

    python benchmarks/finetune_cpu.py

A training step of EfficientNet-Lite0 on 64 random images of the size of photographs, with the augmentation that
``tailcloud train --data`` chooses, by wall clock and all cores. The ways are measured in turn, several times, each time
in a new process, and the median counts: the machine's speed may change from minute to minute. From random weights,
which changes no time.
"""

import argparse
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from measurement import RESULTS, write_record
from torch import Tensor

import tailcloud.cli  # noqa: F401 (how threads wait, in processes that are started later)
from tailcloud.auto_recipe.pretrained_draft import COLOR_JITTER, CROP_AREA, FINE_TUNING, FINE_TUNING_BATCH, last_layers
from tailcloud.data import Dataset, Split
from tailcloud.data.augment import image_ops
from tailcloud.freed_memory import freed_memory_kept
from tailcloud.recipe import load_recipe
from tailcloud.runs.observer import SilentObserver
from tailcloud.training.devices import cores
from tailcloud.training.loop import prepare_stage
from tailcloud.training.session import Session
from tailcloud.training.stages.start import start_stage

BACKBONE, CLASSES, STEPS = "efficientnet_lite0", 17, 5
ROWS = {"everything, 128 pixels": ("all", 128)} | {
    f"the last three layers, {side} pixels": ("last", side) for side in (192, 224)
}


def all_images(images: Tensor, operations: Tensor, strengths: Tensor, *, fill: float = 0.0) -> Tensor:
    """Every operation on every image, as a GPU does it."""
    chosen = image_ops.Chosen(operations, strengths)
    return image_ops.mapped(image_ops.enhanced(image_ops.warped(images, chosen, fill), chosen), chosen)


def nothing_folded() -> AbstractContextManager[Any]:
    return patch.object(Session, "freeze_layers", lambda *_: None)


WAYS: dict[str, tuple[bool, bool, bool]] = {  # memory is kept, operations see their own images, layers are folded
    "now": (True, True, True),
    "freed memory goes back to the system": (False, True, True),
    "every operation on all images": (True, False, True),
    "frozen layers as they are trained": (True, True, False),
    "none of the three": (False, False, False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", type=Path, default=RESULTS / "finetune-cpu.json")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, (part, side) in ROWS.items():
        times: dict[str, list[float]] = {way: [] for way in WAYS if part == "last" or "layers" not in way}
        for _ in range(options.repeats):
            for way, each in times.items():
                with get_context("spawn").Pool(1) as process:
                    each.append(process.apply(step_seconds, (part, side, *WAYS[way])))
        rows.append({"row": name, "seconds": {way: median(each) for way, each in times.items()}})
        print(name, {way: f"{1000 * each:.0f} ms" for way, each in rows[-1]["seconds"].items()}, flush=True)
    about = {"format": 1, "batch": FINE_TUNING_BATCH, "repeats": options.repeats, "cores": cores(), "rows": rows}
    write_record(options.write, about, torch.device("cpu"))


def step_seconds(part: str, side: int, kept: bool, own: bool, fold: bool) -> float:
    """Seconds of a step with its batch, after one that does not count."""
    torch.set_num_threads(cores())
    with ExitStack() as ways:
        ways.enter_context(freed_memory_kept(on_cpu=kept))
        ways.enter_context(nullcontext() if fold else nothing_folded())
        session = Session(recipe(part), noise(side), torch.device("cpu"))
        start_stage(session, "stage1")
        executor: Any = prepare_stage(session, "stage1", SilentObserver()).executor
        loader, plan = executor.loader, executor.loader.plan(0)
        if not own:
            loader.pipeline = replace(loader.pipeline, operations=all_images)
        for step in range(STEPS + 1):
            if step == 1:
                started = time.perf_counter()
            executor.step(loader.at(plan, step), executor.generator)
        return (time.perf_counter() - started) / STEPS


def recipe(part: str) -> Any:
    train = "all" if part == "all" else "+".join([*last_layers(BACKBONE), "head"])
    augment = {"crop_padding": 0, "crop_area": CROP_AREA, "color_jitter": COLOR_JITTER, "trivial_augment": True}
    settings = {
        "data": "./noise",
        "method": "logit-adjust",
        "model": {"backbone": BACKBONE},
        "augment": augment,
        "stage1": {**FINE_TUNING, "epochs": 2, "train": train},
        "engine": {"executor": "eager"},
    }
    return load_recipe(None, [settings])


def noise(side: int) -> Dataset:
    random, images = np.random.RandomState(0), (STEPS + 1) * FINE_TUNING_BATCH

    def split(count: int) -> Split:
        labels = np.arange(count, dtype=np.int64) % CLASSES
        return Split(random.randint(0, 256, (count, side, side, 3), np.uint8), labels)

    return Dataset(
        "./noise", split(images), split(CLASSES), [f"class{n}" for n in range(CLASSES)], [0.5] * 3, [0.5] * 3
    )


if __name__ == "__main__":
    main()
