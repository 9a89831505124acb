"""The stage that held-out images choose, against always the last one: accuracy on the test images.

    python benchmarks/kept_stage.py digits-lt --seeds 3 digits-lt/gcl --set selection.split=0.2
    python benchmarks/kept_stage.py clothing --seeds 3 --data clothing --weights none --device cuda
    python benchmarks/kept_stage.py cifar100-lt --seeds 3 cifar100-lt/gcl --set selection.split=0.1 --device cuda

The words after the name and the seeds are those of ``tailcloud train``. One training gives both: the kept stage and the
last one are measured on the test images, and the comparison on the held-out images is in the result. Other rules are
applied to the same comparison. What was measured is written to benchmarks/results/kept-stage-NAME.json.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from measurement import RESULTS, write_record

from tailcloud.runs.folder import RunFolder
from tailcloud.runs.result import Result, StageComparison, StageResult

FIGURES = ("top1", "balanced_accuracy", "many", "medium", "few")
RULES: dict[str, Callable[[StageComparison], bool]] = {  # whether the later stage is kept
    "last": lambda _: True,
    "first": lambda _: False,
    "any rise": lambda held: held.objective.points > 0,
    "rise beyond the error": lambda held: held.objective.points > (held.objective.error or 0.0),
    "rise beyond two errors": lambda held: held.objective.points > 2 * (held.objective.error or 0.0),
}


def train(words: list[str], seed: int, out: Path) -> Result:
    """Train one run whose stages are compared."""
    command = [sys.executable, "-m", "tailcloud", "train", *words, "--seed", str(seed), "--out", str(out)]
    subprocess.run([*command, "--set", "selection.stage=best"], check=True, stdout=subprocess.DEVNULL)
    return RunFolder(out).result()


def measured(result: Result) -> dict[str, Any]:
    """Test figures of every stage, the comparison on held-out images, and what each rule would keep."""
    if result.kept_stage is None or len(result.kept_stage.comparisons) != 1:
        raise SystemExit("this needs a recipe with two stages that are compared")
    (held,) = result.kept_stage.comparisons
    first = next(stage for stage in result.stages if stage.name == held.earlier)
    kept = {name: result.stages[-1] if rule(held) else first for name, rule in RULES.items()}
    kept["tailcloud"] = next(stage for stage in result.stages if stage.name == result.kept_stage.name)
    return {
        "seed": result.protocol.seed,
        "method": result.method,
        "images": result.dataset.images,
        "kept": result.kept_stage.name,
        "reason": result.kept_stage.reason,
        "held_out": held.content(),
        "stages": {stage.name: figures(stage) for stage in result.stages},
        "change": result.stages[-1].change.content() if result.stages[-1].change else None,
        "rules": {name: {"stage": stage.name, **figures(stage)} for name, stage in kept.items()},
    }


def figures(stage: StageResult) -> dict[str, float | None]:
    """The main figures of a stage."""
    return {key: getattr(stage, key) for key in FIGURES}


def means(runs: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """For each rule the mean figures over the seeds, and how often it keeps the last stage."""
    return {
        rule: {
            **{key: fmean(run["rules"][rule][key] or 0.0 for run in runs) for key in ("top1", "balanced_accuracy")},
            "keeps_last": sum(run["rules"][rule]["stage"] == run["rules"]["last"]["stage"] for run in runs),
        }
        for rule in runs[0]["rules"]
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    options, words = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as home, ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda seed: train(words, seed, Path(home) / f"seed{seed}"), range(options.seeds))
        runs = [measured(result) for result in results]
    found = means(runs)
    for rule, values in found.items():
        last = f"last stage in {values['keeps_last']} of {len(runs)}"
        print(f"{rule}: top-1 {values['top1']:.2f}, balanced {values['balanced_accuracy']:.2f}, {last}")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    record = {"data": options.name, "command": " ".join(["tailcloud train", *words]), "means": found, "runs": runs}
    write_record(RESULTS / f"kept-stage-{options.name}.json", record, device)


if __name__ == "__main__":
    main()
