"""How fast fine-tuning is on a GPU: steps as a CUDA graph, with own kernels, against eager ones; and whole commands.

    python benchmarks/finetune_speed.py                      both, about three minutes
    python benchmarks/finetune_speed.py --only steps         of every size, or with --sizes 128 of one
    python benchmarks/finetune_speed.py --only commands

EfficientNet-Lite0, bfloat16, AdamW, logit adjustment, crops, flips and colours, on random images. Steps: whole epochs
with the draws and batches of a real run, images on the device, from random weights, which changes no time. Commands:
``tailcloud train`` against plain_finetune.py, eager and with its images on the device too, by wall clock from start to
exit. Each part is merged into the record, with its own machine and commit.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import noise_images
import numpy as np
import torch
import whole_command
from measurement import RESULTS

from tailcloud.data import Dataset, Split
from tailcloud.errors import TailcloudError
from tailcloud.files import read_json, write_json
from tailcloud.recipe import load_recipe
from tailcloud.runs.observer import SilentObserver
from tailcloud.training import engine as run_engine
from tailcloud.training.devices import commit, machine, set_deterministic
from tailcloud.training.loop import prepare_stage, train_epoch
from tailcloud.training.schedule import learning_rates
from tailcloud.training.session import Session
from tailcloud.training.stages.start import start_stage

CLASSES, IMAGES, EPOCHS = 121, 8192, 3
ROWS = ((128, 128, False), (128, 128, True), (224, 64, True))  # pixels, batch, whether with TrivialAugment
STEP = ("size", "batch", "trivial_augment")  # what a row is about
WAYS = {  # executor and kernels
    "eager, plain kernels": ("eager", "plain"),
    "graphed, plain kernels": ("graphed", "plain"),
    "graphed, fused kernels": ("graphed", "fused"),
    "graphed, fused norms": ("graphed", "auto"),  # what a long run takes: convolutions are cuDNN's
}
COMMAND = {"size": 128, "batch": 128, "epochs": 12, "images": 24_265, "test_images": 1_000}


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["steps", "commands"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 224], help="pixels of the steps")
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"], help="of tailcloud train")
    parser.add_argument("--images", type=int, default=COMMAND["images"], help="training images of the commands")
    parser.add_argument("--out", type=Path, default=RESULTS / "finetune-speed.json")
    options = parser.parse_args(words)
    record: dict[str, Any] = read_json(options.out) if options.out.exists() else {}
    try:
        if options.only != "commands":
            for row in measure_steps(options.sizes):
                record["images_per_second"] = merged(record.get("images_per_second", []), row)
                write_json(options.out, record)
        if options.only != "steps":
            with tempfile.TemporaryDirectory() as home:
                record["whole_commands"] = measure_commands(Path(home), options.device, options.images)
            write_json(options.out, record)
    except TailcloudError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def settings(data: str | dict[str, Any], batch: int, epochs: int, engine: dict[str, str]) -> dict[str, Any]:
    """Fine-tuning of the whole network, as ``tailcloud train`` chooses it for photographs, but from random weights."""
    stage = {"epochs": epochs, "batch": batch, "optimizer": "adamw", "lr": 1e-3, "lr_interval": "step", "warmup": 0}
    return {
        "data": data,
        "method": "logit-adjust",
        "model": {"backbone": "efficientnet_lite0"},
        "augment": {"crop_padding": 0, "crop_area": [0.3, 1.0], "color_jitter": [0.3] * 3},
        "stage1": {**stage, "decay_norms": False, "lr_factors": {"backbone": 0.3}},
        "engine": engine,
    }


def merged(rows: Sequence[dict[str, Any]], row: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a record with one more, which replaces that of the same steps."""
    others = [each for each in rows if any(each[key] != row[key] for key in STEP)]
    return sorted([*others, row], key=lambda each: [each[key] for key in STEP])


def measure_steps(sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Images a second, eager and captured, by each kind of kernels."""
    device = torch.device("cuda")
    set_deterministic(device)
    run_engine.START_SOONER_BELOW = 0  # these runs are short, and "auto" is to take what it takes for a long one
    for size, batch, trivial in (row for row in ROWS if row[0] in sizes):
        row: dict[str, Any] = {"size": size, "batch": batch, "trivial_augment": trivial}
        for way, (executor, kernels) in WAYS.items():
            engine = {"executor": executor, "kernels": kernels}
            row[way] = images_per_second(size, batch, engine, device, trivial=trivial)
            print(f"{size} pixels, batch {batch}, {way}: {row[way]:,.0f} images a second", flush=True)
        first, *_, last = WAYS
        row["ratio"] = row[last] / row[first]
        yield row | {"machine": machine(device), "commit": commit(), "epochs": EPOCHS, "images": IMAGES}


def images_per_second(size: int, batch: int, engine: dict[str, str], device: torch.device, *, trivial: bool) -> float:
    asked = settings("./noise", batch, EPOCHS + 1, engine)
    recipe = load_recipe(None, [asked, {"augment": {"trivial_augment": trivial}}])
    session = Session(recipe, noise(size), device)
    start_stage(session, "stage1")
    parts = prepare_stage(session, "stage1", SilentObserver())
    for epoch in range(EPOCHS + 1):
        if epoch == 1:
            torch.cuda.synchronize()
            started = time.perf_counter()
        train_epoch(session, parts, epoch, learning_rates(recipe.stage1, epoch, parts.loader.steps))
    return EPOCHS * IMAGES / (time.perf_counter() - started)


def noise(size: int) -> Dataset:
    random = np.random.RandomState(0)

    def split(count: int) -> Split:
        labels = np.arange(count, dtype=np.int64) % CLASSES
        return Split(random.randint(0, 256, (count, size, size, 3), np.uint8), labels)

    names = [f"class{number}" for number in range(CLASSES)]
    return Dataset("./noise", split(IMAGES), split(256), names, [0.5] * 3, [0.5] * 3)


def measure_commands(home: Path, device: str, images: int) -> dict[str, Any]:
    """The same images, network and epochs by a plain script and by ``tailcloud train``."""
    asked = {**COMMAND, "images": images}
    file, recipe = home / "noise.npz", home / "recipe.toml"
    noise_images.write_arrays(file, asked["size"], {"train": images, "test": asked["test_images"]}, CLASSES)
    data = {"spec": str(file), "size": asked["size"]}
    pretrained = {"model": {"weights": "pretrained"}}
    recipe.write_text(load_recipe(None, [settings(data, asked["batch"], asked["epochs"], {}), pretrained]).to_toml())
    script = str(Path(__file__).with_name("plain_finetune.py"))
    numbers = [word for name in ("size", "batch", "epochs") for word in (f"--{name}", str(asked[name]))]
    plain = whole_command.python(script, str(file), *numbers, "--out", "plain.json")
    ours = whole_command.python("-m", "tailcloud", "train", str(recipe), "--device", device, "--out", "runs")
    found: dict[str, Any] = asked
    for name, words in {"plain": plain, "tailcloud": ours}.items():
        found[name] = asdict(whole_command.measure(words, home / name, device))
        print(name, found[name], flush=True)
    return {**found, **whole_command.origin(home / "tailcloud")}


if __name__ == "__main__":
    sys.exit(main())
