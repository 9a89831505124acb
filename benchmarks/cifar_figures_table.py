"""The record of benchmarks/cifar_figures.py as tables for docs/figures.md."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcloud.evaluation.embeddings import by_group
from tailcloud.formatting import number
from tailcloud.reporting.embedding_page import MEASURES
from tailcloud.reporting.tables import markdown

NAMES = {"ce": "cross-entropy", "gcl": "GCL", "no-clouds": "GCL without clouds in stage 1"}
GROUPS = ("many", "medium")  # CIFAR-10-LT has no class of fewer than 20 images
GRADIENTS = (
    "run",
    "top-1",
    "many-shot",
    "medium-shot",
    *(f"gradient, {group}-shot" for group in GROUPS),
    "rarest class",
)
EMBEDDINGS = ("embedding of", "images of", "classes", "within", "between", "ratio", "near own")
SPLITS = {"train": "training", "test": "test"}


def parts(record: Mapping[str, Any]) -> list[str]:
    """What the runs reached, with their gradients; the measures of the embeddings; where it was measured."""
    machine = record["machine"]
    gpu = machine.get("gpu") or machine["processor"]
    seeds = {str(run["seed"]) for run in record["runs"]}
    epochs = " or ".join(dict.fromkeys(" + ".join(map(str, run["epochs"])) for run in record["runs"]))
    images = f"`{record['data']}`, fingerprint `{record['fingerprint']}`"
    rows = [row for each in record["embeddings"] for row in embedding_rows(each)]
    return [
        markdown(GRADIENTS, map(gradient_row, record["runs"])),
        "",
        markdown(EMBEDDINGS, rows),
        "",
        f"- {images}, seed {', '.join(sorted(seeds))}, {epochs} epochs",
        f"- {gpu}, torch {machine['torch']}, commit `{record['commit']}`",
    ]


def gradient_row(run: Mapping[str, Any]) -> list[str]:
    """A run: its accuracies, and the mean gradient on the target logit at the end of its first stage."""
    values: NDArray[np.float64] = np.array(run["gradients"], dtype=float)
    gradients = by_group(values, run["counts"])
    rarest = values[int(np.argmin(run["counts"]))]
    accuracies = [number(run[name], 1) for name in ("top1", *GROUPS)]
    return [NAMES[run["run"]], *accuracies, *(number(gradients[group], 3) for group in GROUPS), number(rarest, 3)]


def embedding_rows(embedding: Mapping[str, Any]) -> list[list[str]]:
    """Each shot group of an embedding, and all classes, with its measures."""
    measures = embedding["measures"]
    about = [NAMES[embedding["run"]], SPLITS[embedding["split"]]]
    return [
        [*about, group, *(number(measures[name][group], digits) for name, digits in MEASURES.items())]
        for group in (*GROUPS, "all")
    ]
