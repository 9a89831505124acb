"""How long does a list of ten million images take to open, and how much memory?

    python benchmarks/large_list.py                        about two minutes, and 0.7 GB in a temporary folder
    python benchmarks/large_list.py --images 100000 --write /tmp/record.json

Writes a list of paths and labels whose files are all there (a thousand pictures behind ten thousand links), and opens
it in a process of its own as training would, its images staying in their files: read, parted, fingerprinted, a
validation part held out, an epoch drawn by the class-balanced sampler. Seconds of one thread each, and after each the
most memory that the process ever had. All is written as JSON.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from class_scaling import counts_of
from measurement import RESULTS, write_record
from PIL import Image

from tailcloud.data import ReadOptions, hold_out, open_dataset
from tailcloud.sampling import make_sampler

IMAGES, CLASSES, FOLDER = 10_000_000, 8_142, 1_000  # classes as iNaturalist 2018 has them; pictures in a folder
SIDE = 32
CPU = torch.device("cpu")


def write_list(folder: Path, images: int) -> Path:
    """A list of so many images of long-tailed classes in random order, and its files."""
    pictures = folder / "pictures"
    pictures.mkdir()
    pixels = np.random.default_rng(0)
    for number in range(FOLDER):
        picture = Image.fromarray(pixels.integers(0, 256, (SIDE, SIDE, 3), np.uint8))
        picture.save(pictures / f"{number:032x}.jpg")
    labels = np.repeat(np.arange(CLASSES), counts_of(CLASSES, images))
    np.random.default_rng(1).shuffle(labels)
    with (folder / "list.txt").open("w") as file:
        for shard, start in enumerate(range(0, images, FOLDER)):
            (folder / f"shard_{shard:05d}").symlink_to(pictures)
            here = enumerate(labels[start : start + FOLDER].tolist())
            file.writelines(f"shard_{shard:05d}/{number:032x}.jpg {label}\n" for number, label in here)
    return folder / "list.txt"


def steps(file: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """What training does with a list before its first batch, one after the other."""
    held: dict[str, Any] = {}
    yield "opened", lambda: held.update(data=open_dataset(str(file), options=ReadOptions(loader="stream")))
    yield "fingerprint", lambda: held["data"].fingerprint
    yield "validation part held out", lambda: held.update(data=hold_out(held["data"], 0.1))
    labels = held["data"].train.labels
    yield "sampler made", lambda: held.update(sampler=make_sampler("cb", labels, CLASSES))
    yield "epoch drawn", lambda: held["sampler"].draw(np.random.default_rng(0))


def measure(file: Path) -> list[dict[str, Any]]:
    """Seconds and peak of each step, and before them of a process that has only imported everything."""
    found = [{"step": "imported", "seconds": 0.0, "wall": 0.0, "peak_bytes": peak()}]
    for name, work in steps(file):
        began, wall = time.process_time(), time.perf_counter()
        work()
        spent = {"seconds": time.process_time() - began, "wall": time.perf_counter() - wall}
        found.append({"step": name, **spent, "peak_bytes": peak()})
    return found


def peak() -> int:
    """The most memory that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_apart(file: Path) -> list[dict[str, Any]]:
    """The same in a process of its own, in which nothing else was ever in memory."""
    command = [sys.executable, __file__, "--open", str(file)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def show(found: list[dict[str, Any]], size: int) -> None:
    print(f"list of {size / 1e6:,.0f} MB")
    for row in found:
        print(f"{row['step']:<26} {row['seconds']:8.2f} s  {row['peak_bytes'] / 1e6:8,.0f} MB at most so far")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--write", type=Path, default=RESULTS / "long-list-cpu.json")
    parser.add_argument("--open", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.open:
        print(json.dumps(measure(options.open)))
        return
    with tempfile.TemporaryDirectory() as folder:
        file = write_list(Path(folder), options.images)
        size, found = file.stat().st_size, measure_apart(file)
    show(found, size)
    write_record(options.write, {"images": options.images, "classes": CLASSES, "list_bytes": size, "steps": found}, CPU)
    print(f"record: {options.write}")


if __name__ == "__main__":
    main()
