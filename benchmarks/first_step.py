"""How long does `tailcloud train --data FOLDER --time-budget 60s` take to its first training step?

    python benchmarks/first_step.py --device cuda
    python benchmarks/first_step.py --images 3000 --device cpu --out /tmp/first-step.json

Makes a folder of small grey PNGs with random textures, in 121 classes with a long tail, and runs the command on it
twice, each time as a new process; the second finds what the first has kept. Seconds count from the start of the
process. The first step starts when the first line of log.jsonl was written, less the seconds of its epoch.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from measurement import RESULTS, write_record
from PIL import Image

CLASSES, TAIL = 121, 20.0  # classes; images of a class fall by a factor e within so many classes
SIDES = 30, 120  # pixels
POLL = 0.02  # seconds
TURNS = "first", "again"
MARKS = {"headers_read": "timing a few steps", "recipe_chosen": "Chosen for "}  # by what the command prints


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=30_000)
    parser.add_argument("--budget", default="60s", help="of the command")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for the command")
    parser.add_argument("--out", type=Path, help="the JSON file [default: benchmarks/results/first-step-DEVICE.json]")
    return parser.parse_args(words)


def draw_folder(folder: Path, images: int) -> None:
    """Textures: random blocks of a few pixels, another size of block for each class."""
    random = np.random.default_rng(0)
    shares = np.exp(-np.arange(CLASSES) / TAIL)
    labels = np.sort(random.choice(CLASSES, images, p=shares / shares.sum()))
    for number, label in enumerate(labels.tolist()):
        place = folder / f"class{label:03d}"
        place.mkdir(parents=True, exist_ok=True)
        height, width = random.integers(*SIDES, 2)
        block = 1 + label % 8
        coarse = random.integers(0, 256, (-(-height // block), -(-width // block)), dtype=np.uint8)
        texture = np.kron(coarse, np.ones((block, block), np.uint8))[:height, :width]
        Image.fromarray(texture).save(place / f"{number}.png")


def run_command(words: Sequence[str], run: Path, environment: dict[str, str]) -> dict[str, float | None]:
    """Seconds from the start of the command to each mark, to its first step and to its end."""
    started, marks = time.perf_counter(), dict[str, float | None](dict.fromkeys([*MARKS, "first_step"]))
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=environment
    )
    output = list[str]()

    def follow() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            output.append(line)
            for name, text in MARKS.items():
                if marks[name] is None and text in line:
                    marks[name] = time.perf_counter() - started

    reader = threading.Thread(target=follow)
    reader.start()
    while process.poll() is None:
        if marks["first_step"] is None and (lines := log_lines(run)):
            marks["first_step"] = time.perf_counter() - started - json.loads(lines[0])["seconds"]
        time.sleep(POLL)
    reader.join()
    if process.returncode:
        raise SystemExit("".join(output))
    return {**marks, "end": time.perf_counter() - started}


def log_lines(run: Path) -> list[str]:
    """The complete lines of the log; none while there is no log."""
    try:
        return (run / "log.jsonl").read_text().split("\n")[:-1]
    except FileNotFoundError:
        return []


def main(words: Sequence[str] | None = None) -> None:
    """Make the folder, run the command twice, and write the record."""
    asked = arguments(words)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw_folder(folder / "images", asked.images)
        environment = os.environ | {"TAILCLOUD_CACHE": str(folder / "cache"), "PYTHONUNBUFFERED": "1"}
        for turn in TURNS:
            run = folder / turn
            command = [sys.executable, "-m", "tailcloud", "train", "--data", str(folder / "images"), "--out", str(run)]
            command += ["--time-budget", asked.budget, "--device", asked.device]
            command += [word for setting in asked.set for word in ("--set", setting)]
            seconds = run_command(command, run, environment)
            recipe = json.loads((run / "result.json").read_text())["recipe"]
            chosen = {
                "backbone": recipe["model"]["backbone"],
                "size": recipe["data"]["size"],
                "method": recipe["method"],
            }
            rows.append({"turn": turn, "seconds": seconds, **chosen})
            print(turn, *(f"{mark} {value:.1f} s" for mark, value in seconds.items() if value is not None), sep="  ")
    record = {"images": asked.images, "classes": CLASSES, "budget": asked.budget, "cores": os.cpu_count(), "rows": rows}
    write_record(asked.out or RESULTS / f"first-step-{asked.device}.json", record, torch.device(asked.device))


if __name__ == "__main__":
    main()
