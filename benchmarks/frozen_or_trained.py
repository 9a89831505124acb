"""A head on features of a frozen network against training the network, on few photographs: accuracy on test images.

    python benchmarks/frozen_or_trained.py clothing --images 150 --epochs 8 30 75
    python benchmarks/frozen_or_trained.py clothing --images 600 --epochs 8 17

The folder has the parts ``train`` and ``test``, each with a folder for each class. Some training images of its largest
classes are drawn, the rarest with an eighth of those of the most frequent; all test images of these classes are used.
``tailcloud train`` is told what to train, on images of 128 pixels and for how many epochs, so that nothing depends on
the speed of the machine, and chooses the rest; a head on features has the epochs that are chosen. What was measured is
written to benchmarks/results/frozen-or-trained/, a record for each command; those that are there are kept.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from measurement import RESULTS, write_record

from tailcloud.auto_recipe.candidates import PRETRAINED_BACKBONE
from tailcloud.auto_recipe.pretrained_draft import FINE_TUNING_BATCH, last_layers
from tailcloud.runs.folder import RunFolder

CLASSES, RATIO, SIDE = 8, 8.0, 128
PARTS = {"head": "head", "last": "+".join([*last_layers(PRETRAINED_BACKBONE), "head"]), "all": "all"}


def class_sizes(images: int) -> list[int]:
    """About so many images in all, falling from class to class by the same factor."""
    shares = [RATIO ** (-each / (CLASSES - 1)) for each in range(CLASSES)]
    return [round(images * share / sum(shares)) for share in shares]


def draw(folder: Path, images: int, seed: int, out: Path) -> int:
    """Copy some training images and all test images of the largest classes; how many images are trained on."""
    sizes = {each.name: len(list(each.iterdir())) for each in (folder / "train").iterdir()}
    names = sorted(sizes, key=lambda name: (-sizes[name], name))[:CLASSES]
    for name, count in zip(names, class_sizes(images), strict=True):
        files = sorted((folder / "train" / name).iterdir())
        (out / "train" / name).mkdir(parents=True)
        for file in random.Random(f"{seed} {name}").sample(files, count):
            shutil.copy(file, out / "train" / name)
        shutil.copytree(folder / "test" / name, out / "test" / name)
    return sum(class_sizes(images))


def measure(folder: Path, images: int, seed: int, part: str, epochs: int) -> dict[str, Any]:
    """Train once."""
    asked = {
        "data.fit": "crop",
        "data.size": SIDE,
        "model.backbone": PRETRAINED_BACKBONE,
        "selection.split": 0,
        "stage1.train": PARTS[part],
    }
    asked |= {"stage1.epochs": epochs} if epochs else {}
    words = ["--device", "cpu", *(word for key, value in asked.items() for word in ("--set", f"{key}={value}"))]
    with tempfile.TemporaryDirectory() as place:
        data, out = Path(place) / folder.name, Path(place) / "run"
        trained = draw(folder, images, seed, data)
        command = [sys.executable, "-m", "tailcloud", "train", "--data", str(data), *words, "--out", str(out)]
        environment = {**os.environ, "TAILCLOUD_CACHE": str(Path(place) / "cache")}
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        result = RunFolder(out).result()
    (stage,) = result.stages
    return {
        "data": folder.name,
        "draw": seed,
        "part": part,
        "images": trained,
        "test_images": result.dataset.images["test"],
        "size": SIDE,
        "epochs": stage.epochs,
        "steps": stage.epochs * -(-trained // FINE_TUNING_BATCH) if part != "head" else None,
        "method": result.method,
        "top1": result.top1.last,
        "balanced_accuracy": result.balanced_accuracy,
        "command": " ".join(["tailcloud train --data", folder.name, *words]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--images", type=int, default=150)
    parser.add_argument("--epochs", type=int, nargs="+", default=[8, 30])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "frozen-or-trained")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for seed in range(options.draws):
        for part in options.parts:
            for epochs in options.epochs if part != "head" else [0]:
                name = f"{options.folder.name}-{options.images}-{part}{epochs or ''}-draw{seed}"
                if not (file := options.out / f"{name}.json").exists():
                    record = measure(options.folder, options.images, seed, part, epochs)
                    write_record(file, record, torch.device("cpu"))
                    print(name, {key: record[key] for key in ("top1", "balanced_accuracy", "epochs")}, flush=True)


if __name__ == "__main__":
    main()
