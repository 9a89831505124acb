"""How many images a second train a model whose data are decoded as they are shown, cached, or on the device?

    python benchmarks/streaming.py photos --device cuda --backbone resnet50 --size 224 --batch 256
    python benchmarks/streaming.py --device cuda
    python benchmarks/streaming.py /tmp/tiny/tiny-imagenet-lt --backbone resnet32 --size 64 --batch 64 --seconds 20

Without images, random ones are written as JPEG files. Every row trains the same model with the same batches (random
resized crops and mirroring on the device), precision and eager executor; only where the pixels come from differs. Rates
are of whole training steps, after a warm-up, over as many epochs as fit into --seconds. The rows take turns, --rounds
times, since a machine is not as fast at one moment as at another; a row is the median of its turns. Filling a cache is
timed apart. Rows that cannot be measured say why.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from epoch_speed_table import aligned
from measurement import RESULTS, synchronize, write_record
from noise_images import write_photographs

from tailcloud.data import Dataset, Split, open_dataset
from tailcloud.data.loaders.base import Loader
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.stream import StreamImages
from tailcloud.errors import TailcloudError, explained
from tailcloud.formatting import NOT_MEASURED
from tailcloud.recipe import Recipe, load_recipe
from tailcloud.training.devices import pick_device, set_deterministic
from tailcloud.training.session import Session
from tailcloud.training.stages.parts import make_parts
from tailcloud.training.stages.trainable import set_modes

ON_DEVICE = "on the device"
ROWS = {"decoding": "none", "cache in a folder": "folder", "cache in memory": "ram", ON_DEVICE: "none"}
RATE = 1e-3  # of learning; any will do
RANDOM = "random images"


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", help="a folder or list of images [default: random images]")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--backbone", default="resnet50")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--images", type=int, default=8192, help="the most training images that are used")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each turn, beside its warm-up")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each row")
    parser.add_argument("--warm-up", type=int, default=5, help="steps before them")
    parser.add_argument("--cache", type=Path, help="where the cache goes [default: a temporary folder]")
    parser.add_argument("--write", type=Path, help="[default: results/streaming-DEVICE-BACKBONE-SIZE.json]")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    options = arguments(words)
    try:
        with tempfile.TemporaryDirectory() as home:
            if options.data is None:
                options.data = str(Path(home) / RANDOM)
                write_photographs(Path(options.data), options.size, options.images)
            measure_all(options, options.cache or Path(home) / "cache")
    except TailcloudError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def measure_all(options: argparse.Namespace, cache: Path) -> None:
    """One table and one record, which is written after every round."""
    device, name = pick_device(options.device), f"streaming-{options.device}-{options.backbone}-{options.size}.json"
    target = options.write or RESULTS / name
    set_deterministic(device)
    recipe = recipe_of(options)
    dataset = open_dataset(options.data, options=recipe.data.read_options)
    rows = np.linspace(0, len(dataset.train) - 1, min(options.images, len(dataset.train))).astype(np.int64)
    dataset = replace(dataset, train=dataset.train.take(rows))
    ways = []
    for name, kind in ROWS.items():
        place = str(cache) if kind == "folder" else kind
        ways.append(Way(name, with_cache(recipe, place), dataset, device, cache))
    asked = ("backbone", "size", "batch", "seconds", "rounds", "warm_up")
    record: dict[str, Any] = {name: getattr(options, name) for name in asked}
    record |= {"data": Path(options.data).name, "images": len(rows)}
    record["workers"] = next((way.session.images.decoders.workers for way in ways if way.session), None)
    for number in range(options.rounds):
        for way in ways:
            way.turn(options.seconds, options.warm_up)
            print(f"{number + 1}/{options.rounds} {way.name}: {way.reason or round(way.rates[-1])}", flush=True)
        record["rows"] = [way.figures() for way in ways]
        write_record(target, record, device)
    print("\n" + "\n".join(aligned(list(table(record)))) + f"\nrecord: {target}")


def recipe_of(options: argparse.Namespace) -> Recipe:
    """Cross-entropy, as published for large images."""
    settings = {
        "data": {"spec": options.data, "loader": "stream", "size": options.size},
        "model": {"backbone": options.backbone},
        "augment": {"crop_padding": 0, "crop_area": [0.08, 1.0], "flip": True},
        "stage1": {"batch": options.batch, "epochs": 1},
        "engine": {"executor": "eager", "kernels": "plain", "workers": options.workers},
    }
    return load_recipe("own/ce", [settings])


def with_cache(recipe: Recipe, cache: str) -> Recipe:
    """The same with images kept elsewhere."""
    return recipe.model_copy(update={"data": recipe.data.model_copy(update={"cache": cache})})


class Way:
    """A row: one way to load images. If it cannot be measured it says why, and the others continue."""

    def __init__(self, name: str, recipe: Recipe, dataset: Dataset, device: torch.device, cache: Path) -> None:
        self.name = name
        self.session: Session | None = None
        self.reason: str | None = None
        self.rates: list[float] = []
        started = time.perf_counter()
        with self.attempting():
            self.session = Session(recipe, resident(recipe, dataset, cache) if name == ON_DEVICE else dataset, device)
        self.ready = time.perf_counter() - started

    @contextmanager
    def attempting(self) -> Iterator[None]:
        """Whatever goes wrong is the reason why there is no number."""
        try:
            yield
        except Exception as error:
            self.reason = str(explained(error) or error).splitlines()[0]

    def turn(self, seconds: float, warm_up: int) -> None:
        """Measure once more."""
        with self.attempting():
            if self.session and not self.reason:
                self.rates.append(rate(self.session, seconds, warm_up))

    def figures(self) -> dict[str, Any]:
        """What was measured, as the median over all turns."""
        found = {"name": self.name, "reason": self.reason, "ready_seconds": self.ready}
        return found if self.reason else found | {"images_per_second": median(self.rates), "turns": self.rates}


def resident(recipe: Recipe, dataset: Dataset, cache: Path) -> Dataset:
    """The same stored pixels in memory, out of the cache that another row has filled."""
    part = Session(with_cache(recipe, str(cache)), dataset, torch.device("cpu")).images.train
    assert isinstance(part, StreamImages)
    rows = np.arange(len(part.labels))
    fetched = part.reader.fetch(rows)
    part.reader.wait(fetched)
    return replace(dataset, train=Split(fetched.pixels.numpy(), dataset.train.labels))


def rate(session: Session, seconds: float, warm_up: int) -> float:
    """Training images a second."""
    stage = session.recipe.stage1
    parts = make_parts(session, "stage1")
    set_modes(session.model, stage)
    step, generator = parts.executor.step, torch.Generator(session.device)  # type: ignore[attr-defined]
    parts.optimizer.set_rate(RATE)
    images, started = 0, time.perf_counter()
    for number, batch in enumerate(endless(parts.loader)):
        step(batch, generator)
        images += len(batch.target)
        if number < warm_up:
            synchronize(session.device)
            images, started = 0, time.perf_counter()
        elif time.perf_counter() - started > seconds:
            break
    synchronize(session.device)
    return images / (time.perf_counter() - started)


def endless(loader: Loader) -> Iterator[Batch]:
    """Epoch after epoch; smaller batches at their ends are left out."""
    for number in count():
        yield from (batch for batch in loader.epoch(number) if len(batch.target) == loader.sizes[0])


def table(record: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "", "images a second", "of those on the device", "seconds to make ready"
    best = next((row.get("images_per_second") for row in record["rows"] if row["name"] == ON_DEVICE), None)
    for row in record["rows"]:
        if row["reason"]:
            yield row["name"], f"not measured: {row['reason']}", NOT_MEASURED
            continue
        share = f"{100 * row['images_per_second'] / best:.0f} %" if best else ""
        yield row["name"], f"{row['images_per_second']:,.0f}", share, f"{row['ready_seconds']:.1f}"


if __name__ == "__main__":
    sys.exit(main())
