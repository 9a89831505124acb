"""How fast is an epoch, by executor? One command, one table, one record. Whole commands: speed.py.

    python benchmarks/epoch_speed.py --device cpu --root data
    python benchmarks/epoch_speed.py --device cuda --root data

An epoch is training, evaluation of the test part, log and checkpoints; a row is the median of the epochs that count.
The first epochs of each measurement are a warm-up and do not count; what they and all that comes before them cost
beyond an epoch is the start-up (worker processes, compiling, capturing). With --repeats every row is measured that
often, in turn with the others, and its fastest repetition counts; the start-up is that of the first one, with an empty
compiler cache. Stages are measured apart. The floors are those of roofline.py.
"""

import argparse
import gc
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from epoch_speed_table import BASELINE, HEADER, about, aligned, cells, limits
from epoch_timing import NotMeasured, Span, Timed, only, seconds_per_epoch, timed_plain, timed_run
from measurement import RESULTS, write_record
from roofline import Floor, Peak, floor_of, peak_of

from tailcloud.data import Dataset, Split, open_dataset
from tailcloud.errors import TailcloudError, explained
from tailcloud.recipe import Recipe, load_recipe
from tailcloud.training.devices import check_engine, machine, pick_device
from tailcloud.training.session import Session

SLICE = 2000  # training images on a CPU


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    executor: str = "auto"
    kernels: str = "auto"
    workers: int | None = None  # of the plain loop


@dataclass(frozen=True)
class Problem:
    """What is trained."""

    recipe: Recipe
    dataset: Dataset
    device: torch.device
    executor: str  # what "auto" means for this problem
    precision: str

    def engine(self, executor: str = "auto", kernels: str = "auto") -> Recipe:
        """The recipe with an executor and kernels."""
        chosen = {"executor": self.executor if executor == "auto" else executor, "kernels": kernels}
        engine = self.recipe.engine.model_dump() | chosen
        return Recipe.model_validate(self.recipe.model_dump() | {"engine": engine})


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--data", nargs="+", metavar="SPEC", help="by default digits-lt (CPU only) and cifar10-lt:100")
    parser.add_argument("--root", help="the folder of CIFAR; without it a CPU measures digits-lt alone")
    parser.add_argument("--images", type=int, help=f"cut training sets to this size [default on a CPU: {SLICE}]")
    parser.add_argument("--epochs", type=int, default=3, help="epochs that count, in every measurement")
    parser.add_argument("--warm-up", type=int, default=1, help="epochs before them")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="rows whose names contain one of these words")
    parser.add_argument("--write", type=Path, help="the JSON file [default: results/epoch-speed-DEVICE.json]")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    options = arguments(words)
    try:
        with tempfile.TemporaryDirectory() as home:
            caches = {f"{kind}_CACHE_DIR": str(Path(home) / kind) for kind in ("TORCHINDUCTOR", "TRITON")}
            with patch.dict(os.environ, caches):
                Benchmark(options, Path(home)).run()
    except TailcloudError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


class Benchmark:
    """All problems and rows; the record is written after every row."""

    def __init__(self, options: argparse.Namespace, home: Path) -> None:
        self.options, self.home = options, home
        self.device = pick_device(options.device)
        self.threads, self.cores = torch.get_num_threads(), len(os.sched_getaffinity(0))
        self.target: Path = options.write or RESULTS / f"epoch-speed-{options.device}.json"
        self.machine = machine(self.device)
        self.peaks: dict[str, Peak] = {}
        self.record: dict[str, Any] = {
            "warm_up": options.warm_up,
            "epochs": options.epochs,
            "repeats": options.repeats,
            "cores": self.cores,
            "problems": [],
        }

    def run(self) -> None:
        say(f"{self.machine['gpu'] or self.machine['processor']}, {self.cores} cores, torch {torch.__version__}")
        say(f"{self.options.warm_up} epochs of warm-up, {self.options.epochs} that count, {self.options.repeats} times")
        for problem in problems(self.options, self.device):
            self.measure(problem)
        say(f"record: {self.target}")

    def measure(self, problem: Problem) -> None:
        """One table."""
        entry = describe(problem)
        self.record["problems"].append(entry)
        self.look_at_machine(problem.precision)
        say(f"\n{about(entry)}\n{limits(entry)}")
        for repeat in range(self.options.repeats):
            for row in self.rows():
                started = time.monotonic()
                found = self.attempt(problem, row, self.home / f"{len(self.record['problems'])}-{repeat}")
                merge(entry["rows"], found)
                say(progress(found, time.monotonic() - started))
                write_record(self.target, self.record, self.device)
            self.look_at_machine(problem.precision)
        write_record(self.target, self.record, self.device)
        say("\n" + "\n".join(aligned([HEADER, *(cells(entry, row) for row in entry["rows"])])))

    def look_at_machine(self, precision: str) -> None:
        """What it can do, now or before, whichever was more; the floors of all problems follow from that."""
        self.clean_up()
        peak = peak_of(self.device, precision)
        self.peaks[precision] = peak.or_better(self.peaks.get(precision, peak))
        for entry in self.record["problems"]:
            best, floor = self.peaks[entry["precision"]], Floor(entry["floor"]["flops"], entry["floor"]["bytes"])
            entry["peak"] = asdict(best)
            entry["floor"] |= floor.seconds(best, entry["epochs"])

    def rows(self) -> list[Row]:
        """What this device can be compared on."""
        plain = [Row(BASELINE, workers=self.cores)]
        if self.device.type == "cpu":
            plain.append(Row(f"{BASELINE}, no workers", workers=0))
        alone = [Row("eager", "eager", "plain"), Row("compiled", "compiled", "plain")]
        if self.device.type == "cuda":
            alone += [Row("graphed", "graphed", "plain"), Row("graphed, fused kernels", "graphed", "fused")]
        words = self.options.only
        return [row for row in [*plain, *alone] if not words or any(word in row.name for word in words)]

    def attempt(self, problem: Problem, row: Row, home: Path) -> dict[str, Any]:
        """Measure a row; one that cannot be measured says why, and the others continue."""
        found: dict[str, Any] = {"name": row.name, "executor": row.executor, "reason": None}
        if row.executor == "auto":
            found["executor"] = "eager" if row.workers is not None else problem.executor
        try:
            found |= self.stages(problem, row, home / row.name)
        except NotMeasured as reason:
            found["reason"] = str(reason)
        except Exception as error:
            if explained(error) is None:
                traceback.print_exc()
            found["reason"] = (str(error).strip() or type(error).__name__).splitlines()[0]
        finally:
            self.clean_up()
        return found

    def stages(self, problem: Problem, row: Row, home: Path) -> dict[str, Any]:
        """The figures of a row."""
        seconds, start, memory = {}, 0.0, 0
        for stage in problem.recipe.stages:
            self.clean_up()
            if self.device.type == "cuda":
                torch.cuda.reset_peak_memory_stats(self.device)
            began = time.monotonic()
            span = Span(self.options.warm_up, self.options.epochs)
            timed = time_row(problem, row, stage, span, home / stage)
            for note in timed.notes:
                raise NotMeasured(note)
            seconds[stage] = seconds_per_epoch(timed, span)
            start += max(0.0, timed.ends[0] - began - seconds[stage])
            on_device = torch.cuda.max_memory_reserved(self.device) if self.device.type == "cuda" else None
            memory = max(memory, timed.memory if on_device is None else on_device)
        return {"seconds": seconds, "start": start, "memory": memory}

    def clean_up(self) -> None:
        """Reset threads and device memory, as in a fresh process."""
        torch.set_num_threads(self.threads)
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()


