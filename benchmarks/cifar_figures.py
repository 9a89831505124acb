"""The paper's figures 1 and 4, and softmax saturation, on CIFAR-10-LT: three runs, their pages, pictures and a record.

    python benchmarks/cifar_figures.py --root data --keep FOLDER                the whole recipe, on a GPU
    python benchmarks/cifar_figures.py --root data --keep FOLDER --epochs 40    a shorter one, for a CPU

Cross-entropy, GCL, and GCL without clouds in its first stage; all first stages without mixup, which hides saturation.
What is in FOLDER already is continued or taken. Pictures need chromium; without it, run the command again on a machine
that has it.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from measurement import RESULTS
from tutorial_output import DOCS, take_picture

from tailcloud.files import write_json
from tailcloud.profile import GROUPS
from tailcloud.reporting.embedding_page import MEASURES, embed_runs, write_embedding
from tailcloud.reporting.figures.embedding_maps import SPLITS
from tailcloud.reporting.run_record import RunRecord, read_run
from tailcloud.runs.folder import RunFolder
from tailcloud.training.devices import pick_device

SPEC = "cifar10-lt:100"
RUNS: dict[str, tuple[str, tuple[str, ...]]] = {  # name → recipe, settings
    "ce": ("cifar10-lt/ce", ()),
    "gcl": ("cifar10-lt/gcl", ("stage1.mixup=0.0",)),
    "no-clouds": ("cifar10-lt/gcl", ("stage1.mixup=0.0", "stage1.loss.noise=0.0")),
}
EMBEDDED = ("ce", "gcl")
WHOLE, SECOND = 200, 30  # epochs of the recipe
NOT_THE_CURVES = "main > section > :not(.grid), .grid > :not(:last-child)"
PICTURES = {
    "embedding-cifar10.png": ("embedding.html", ("test",), ""),
    "saturation-cifar10.png": ("saturation.html", ("data-1",), NOT_THE_CURVES),
}


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", required=True, help="the folder with CIFAR-10")
    parser.add_argument("--keep", type=Path, required=True, metavar="FOLDER", help="where runs and pages go")
    parser.add_argument("--epochs", type=int, default=WHOLE, help="of the first stage; the second has their share")
    parser.add_argument("--every", type=int, default=5, help="epochs between two evaluations")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", type=Path, default=RESULTS / "cifar-figures.json")
    parser.add_argument("--images", type=Path, default=DOCS / "images")
    options = parser.parse_args(words)
    folders = {name: options.keep / name for name in RUNS}
    for name, folder in folders.items():
        train(name, folder, options)
    device = pick_device(options.device)
    write_embedding([folders[name] for name in EMBEDDED], options.keep / "embedding.html", options.root, device)
    tailcloud("report", *map(str, folders.values()), "--out", str(options.keep / "saturation.html"))
    write_json(options.write, record(folders, options.root, device))
    for image, (page, sections, without) in PICTURES.items():
        take_picture(options.keep / page, sections, without, options.images / image)


def train(name: str, folder: Path, options: argparse.Namespace) -> None:
    """Train one of the runs, or continue it; a finished one is left alone."""
    if RunFolder(folder).finished:
        return
    if RunFolder(folder).exists:
        tailcloud("train", "--resume", "--out", str(folder))
        return
    recipe, settings = RUNS[name]
    epochs = [f"stage1.epochs={options.epochs}"]
    if recipe != "cifar10-lt/ce":
        epochs.append(f"stage2.epochs={max(1, round(options.epochs * SECOND / WHOLE))}")
    logged = ["logging.gradients=true", f"selection.every={options.every}"]
    chosen = [word for setting in (*settings, *epochs, *logged) for word in ("--set", setting)]
    place = ["--data", SPEC, "--root", options.root, "--device", options.device, "--out", str(folder)]
    tailcloud("train", recipe, *place, *chosen)


def tailcloud(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "tailcloud", *words], check=True)


def record(folders: dict[str, Path], root: str, device: torch.device) -> dict[str, Any]:
    """Each run with its accuracies and the gradients of its first stage; the measures of the embeddings."""
    runs = {name: read_run(folder) for name, folder in folders.items()}
    embedded = embed_runs([folders[name] for name in EMBEDDED], root, device)
    return {
        "format": 1,
        "data": SPEC,
        "fingerprint": runs["ce"].result.dataset.fingerprint,
        "runs": [described(name, run) for name, run in runs.items()],
        "embeddings": [
            {"run": name, "split": split, "measures": {measure: one.groups(split, measure) for measure in MEASURES}}
            for name, one in zip(EMBEDDED, embedded, strict=True)
            for split in SPLITS
        ],
        "machine": runs["ce"].result.machine,
        "commit": runs["ce"].result.commit,
    }


def described(name: str, run: RunRecord) -> dict[str, Any]:
    """A run: its command, its accuracies, and each class's gradient on the target logit after its first stage."""
    result = run.result
    first = [epoch for epoch in run.log if epoch.stage == "stage1" and epoch.gradients]
    return {
        "run": name,
        "command": result.command,
        "seed": result.protocol.seed,
        "epochs": [stage.epochs for stage in result.stages],
        "top1": result.top1.last,
        **{group: getattr(result, group) for group in GROUPS},
        "counts": result.dataset.counts,
        "gradients": first[-1].gradients,
    }


if __name__ == "__main__":
    main()
