"""What does each rung of the ladder add? Measured on training images that are left out, so that settings can be chosen.

    python benchmarks/ladder.py cifar100-lt-tune:100 --root data --out runs/tune --device cuda
    python benchmarks/ladder.py cifar100-lt-tune:100 --rows gcl-ema vs-ema --seeds 0 1 …
    python benchmarks/ladder.py cifar100-lt-tune:100 --rows gcl --set --set stage2.sampler=sqrt --set stage1.lr=0.2 …

Trains rows of ``tailcloud bench ladder`` on the tuning part of a data set, all in one command, and records balanced
accuracy at the last epoch. Run again, it goes on where it was. Runs are merged into the record by row and seed, so that
several calls fill one record. Rows that learn from teachers are trained if they are named, after the runs that teach
them: a second call with the same --out.
"""

import argparse
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import ladder_table
import torch
from measurement import RESULTS

from tailcloud.bench import BenchProtocol, BenchRun, TableRow, read_table
from tailcloud.bench.plan import cell_runs
from tailcloud.cli.progress import execute_with_progress
from tailcloud.errors import TailcloudError, unknown
from tailcloud.files import read_json, write_json
from tailcloud.launch.run_plan import PlannedRun
from tailcloud.training.devices import pick_device

FIGURES = ("balanced_accuracy", "many", "medium", "few", "ece")


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="cifar10-lt-tune:100 or cifar100-lt-tune:100")
    parser.add_argument("--rows", nargs="+", metavar="KEY", help="such as gcl-ema [default: all without a teacher]")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument(
        "--set",
        nargs="*",
        action="append",
        metavar="KEY=VALUE",
        help="every row with this; again for another, or as is",
    )
    parser.add_argument("--root", default="data")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="auto", type=pick_device)
    parser.add_argument("--write", type=Path, help="the JSON file [default: benchmarks/results/ladder-DATA.json]")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> None:
    options = arguments(words)
    runs = planned(options)
    missing = [run for run, _ in runs if not run.folder.finished]
    started = time.perf_counter()
    todo = [PlannedRun(run.folder, run.recipe, run.command) for run in missing]
    for run, outcome in zip(missing, execute_with_progress(todo, options.device.type) if todo else [], strict=True):
        if isinstance(outcome, TailcloudError):
            print(f"{run.title}: {outcome}")
    wall = time.perf_counter() - started
    target = options.write or RESULTS / f"ladder-{options.data.replace(':', '-')}.json"
    before = read_json(target)["runs"] if target.exists() else []
    rows = merged(before, [figures(*run) for run in runs if run[0].folder.finished])
    write_json(target, {"data": options.data, "runs": rows})
    print("\n".join(ladder_table.parts([{"data": options.data, "runs": rows}])))
    print(f"{len(missing)} runs in {wall:.0f} s; record: {target}")


def planned(options: argparse.Namespace) -> list[tuple[BenchRun, list[str]]]:
    """The runs of the rows that were asked for, and what was changed in each."""
    by_key: dict[str, TableRow] = {row.key: row for row in read_table("ladder").rows}
    for key in options.rows or ():
        if key not in by_key:
            raise SystemExit(str(unknown("row of the ladder", key, by_key)))
    chosen = [by_key[key] for key in options.rows] if options.rows else [r for r in by_key.values() if not r.teacher]
    runs: list[tuple[BenchRun, list[str]]] = []
    for changes in options.set or [[]]:
        protocol = BenchProtocol(seeds=options.seeds, settings=changes, root=options.root)
        for row in chosen:
            found = cell_runs(row, options.data, protocol, options.out / protocol.folder)
            runs += [(run, changes) for run in found]
    return runs


def figures(run: BenchRun, settings: Iterable[str]) -> dict[str, Any]:
    """What a run achieved, on what, and where."""
    result = run.folder.result()
    return {
        "row": run.row.key,
        "label": run.row.label,
        "changed": list(settings),
        "seed": result.protocol.seed,
        "fingerprint": result.dataset.fingerprint,
        "top1": result.top1.last,
        **{key: getattr(result, key) for key in FIGURES},
        "stages": [{"epochs": stage.epochs, "balanced_accuracy": stage.balanced_accuracy} for stage in result.stages],
        "seconds": result.seconds,
        "command": run.command,
        "machine": result.machine,
        "commit": result.commit,
    }


def merged(before: Iterable[dict[str, Any]], found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs of both, the newer one of two that are the same; in the order of the ladder."""
    by_name = {(run["row"], tuple(run["changed"]), run["seed"]): run for run in [*before, *found]}
    place = {row.key: number for number, row in enumerate(read_table("ladder").rows)}
    return sorted(by_name.values(), key=lambda run: (place.get(run["row"], len(place)), run["changed"], run["seed"]))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
