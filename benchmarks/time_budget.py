"""Measures whether time budgets hold: asked and taken seconds of whole commands, alone and beside busy neighbours.

    python benchmarks/time_budget.py FOLDER --budgets 1m 3m --neighbours 0 4 --device cpu --out RECORDS

A neighbour is a process that multiplies matrices on one core. ``late`` neighbours start when training starts, after
everything was planned. ``trained`` is the share of the time in which features were computed or steps were trained.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from tailcloud.auto_recipe import parse_budget
from tailcloud.files import write_json

BUSY = "import torch; torch.set_num_threads(1); a = torch.rand(600, 600)\nwhile True: a = (a @ a).softmax(1)"
FEATURES = re.compile(r"Features of [\d,]+\s\w+ images?.*\(([^)]*)\)")
SHOWN = ("taken", "over", "trained", "epochs", "size", "train")
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many busy processes."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def seconds_of(text: str) -> float:
    """Seconds of "1 min 3 s"."""
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(r"([\d.]+)\s*(min|s|h)", text))


def measure(options: argparse.Namespace, budget: str, count: int, *, late: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "run"
        words = ["train", "--data", str(options.folder), "--time-budget", budget, "--device", options.device]
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if options.device == "cpu" else {}
        environment = {**os.environ, "TAILCLOUD_CACHE": str(Path(place) / "cache"), **hidden}
        log = Path(place) / "log"
        started = time.perf_counter()
        with neighbours(0 if late else count), log.open("w") as file:
            command = [sys.executable, "-m", "tailcloud", *words, "--out", str(out)]
            process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)
            while late and process.poll() is None and not out.exists():
                time.sleep(0.05)
            with neighbours(count if late else 0):
                failed = process.wait()
        taken, said = time.perf_counter() - started, log.read_text()
        if failed:
            sys.exit(said)
        result = json.loads((out / "result.json").read_text())
    features = sum(seconds_of(found) for found in FEATURES.findall(said))
    planned = result["recipe"]["stage1"]["epochs"]
    return {
        "budget": parse_budget(budget),
        "taken": taken,
        "over": taken / parse_budget(budget) - 1,
        "trained": (result["seconds"] + features) / taken,
        "features_seconds": features,
        "neighbours": count,
        "late": late,
        "epochs": [stage["epochs"] for stage in result["stages"] if stage["epochs"]],
        "planned": planned,
        "max_count": result["recipe"]["data"].get("max_count", 0) if isinstance(result["recipe"]["data"], dict) else 0,
        "size": result["dataset"]["shape"][0],
        "train": result["recipe"]["stage1"]["train"],
        "method": result["method"],
        "threads": result["recipe"].get("engine", {}).get("threads"),
        "top1": result["top1"]["last"],
        "balanced_accuracy": result["balanced_accuracy"],
        "remarks": [remark for remark in result["remarks"] if "ended after" in remark],
        "machine": result["machine"],
        "commit": result["commit"],
        "command": f"tailcloud {' '.join(words)}",
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budgets", nargs="+", default=["1m"])
    parser.add_argument("--neighbours", type=int, nargs="+", default=[0])
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for budget in options.budgets:
        for count in options.neighbours:
            record = measure(options, budget, count, late=options.late)
            cores = len(os.sched_getaffinity(0))
            about = {"data": options.folder.stem, "device": options.device, "cores": cores, "torch": torch.__version__}
            when = "late" if options.late else "busy"
            name = f"{options.folder.stem}-{options.device}-{budget}-{when}{count}.json"
            write_json(options.out / name, {**about, **record})
            print(
                name, {key: record[key] for key in ("taken", "over", "trained", "epochs", "size", "train")}, flush=True
            )


if __name__ == "__main__":
    main()
