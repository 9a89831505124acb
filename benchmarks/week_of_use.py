"""Does anything grow in a week of use? Memory, file handles, threads, processes and disk, sampled over time.

    python benchmarks/week_of_use.py                                    the record under benchmarks/results
    python benchmarks/week_of_use.py --share 0.02 --write week.json     a fiftieth of it

Each part has a process of its own:

    epochs          1,000 epochs of one run on digits
    streamed        1,000 epochs of one run from files, read by a decoder process
    predictions     10,000 calls of LongTailClassifier.predict, of an array or of a file in turn
    loaded          10,000 calls of the model that tailcloud.load gives
    runs            200 runs by tailcloud.train, one after the other
    fleet           200 runs of one command, side by side

A sample counts this process and its children. Disk is everything that a part has written, temporary files and caches
included, but not the folders of finished runs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measurement import RESULTS, write_record
from PIL import Image

import tailcloud
from tailcloud.errors import TailcloudError
from tailcloud.launch.execute import execute, run_jobs
from tailcloud.launch.run_plan import TrainRequest, plan_runs
from tailcloud.runs.observer import SilentObserver
from tailcloud.training.devices import pick_device

CPU = torch.device("cpu")
SAMPLES = 40
FIGURES = ("resident_mb", "handles", "threads", "processes", "disk_mb")
SHORT = ("model.width=0.25", "engine.threads=1", "logging.examples=false")
SHORT_RUN = (*SHORT, "stage1.epochs=1", "stage1.batch=128")
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Sample:
    """What a part uses after so many units of its work; MB are 10⁶ bytes."""

    done: int
    resident_mb: float
    handles: int
    threads: int
    processes: int
    disk_mb: float


def processes_of(parent: int) -> Iterator[int]:
    """A process and everything that it has started."""
    yield parent
    with suppress(OSError):
        for task in Path(f"/proc/{parent}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from processes_of(int(child))


def usage(done: int, home: Path) -> Sample:
    """A sample of this process, its children and the files below ``home``."""
    resident = handles = threads = processes = 0
    for process in processes_of(os.getpid()):
        place = Path(f"/proc/{process}")
        with suppress(OSError):  # it has just ended
            resident += int((place / "statm").read_text().split()[1]) * PAGE
            handles += len(os.listdir(place / "fd"))  # noqa: PTH208
            threads += len(os.listdir(place / "task"))  # noqa: PTH208
            processes += 1
    return Sample(done, resident / 1e6, handles, threads, processes, disk(home) / 1e6)


def disk(home: Path) -> int:
    """Bytes of all files below ``home``, without those of finished runs."""
    size = 0
    for folder, names, files in os.walk(home):
        if "result.json" in files:
            names.clear()
            continue
        for file in files:
            with suppress(OSError):
                size += os.lstat(Path(folder) / file).st_size
    return size


class Meter(SilentObserver):
    """Samples after every so many units of work; as an observer of runs, a unit is an epoch."""

    def __init__(self, home: Path, units: int) -> None:
        self.home, self.every, self.done = home, max(1, units // SAMPLES), 0
        self.samples: list[Sample] = []

    def count(self) -> None:
        """A unit is done."""
        self.done += 1
        if self.done % self.every == 0:
            self.samples.append(usage(self.done, self.home))

    def epoch_done(self, line: dict[str, Any]) -> None:  # noqa: ARG002
        """An epoch is over."""
        self.count()


def epochs(meter: Meter, units: int) -> None:
    """One long run on digits."""
    settings = [*SHORT, f"stage1.epochs={units}", "engine.checkpoint_seconds=0.05"]
    tailcloud.train("digits-lt/ce", settings=settings, out=meter.home / "run", device="cpu", observer=meter)


def streamed(meter: Meter, units: int) -> None:
    """One long run from files."""
    photos = draw_photos(meter.home / "photos")
    settings = [*SHORT, f"stage1.epochs={units}", "data.loader=stream", "engine.workers=1", "data.size=16"]
    settings += ["engine.checkpoint_seconds=0.05", "stage1.batch=16"]
    tailcloud.train("own/ce", data=photos, settings=settings, out=meter.home / "run", device="cpu", observer=meter)


def predictions(meter: Meter, units: int) -> None:
    """Predictions of an estimator, of an array or a file in turn."""
    photos = draw_photos(meter.home / "photos")
    paths = sorted(photos.rglob("*.png"))
    arrays = np.stack([np.asarray(Image.open(path)) for path in paths])
    settings = {"model.backbone": "resnet8", "model.width": 0.25}
    labels = [path.parent.name for path in paths]
    model = tailcloud.LongTailClassifier(epochs=1, size=16, weights="none", settings=settings, device="cpu")
    model.fit(arrays, labels)
    for unit in range(units):
        here = unit // 2 % len(paths)
        model.predict([paths[here]] if unit % 2 else arrays[here : here + 1])
        meter.count()


def loaded(meter: Meter, units: int) -> None:
    """Predictions of a loaded model."""
    run = tailcloud.train("digits-lt/ce", settings=SHORT_RUN, out=meter.home / "run", device="cpu")
    model = tailcloud.load(run.path)
    images = torch.zeros(1, 8, 8, 1, dtype=torch.uint8)
    for unit in range(units):
        model.predict_proba(images + unit % 200)
        meter.count()


def runs(meter: Meter, units: int) -> None:
    """Runs one after the other, each with its report."""
    for seed in range(units):
        tailcloud.train("digits-lt/ce", settings=SHORT_RUN, seed=seed, out=meter.home / f"run{seed}", device="cpu")
        meter.count()


def fleet(meter: Meter, units: int) -> None:
    """Runs of one command, side by side."""
    out = meter.home / "runs"
    request = TrainRequest(recipes=["digits-lt/ce"], settings=SHORT_RUN, seeds=range(units), out=out, device="cpu")
    jobs = [partial(execute, run, "cpu") for run in plan_runs(request)]
    for outcome in run_jobs(jobs, [meter] * units, "cpu"):
        if isinstance(outcome, TailcloudError):
            raise outcome


PARTS: dict[str, tuple[int, str, Callable[[Meter, int], None]]] = {
    "epochs": (1000, "epochs", epochs),
    "streamed": (1000, "epochs", streamed),
    "predictions": (10_000, "predictions", predictions),
    "loaded": (10_000, "predictions", loaded),
    "runs": (200, "runs", runs),
    "fleet": (200, "runs", fleet),
}


def draw_photos(folder: Path) -> Path:
    """Two classes of small pictures."""
    for number in range(40):
        place = folder / ("cat" if number < 25 else "dog")
        place.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 256, (20, 20, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(place / f"{number}.png")
    return folder


def measure(name: str, share: float, home: Path) -> dict[str, Any]:
    """The samples and figures of a part, measured in this process; it writes below ``home``."""
    units, unit, work = PARTS[name]
    units = max(4, round(units * share))
    meter, started = Meter(home, units), time.perf_counter()
    work(meter, units)
    seconds = time.perf_counter() - started
    samples = [asdict(sample) for sample in meter.samples]
    found = {figure: summary(samples, figure) for figure in FIGURES}
    return {"part": name, "unit": unit, "units": meter.done, "seconds": seconds, **found, "samples": samples}


def summary(samples: list[dict[str, float]], figure: str) -> dict[str, float]:
    """The first, the middle and the last sample, the largest, and the slope per 1,000 units of the second half."""
    values = [sample[figure] for sample in samples]
    half = samples[len(samples) // 2 :]
    slope = 0.0
    if len(half) > 1:
        slope = float(np.polyfit([one["done"] for one in half], [one[figure] for one in half], 1)[0]) * 1000
    ends = {"start": values[0], "middle": values[len(values) // 2], "end": values[-1], "most": max(values)}
    return {key: round(value, 3) for key, value in (ends | {"slope_per_1000": slope}).items()}


def in_own_process(name: str, share: float) -> dict[str, Any]:
    """The same, measured in a process of its own, with all temporary files in one folder."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, __file__, "--part", name, "--share", str(share), "--home", home]
        own = {"TAILCLOUD_CACHE": f"{home}/cache", "TMPDIR": home}
        if name != "fleet":  # which has as many workers as there are threads
            own["OMP_NUM_THREADS"] = "1"
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ | own)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure all parts and write the record, or measure one part and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the work")
    parser.add_argument("--part", choices=PARTS, help="measure this part here, and print it as JSON")
    parser.add_argument("--home", type=Path, help="where that part writes")
    parser.add_argument("--write", type=Path, default=RESULTS / "week-of-use.json")
    words = parser.parse_args()
    if words.part:
        print(json.dumps(measure(words.part, words.share, words.home)))
        return
    record: dict[str, Any] = {"parts": []}
    for name in PARTS:
        record["parts"].append(in_own_process(name, words.share))
        print({key: value for key, value in record["parts"][-1].items() if key != "samples"}, flush=True)
        write_record(words.write, record, pick_device("cpu"))


if __name__ == "__main__":
    main()