def time_row(problem: Problem, row: Row, stage: str, span: Span, home: Path) -> Timed:
    """Time one stage of a row."""
    recipe = only(problem.engine(row.executor, row.kernels), stage)
    if row.workers is None:
        check_engine(recipe.engine, problem.device)
        return timed_run(recipe, problem.dataset, problem.device, span, home)
    from plain_loop import PlainLoop  # needs Pillow

    loop = PlainLoop(recipe, problem.dataset, problem.device, row.workers)
    return timed_plain(loop.epochs(recipe.stages[stage]), span)


def problems(options: argparse.Namespace, device: torch.device) -> Iterator[Problem]:
    """The data sets that were asked for, each with its recipe for GCL."""
    large = ["cifar10-lt:100"] if options.root or device.type == "cuda" else []
    for spec in options.data or [*(["digits-lt"] if device.type == "cpu" else []), *large]:
        recipe = load_recipe(None, [{"data": spec, "root": options.root or "data"}])
        dataset = cut(open_dataset(spec, recipe.root), options.images or (SLICE if device.type == "cpu" else None))
        yield Problem(recipe, dataset, device, *automatic(recipe, dataset, device))


def automatic(recipe: Recipe, dataset: Dataset, device: torch.device) -> tuple[str, str]:
    """The executor and the precision that a run takes by itself; no kernels are compiled to find out."""
    engine = recipe.engine.model_copy(update={"kernels": "plain"})
    session = Session(recipe.model_copy(update={"engine": engine}), dataset, device)
    return session.engine.executor, session.engine.precision


def cut(dataset: Dataset, images: int | None) -> Dataset:
    """At most so many training images, evenly spaced; the test part is cut by the same share."""
    if images is None or len(dataset.train) <= images:
        return dataset
    share = images / len(dataset.train)
    train, test = spaced(dataset.train, images), spaced(dataset.test, round(share * len(dataset.test)))
    return replace(dataset, train=train, test=test)


def spaced(split: Split, images: int) -> Split:
    return split.take(np.linspace(0, len(split) - 1, images).astype(np.int64))


def describe(problem: Problem) -> dict[str, Any]:
    """A problem in the record, without its rows yet."""
    return {
        "recipe": f"{problem.recipe.data.spec} {problem.recipe.method}",
        "backbone": problem.recipe.model.backbone,
        "precision": problem.precision,
        "executor": problem.executor,
        "images": {"train": len(problem.dataset.train), "test": len(problem.dataset.test)},
        "epochs": {name: stage.epochs for name, stage in problem.recipe.stages.items()},
        "floor": asdict(floor_of(problem.recipe, problem.dataset, problem.precision)),
        "rows": [],
    }


def merge(rows: list[dict[str, Any]], found: dict[str, Any]) -> None:
    """Keep the faster of two repetitions, the start-up of the first, and a failure only where nothing was measured."""
    known = next((row for row in rows if row["name"] == found["name"]), None)
    if known is None:
        rows.append(found)
    elif known["reason"]:
        known |= found
    elif not found["reason"]:
        known["seconds"] = {stage: min(value, found["seconds"][stage]) for stage, value in known["seconds"].items()}
        known["memory"] = max(known["memory"], found["memory"])


def progress(row: dict[str, Any], took: float) -> str:
    """A row as soon as it is there."""
    if row["reason"]:
        return f"  {row['name']}: not measured: {row['reason']}"
    seconds = " and ".join(f"{value:.4g}" for value in row["seconds"].values())
    return f"  {row['name']} ({row['executor']}): {seconds} s / epoch, start-up {row['start']:.1f} s [{took:.0f} s]"


say = partial(print, flush=True)


if __name__ == "__main__":
    sys.exit(main())
