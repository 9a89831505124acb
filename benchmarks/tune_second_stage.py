"""Which second stage is best for GCL? Chosen on training images, beside what the test set would choose.

    python benchmarks/tune_second_stage.py cifar10 --root data --out runs/choose

Trains the first stage of GCL once for each seed: on the tuning part of a data set, which is judged on training images
that it leaves out (``cifar10-lt-tune:100``), and on its three benchmark cells. Every candidate for the second stage
then starts from it. The tuning part decides, by balanced accuracy over seeds; the cells only show what was at stake.
Run again, it goes on where it was. The record also has the lengths of the anchors that stage 1 leaves.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch
from measurement import RESULTS, write_record
from safetensors.torch import load_file

from tailcloud.cli.progress import execute_with_progress
from tailcloud.errors import TailcloudError
from tailcloud.launch.run_plan import PlannedRun
from tailcloud.recipe import Recipe, load_recipe, parse_setting
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.fork import first_stage_checkpoint, fork_run
from tailcloud.training.devices import pick_device

CANDIDATES = {  # every field that differs among them, so that none follows from what gcl has by itself today
    "keep": ["head_transform=keep", "lr=0.002", "mixup=0.0"],
    "keep, mixup 1": ["head_transform=keep", "lr=0.002", "mixup=1.0"],
    "keep, mixup 0.2": ["head_transform=keep", "lr=0.002", "mixup=0.2"],
    "unit, lr 0.0001": ["head_transform=unit", "lr=0.0001", "mixup=0.0"],
    "unit, lr 0.0005": ["head_transform=unit", "lr=0.0005", "mixup=0.0"],
    "unit, lr 0.0002, mixup 1": ["head_transform=unit", "lr=0.0002", "mixup=1.0"],
    "unit, lr 0.0002, mixup 0.2": ["head_transform=unit", "lr=0.0002", "mixup=0.2"],
}
FIRST = "unit, lr 0.0002, mixup 0.2"  # what was chosen: a bench trains it too, with its first stage; others branch off
FIGURES = ("balanced_accuracy", "many", "medium", "few", "ece")


def main() -> None:
    options = arguments()
    runs = {(spec, name, seed): run_of(options, spec, name, seed) for spec, name, seed in cases(options)}
    train_missing([run for (_, name, _), run in runs.items() if name == FIRST], options.device)
    for (spec, name, seed), run in runs.items():
        if name != FIRST and not run.folder.exists:
            fork_run(runs[spec, FIRST, seed].folder, run.folder, run.recipe, run.command)
    train_missing([run for (_, name, _), run in runs.items() if name != FIRST], options.device)
    rows = [figures(spec, name, seed, run) for (spec, name, seed), run in runs.items() if run.folder.finished]
    record = {"data": options.data, "candidates": CANDIDATES, "runs": rows}
    write_record(options.write or RESULTS / f"choose-second-stage-{options.data}.json", record, options.device)
    print_table(rows)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", choices=["cifar10", "cifar100"])
    parser.add_argument("--root", default="data")
    parser.add_argument("--out", type=Path, required=True, help="a folder that a bench may share")
    parser.add_argument("--device", default="auto", type=pick_device)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cells", nargs="*", type=int, default=[200, 100, 50], help="imbalance ratios")
    parser.add_argument("--tune", nargs="*", type=int, default=[100], help="imbalance ratios")
    parser.add_argument("--epochs", type=int, nargs=2, help="of both stages, to try this out")
    parser.add_argument("--write", type=Path)
    return parser.parse_args()


def cases(options: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    specs = [f"{options.data}-lt-tune:{ratio}" for ratio in options.tune]
    specs += [f"{options.data}-lt:{ratio}" for ratio in options.cells]
    for spec in specs:
        for name in CANDIDATES:
            yield from ((spec, name, seed) for seed in range(options.seeds))


def run_of(options: argparse.Namespace, spec: str, name: str, seed: int) -> PlannedRun:
    """A run with its folder, and the command that would train it alone."""
    settings = [f"stage2.{setting}" for setting in CANDIDATES[name]]
    settings += ["selection.every=1000"] if "tune" in spec else []
    if options.epochs:
        settings += [f"{stage}.epochs={n}" for stage, n in zip(("stage1", "stage2"), options.epochs, strict=True)]
    recipe: Recipe = load_recipe(
        None, [{"data": spec, "root": options.root, "seed": seed}, *map(parse_setting, settings)]
    )
    command = f"tailcloud train --data {spec} --seed {seed}" + "".join(f" --set {setting}" for setting in settings)
    variant = "" if name == FIRST else "-" + name.replace(", ", "-").replace(" ", "")
    folder = options.out / f"{spec.replace(':', '-')}-gcl{variant}-seed{seed}"  # as a bench calls it
    return PlannedRun(RunFolder(folder), recipe, command)


def train_missing(runs: Sequence[PlannedRun], device: torch.device) -> None:
    missing = [run for run in runs if not run.folder.finished]
    for run, outcome in zip(missing, execute_with_progress(missing, device.type) if missing else [], strict=True):
        if isinstance(outcome, TailcloudError):
            print(f"{run.folder.path}: {outcome}")


def figures(spec: str, name: str, seed: int, run: PlannedRun) -> dict[str, Any]:
    """What a run achieved, after each stage, and how long its anchors were in between."""
    result = run.folder.result()
    first = load_file(first_stage_checkpoint(run.folder, run.recipe))["model.head.weight"]
    return {
        "spec": spec,
        "candidate": name,
        "seed": seed,
        "fingerprint": result.dataset.fingerprint,
        "top1": result.top1.content(),
        **{key: getattr(result, key) for key in FIGURES},
        "stage1": {key: getattr(result.stages[0], key) for key in ("top1", *FIGURES)},
        "anchors": {"mean": float(first.norm(dim=1).mean()), "shortest": float(first.norm(dim=1).min())},
    }


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    specs = list(dict.fromkeys(row["spec"] for row in rows))
    print(f"{'balanced accuracy':<28}" + "".join(f"{spec:>24}" for spec in specs))
    for name in CANDIDATES:
        cells = []
        for spec in specs:
            values = [row["balanced_accuracy"] for row in rows if (row["spec"], row["candidate"]) == (spec, name)]
            spread = f" ± {stdev(values):.2f}" if len(values) > 1 else ""
            cells.append(f"{fmean(values):.2f}{spread}" if values else "–")
        print(f"{name:<28}" + "".join(f"{cell:>24}" for cell in cells))


if __name__ == "__main__":
    main()
