"""How long do whole commands take? One run, several in one command, a table of runs, and the plain loop.

    python benchmarks/speed.py --device cuda --root data
    python benchmarks/speed.py --device cuda --rows alone-cold alone-warm plain-loop --time-limit 540
    python benchmarks/speed.py --device cuda --rows fleet-16 bench --time-limit 540
    python benchmarks/speed.py --device cpu

Every row is a command with default settings, started as from a shell and measured by wall clock until it exits:
imports, data, set-up, training, evaluation, checkpoints and report. "cold" starts with an empty folder of compiled
kernels, every other row after a short command that has filled it. Python has its bytecode on disk, as in any
installation. Without --root, a run on CIFAR reads random images from files of the same form.

With --time-limit, each row gets its share of the time. A tenth and a fifth of the epochs are measured, and the whole
command is extrapolated from these two; it is measured too if by that it fits. (Short stages are evaluated after every
epoch, so the line is a little above the whole command.) The plain loop is measured over a few
epochs of each stage. The record has every command that was measured, and says which rows are extrapolated. Rows are
merged into the record by name, so that several calls fill one record.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import noise_images
import whole_command
from measurement import RESULTS
from speed_table import EXTRAPOLATED_FROM, about_row, at_share, is_complete, merged

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import read_json, write_json
from tailcloud.recipe import load_recipe
from tailcloud.training.evaluation_schedule import FEW_EPOCHS

BENCH = "table1 on cifar10-lt:200 and cifar10-lt:50"
COLUMNS = ("cifar10-lt:200", "cifar10-lt:50")
METHODS = ("ce-mixup", "ce-mixup+crt", "mislas", "tde", "logit-adjust")
BENCH_RUNS, BENCH_EPOCHS = 30, 200  # three seeds of five methods on two data sets; three methods share a first stage
DEFAULT = {
    "cuda": ["alone-cold", "alone-warm", "fleet-4", "fleet-8", "fleet-16", "fleet-32", "bench", "plain-loop"],
    "cpu": ["alone-warm", "fleet-2", "fleet-4", "plain-loop", "plain-loop-no-workers"],
}
RECIPES = {"cuda": "cifar10-lt/gcl", "cpu": "digits-lt/gcl"}
PLAIN_EPOCHS = 4  # of each stage of the plain loop
IMPORTS = "import tailcloud.launch.execute, tailcloud.training.loop, tailcloud.reporting, tailcloud.kernels.residual"
RANDOM, REAL = "random images", "the images of the data set"

say = partial(print, flush=True)
Epochs = dict[str, int]
Words = Callable[[Epochs | None], list[str]]  # the command for so many epochs of each stage; None: for all


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="which rows; any fleet-N can be asked for")
    parser.add_argument("--recipe", help="[default: cifar10-lt/gcl on cuda, digits-lt/gcl on cpu]")
    parser.add_argument("--root", help="the folder with CIFAR; without it, random images are read")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="of all rows together")
    parser.add_argument(
        "--shares", type=float, nargs=2, metavar="SHARE", help="extrapolate from these shares of the epochs"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the run folders, for render.py --add")
    parser.add_argument("--write", type=Path, help="the JSON file [default: benchmarks/results/speed-DEVICE.json]")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    options = arguments(words)
    target = options.write or RESULTS / f"speed-{options.device}.json"
    failed = 0
    try:
        with nullcontext(options.keep) if options.keep else tempfile.TemporaryDirectory() as home:
            Path(home).mkdir(parents=True, exist_ok=True)
            benchmark = Benchmark(options, Path(home).resolve())
            rows = [benchmark.row(name) for name in options.rows or DEFAULT[options.device]]
            ends = time.monotonic() + (options.time_limit or float("inf"))
            for place, row in enumerate(rows):
                allowed = (ends - time.monotonic()) / (len(rows) - place)
                failed += not measure_row(benchmark, row, allowed, target)
    except TailcloudError as error:
        print(error, file=sys.stderr)
        return 1
    say(f"record: {target}")
    return int(failed > 0)


def measure_row(benchmark: "Benchmark", row: "Row", allowed: float, target: Path) -> bool:
    """Measure a row into the record; one that fails says why, and the next one is measured."""
    try:
        for found in benchmark.measured(row, allowed):
            write_json(target, merged(read_json(target) if target.exists() else {"rows": []}, found))
            say(about_row(found))
    except UsageError:
        raise
    except TailcloudError as error:
        print(f"{row.name}: {error}", file=sys.stderr)
        return False
    return True


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    trains: str  # the recipe, or the table
    title: str  # the command, without folders
    runs: int
    words: Words
    epochs: Epochs
    cold: bool = False
    plain: bool = False


class Benchmark:
    """Commands, each in a new folder; the rows that are not cold share compiled kernels."""

    def __init__(self, options: argparse.Namespace, home: Path) -> None:
        self.options, self.home, self.commands = options, home, 0
        self.recipe: str = options.recipe or RECIPES[options.device]
        self.kernels = self.home / "kernels"
        self.filled: set[str] = set()

    def row(self, name: str) -> Row:
        """A row by its name."""
        kind, _, rest = name.partition("-")
        if name in {"alone-cold", "alone-warm"}:
            return self.training(name, runs=1, cold=rest == "cold")
        if kind == "fleet" and rest.isdecimal() and int(rest) > 1:
            return self.training(name, runs=int(rest))
        if name in {"plain-loop", "plain-loop-no-workers"}:
            return self.plain_loop(name, ["--workers", "0"] if name != "plain-loop" else [])
        if name == "bench":
            return self.bench(name)
        known = [*DEFAULT["cuda"], "fleet-N", "plain-loop-no-workers"]
        raise UsageError(f"--rows {name}: there is no such row; the rows are {', '.join(known)}")

    def training(self, name: str, *, runs: int, cold: bool = False) -> Row:
        """``tailcloud train`` with one or several seeds."""
        seeds = [word for seed in range(runs) for word in ("--seed", str(seed))] if runs > 1 else []
        title = f"tailcloud train {self.recipe}" + (f" --seed 0 … --seed {runs - 1}" if seeds else "")

        def words(epochs: Epochs | None) -> list[str]:
            shorter = [word for stage, count in (epochs or {}).items() for word in ("--set", f"{stage}.epochs={count}")]
            return self.tailcloud(self.recipe, "train", self.recipe, *seeds, *shorter)

        return Row(name, self.recipe, title, runs, words, self.epochs(), cold)

    def bench(self, name: str) -> Row:
        """``tailcloud bench``: runs that share first stages."""
        chosen = [word for text in (*COLUMNS, *METHODS) for word in ("--only", text)]

        def words(epochs: Epochs | None) -> list[str]:
            shorter = ["--epochs", str(epochs["stage1"])] if epochs else []
            return self.tailcloud(BENCH, "bench", "table1", *chosen, *shorter)

        title = "tailcloud bench table1 --only cifar10-lt:200 --only cifar10-lt:50 --only …"
        return Row(name, BENCH, title, BENCH_RUNS, words, {"stage1": BENCH_EPOCHS})

    def plain_loop(self, name: str, options: Sequence[str]) -> Row:
        """The same recipe by plain_loop.py."""
        script = str(Path(__file__).with_name("plain_loop.py"))

        def words(_: Epochs | None) -> list[str]:
            asked = ["--device", self.options.device, "--epochs", str(PLAIN_EPOCHS), "--write", "plain.json"]
            return whole_command.python(script, self.recipe, *options, *asked, *self.root(self.recipe))

        title = f"python benchmarks/plain_loop.py {self.recipe} {' '.join(options)}".strip()
        return Row(name, self.recipe, title, 1, words, self.epochs(), plain=True)

    def epochs(self) -> Epochs:
        """Of each stage of the recipe."""
        return {name: stage.epochs for name, stage in load_recipe(self.recipe).stages.items() if stage.epochs}

    def tailcloud(self, trains: str, *words: str) -> list[str]:
        where = ("--device", self.options.device, "--out", "runs", *self.root(trains))
        return whole_command.python("-m", "tailcloud", *words, *where)

    def root(self, trains: str) -> list[str]:
        """Where the data are; random ones are written on first use."""
        if self.images(trains) == REAL:
            return ["--root", str(Path(self.options.root).resolve())] if self.options.root else []
        folder = self.home / "data"
        if not folder.exists():
            for name in ("cifar10", "cifar100"):
                noise_images.write_cifar(name, folder)
        return ["--root", str(folder)]

    def measured(self, row: Row, allowed: float) -> Iterator[dict[str, Any]]:
        """The row for the record, as soon as it has a figure and again when it has a better one."""
        ends = time.monotonic() + allowed
        found: dict[str, Any] = {"row": row.name, "trains": row.trains, "command": row.title, "runs": row.runs}
        found |= {"images": self.images(row.trains), "epochs": row.epochs, "commands": []}
        self.fill(row)
        for share in self.shares(row, allowed):
            if is_complete(found) and time.monotonic() + at_share(found["commands"], 1.0, "wall") > ends:
                break
            command, origin = self.plain(row) if row.plain else self.command(row, shortened(row.epochs, share))
            found = {**found, "commands": [*found["commands"], command], **origin}
            if is_complete(found):
                yield found

    def shares(self, row: Row, allowed: float) -> Sequence[float]:
        """The shares of a row's epochs that are measured, one after the other; the last one if there is time."""
        if row.plain:
            return (1.0,)
        if self.options.shares:
            return checked_shares(row.epochs, self.options.shares)
        return (1.0,) if allowed == float("inf") else (*EXTRAPOLATED_FROM, 1.0)

    def images(self, trains: str) -> str:
        """What is in the files that are read."""
        return REAL if self.options.root or "cifar" not in trains else RANDOM

    def fill(self, row: Row) -> None:
        """Have the kernels of a row compiled, and its files read once, by a short command that is not measured.

        Before a cold row, only Python compiles what is imported.
        """
        recipe = self.recipe if row.trains != BENCH else "cifar10-lt/gcl"
        if row.cold:
            self.start(whole_command.python("-c", IMPORTS), self.kernels)
        if row.cold or row.plain or recipe in self.filled:
            return
        settings = [word for stage in load_recipe(recipe).stages for word in ("--set", f"{stage}.epochs=1")]
        self.start(self.tailcloud(recipe, "train", recipe, *settings), self.kernels)
        self.filled.add(recipe)

    def command(self, row: Row, epochs: Epochs) -> tuple[dict[str, Any], dict[str, Any]]:
        """Measure a command of tailcloud; its figures and their origin."""
        if row.cold:
            self.kernels = self.home / f"kernels-{self.commands}"
        whole = epochs == row.epochs
        folder, measured = self.start(row.words(None if whole else epochs), self.kernels)
        self.filled.add(row.trains)
        share = sum(epochs.values()) / sum(row.epochs.values())
        found = {"share": share, "epochs": epochs, **whole_command.figures(measured, folder)}
        return found, whole_command.origin(folder)

    def plain(self, row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
        """Measure the plain loop, which says how long its epochs were."""
        folder, measured = self.start(row.words(None), self.kernels)
        said = read_json(folder / "plain.json")
        seconds = said["epoch_seconds"]
        found = {"wall": measured.wall, "memory": measured.memory, "epoch_seconds": seconds}
        return found, {"machine": said["machine"], "commit": said["commit"]}

    def start(self, words: Sequence[str], kernels: Path) -> tuple[Path, whole_command.Measured]:
        self.commands += 1
        folder = self.home / f"command-{self.commands}"
        return folder, whole_command.measure(words, folder, self.options.device, {"TRITON_CACHE_DIR": str(kernels)})


def checked_shares(epochs: Epochs, shares: Sequence[float]) -> Sequence[float]:
    """Refuse two commands of which one is evaluated after every epoch and the other is not: the line would be flat."""
    counts = [shortened(epochs, share) for share in shares]
    for stage in epochs:
        if len({count[stage] < FEW_EPOCHS for count in counts}) > 1:
            given = " ".join(f"{share:g}" for share in shares)
            found = " and ".join(str(count[stage]) for count in counts)
            raise UsageError(
                f"--shares {given}: {stage} would have {found} epochs, and stages of fewer than {FEW_EPOCHS} are "
                f"evaluated after every epoch; take shares that are both above or both below"
            )
    return tuple(shares)


def shortened(epochs: Epochs, share: float) -> Epochs:
    """A share of the epochs of each stage, at least one."""
    return {stage: max(1, round(share * count)) for stage, count in epochs.items()}


if __name__ == "__main__":
    sys.exit(main())
