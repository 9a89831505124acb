"""Measures whole commands on a folder of images: what `tailcloud train --data` gets within a time budget.

    python benchmarks/pretrained.py FOLDER --what tailcloud --device cpu --budget 3m --seeds 0 1 2 --out RECORDS

FOLDER has train/CLASS and test/CLASS, or is an .npz file. One command a seed, from the shell, each with a feature cache
of its own, so that every one starts from nothing. ``--what`` names the row: "tailcloud" is the default, "scratch" the
same without pretrained weights, "plain" and "plain-frozen" are plain_finetune.py (with the arguments of
``--plain="--size 192"``), anything else is a method, as in `--set method=gcl`.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from tailcloud.auto_recipe import parse_budget
from tailcloud.files import json_text

PLAIN = {"plain": [], "plain-frozen": ["--frozen"]}
SCORES = ("top1", "balanced_accuracy", "many", "medium", "few")


def tailcloud_record(options: argparse.Namespace, seed: int, folder: Path) -> dict[str, Any]:
    words = ["train", "--data", str(options.folder), "--time-budget", options.budget, "--device", options.device]
    words += ["--seed", str(seed), "--out", str(folder / "run")]
    words += {"tailcloud": [], "scratch": ["--weights", "none"]}.get(options.what, ["--set", f"method={options.what}"])
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "tailcloud", *words], check=True, env=environment(folder, options.device))
    seconds = time.perf_counter() - started
    result = json.loads((folder / "run" / "result.json").read_text())
    recipe = result["recipe"]
    stages = [recipe[name] for name in ("stage1", "stage2", "stage3") if name in recipe]
    train = stages[0]["train"]
    part = "head" if train == "head" else "all" if train == "all" else "last"
    return {
        **{name: result[name] for name in SCORES},
        "top1": result["top1"]["last"],
        "seconds": seconds,
        "backbone": result["model"]["backbone"],
        "size": result["dataset"]["shape"][0],
        "method": recipe["method"],
        "epochs": " + ".join(str(stage["epochs"]) for stage in stages if stage["epochs"]),
        "part": part if result["model"].get("weights") else "scratch",
        "fingerprint": result["dataset"]["fingerprint"],
        "test_images": result["dataset"]["images"]["test"],
        "machine": result["machine"],
        "versions": {"tailcloud": result["version"], "torch": torch.__version__},
        "commit": result["commit"],
        "command": f"tailcloud {' '.join(words[:-2])}",
    }


def plain_record(options: argparse.Namespace, seed: int, folder: Path) -> dict[str, Any]:
    script, out = Path(__file__).with_name("plain_finetune.py"), folder / "plain.json"
    words = [
        str(options.folder),
        "--seed",
        str(seed),
        *PLAIN[options.what],
        *shlex.split(options.plain),
        "--out",
        str(out),
    ]
    started = time.perf_counter()
    subprocess.run([sys.executable, str(script), *words], check=True, env=environment(folder, options.device))
    seconds = time.perf_counter() - started
    result = json.loads(out.read_text())
    return {
        **{name: result[name] for name in SCORES},
        "seconds": seconds,
        "backbone": "efficientnet_lite0",
        "size": result["size"],
        "method": "balanced-softmax" if result["loss"] == "balanced" else result["loss"],
        "epochs": "40" if result["frozen"] else str(result["epochs"]),
        "part": "head" if result["frozen"] else "all",
        "test_images": sum(1 for path in (options.folder / "test").rglob("*") if path.is_file()),
        "machine": result["machine"],
        "versions": {"torch": torch.__version__},
        "commit": result["commit"],
        "command": f"plain_finetune.py {' '.join(words[:-2])}",
    }


def environment(folder: Path, device: str) -> dict[str, str]:
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
    return {**os.environ, "TAILCLOUD_CACHE": str(folder / "cache"), **hidden}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--what", default="tailcloud")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--budget", default="3m")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plain", default="", help="arguments of plain_finetune.py, in quotes")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        with tempfile.TemporaryDirectory() as place:
            measure = plain_record if options.what in PLAIN else tailcloud_record
            measured = measure(options, seed, Path(place))
        about = {"data": options.folder.stem, "device": options.device, "budget": parse_budget(options.budget)}
        cores = len(os.sched_getaffinity(0))
        record = {**about, "cores": cores, "what": options.what, "seed": seed, **measured}
        name = f"{options.folder.stem}-{options.what}-{options.device}-{options.budget}-seed{seed}.json"
        (options.out / name).write_text(json_text(record) + "\n")
        print(name, {key: record[key] for key in (*SCORES, "seconds", "size", "method", "epochs", "part")}, flush=True)


if __name__ == "__main__":
    main()
