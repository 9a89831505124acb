"""Does a killed and resumed run end with the same bits? On any device, with any recipe.

    python benchmarks/resume.py cifar10-lt/gcl --root data --device cuda --epochs 4 --stage2-epochs 2

Trains a shortened run undisturbed; trains it again, killed by SIGKILL once in each stage and resumed; compares every
weight bit for bit, evaluates the model once more from its folder, and writes what happened as JSON.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tailcloud.files import write_json
from tailcloud.runs.folder import RunFolder
from tailcloud.training.devices import commit, machine

RESULTS = Path(__file__).parent / "results"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", default="digits-lt/gcl")
    parser.add_argument("--root", default="data")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--stage2-epochs", type=int, default=4)
    parser.add_argument("--set", dest="settings", metavar="KEY=VALUE", action="append", default=[])
    parser.add_argument("--write", type=Path, help="the JSON file; by default under benchmarks/results/")
    return parser.parse_args()


def tailcloud(*words: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tailcloud", *words], stdout=subprocess.DEVNULL)


def kill_at(process: subprocess.Popen[bytes], folder: Path, lines: int) -> None:
    """SIGKILL in the middle of the epoch after the log's ``lines``-th line."""
    log = folder / "log.jsonl"
    while not log.exists() or log.read_text().count("\n") < lines:
        if process.poll() is not None:
            sys.exit("the run ended before it could be killed; give it more epochs")
        time.sleep(0.01)
    time.sleep(0.2 * json.loads(log.read_text().splitlines()[-1])["seconds"])
    process.send_signal(signal.SIGKILL)
    process.wait()


def finish(process: subprocess.Popen[bytes]) -> None:
    if process.wait():
        sys.exit("the run failed")


def measure(options: argparse.Namespace, home: Path) -> dict[str, Any]:
    changes = ["--set", f"stage1.epochs={options.epochs}", "--set", f"stage2.epochs={options.stage2_epochs}"]
    changes += [word for setting in options.settings for word in ("--set", setting)]
    start = ["train", options.recipe, "--root", options.root, "--device", options.device, *changes]
    whole, killed = home / "undisturbed", home / "killed"
    finish(tailcloud(*start, "--out", str(whole)))
    kill_at(tailcloud(*start, "--out", str(killed)), killed, options.epochs // 2)
    kill_at(tailcloud("train", "--resume", "--out", str(killed)), killed, options.epochs + options.stage2_epochs // 2)
    finish(tailcloud("train", "--resume", "--out", str(killed)))
    first, second = (load_file(folder / "model.safetensors") for folder in (whole, killed))
    results = [RunFolder(folder).result() for folder in (whole, killed)]
    command = [sys.executable, "-m", "tailcloud", "evaluate", str(killed), "--device", options.device, "--json"]
    again = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return {
        "recipe": options.recipe,
        "settings": options.settings,
        "epochs": [options.epochs, options.stage2_epochs],
        "fingerprint": results[0].dataset.fingerprint,
        "same_weights": all(torch.equal(first[name], second[name]) for name in first),
        "largest_difference": max(float((first[name] - second[name]).abs().max()) for name in first),
        "top1": {
            "undisturbed": results[0].top1.last,
            "killed": results[1].top1.last,
            "evaluate": again["top1"],
        },
        "seconds_per_epoch": [(stage.seconds or 0) / stage.epochs for stage in results[0].stages],
        "machine": results[0].machine,
        "commit": commit(),
    }


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory() as home:
        record = measure(options, Path(home))
    print(f"machine       {machine(torch.device(options.device))['gpu'] or record['machine']['processor']}")
    print(f"same weights  {record['same_weights']} (largest difference {record['largest_difference']:g})")
    print(f"top-1         {record['top1']}")
    print(f"s / epoch     {', '.join(f'{seconds:.2f}' for seconds in record['seconds_per_epoch'])}")
    name = f"resume-{options.recipe.replace('/', '-')}-{options.device}.json"
    target = options.write or RESULTS / name
    target.parent.mkdir(parents=True, exist_ok=True)
    write_json(target, record)
    print(f"record        {target}")
    sys.exit(0 if record["same_weights"] else 1)


if __name__ == "__main__":
    main()
