"""How many wrong labels ``tailcloud review`` finds, if one puts them there.

python benchmarks/wrong_labels.py FOLDER [--seeds 3] [--out benchmarks/results/wrong-labels-NAME.json]

The training images of FOLDER, all of them and a long-tailed part (200 images of the largest class down to 4 of the
smallest): in each class 5 % of the labels, at least one, are made wrong by taking images of other classes. Then every
image is predicted by a head that was not trained on it, as the verb does. Images of FOLDER that had a wrong label
before count as right ones, so the true precision is higher.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measurement import RESULTS, write_record
from numpy.typing import NDArray

from tailcloud.data import Dataset
from tailcloud.data.splits import Vector, positions_by_class
from tailcloud.launch.run_data import open_data
from tailcloud.profile import FEW_BELOW
from tailcloud.recipe import load_recipe
from tailcloud.reporting.tables import markdown
from tailcloud.review.confident_learning import HeldOutPredictions, find_suspects
from tailcloud.review.cross_validation import head_recipe, predict_held_out

RATE, SIDE = 0.05, 128
LARGEST, SMALLEST = 200, 4  # images of a class of the long-tailed part
HEAD = ("images", "classes", "wrong labels", "suspects", "wrong labels among them", "among the first", "by margin")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    settings = {"data": {"spec": str(options.folder), "size": SIDE}, "selection": {"split": 0.0}}
    recipe = load_recipe("own/ce", [settings])
    whole, rows = open_data(recipe), []
    for seed in range(options.seeds):
        for name, dataset in {"all": whole, "long-tailed": long_tailed(whole, seed)}.items():
            right = dataset.train.labels
            given = with_wrong_labels(right, dataset.classes, seed)
            noisy = replace(dataset, train=replace(dataset.train, labels=given))
            heads = head_recipe(recipe, len(given) + len(dataset.test), SIDE)
            alone = np.arange(len(given) + len(dataset.test))
            predictions = first_of(predict_held_out(heads, noisy, device, alone, print), len(given))
            rows += [{"part": name, "seed": seed, **row} for row in measure(predictions, given, right, dataset.classes)]
            print(*rows[-2:], sep="\n", flush=True)
    out = options.out or RESULTS / f"wrong-labels-{options.folder.name}.json"
    write_record(out, {"data": options.folder.name, "rate": RATE, "side": SIDE, "rows": rows}, device)


def long_tailed(dataset: Dataset, seed: int) -> Dataset:
    """A part of the training images: the largest class has ``LARGEST``, the smallest ``SMALLEST``."""
    random, members = np.random.RandomState(seed), positions_by_class(dataset.train.labels, dataset.classes)
    order = sorted(range(dataset.classes), key=lambda c: -len(members[c]))
    wanted = np.geomspace(LARGEST, SMALLEST, dataset.classes).round().astype(int).tolist()
    kept = [random.permutation(members[c])[:count] for c, count in zip(order, wanted, strict=True)]
    return replace(dataset, train=dataset.train.take(np.sort(np.concatenate(kept))))


def with_wrong_labels(labels: Vector, classes: int, seed: int) -> Vector:
    """The labels with ``RATE`` wrong ones in each class, at least one, the rarest class first; none is emptied."""
    random, given, left = np.random.RandomState(seed), labels.copy(), np.bincount(labels, minlength=classes)
    counts = left.copy()
    for c in np.argsort(counts, kind="stable").tolist():
        for image in random.permutation(np.flatnonzero((labels != c) & (given == labels))):
            if ((given == c) & (labels != c)).sum() >= max(1, round(RATE * counts[c])):
                break
            if left[labels[image]] > 2 * SMALLEST:
                given[image], left[labels[image]] = c, left[labels[image]] - 1
    return given


def first_of(predictions: HeldOutPredictions, images: int) -> HeldOutPredictions:
    """The predictions for the training images, which come first."""
    return HeldOutPredictions(*(each[:images] for each in vars(predictions).values()))


def measure(predictions: HeldOutPredictions, given: Vector, right: Vector, classes: int) -> list[dict[str, Any]]:
    """For all images, and for those labelled as a tail class: suspects, and wrong labels among them."""
    counts, wrong = np.bincount(given, minlength=classes), given != right
    suspects = find_suspects(predictions, given, classes)
    margin = predictions.probability - predictions.label_probability
    by_margin = suspects[np.argsort(-margin[suspects], kind="stable")]
    tail = counts[given] < FEW_BELOW
    return [
        {"labelled": name, "images": int(some.sum()), "wrong": int((wrong & some).sum())}
        | {"suspects": int(some[suspects].sum()), "found": int((wrong & some)[suspects].sum())}
        | {"first": found_first(suspects, wrong, some), "first_by_margin": found_first(by_margin, wrong, some)}
        for name, some in {"all": np.ones(len(given), bool), "tail": tail}.items()
    ]


def found_first(suspects: Vector, wrong: NDArray[np.bool_], some: NDArray[np.bool_]) -> int:
    """Wrong labels among the first suspects, if as many are looked at as there are wrong labels."""
    return int(wrong[suspects[some[suspects]][: (wrong & some).sum()]].sum())


def parts(records: Sequence[dict[str, Any]]) -> list[str]:
    """Tables for docs/review.md: all seeds together."""
    lines: list[str] = []
    for record in records:
        kinds: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for row in record["rows"]:
            kinds.setdefault((row["part"], row["labelled"]), []).append(row)
        table, about = [cells(*kind, rows) for kind, rows in kinds.items()], record["machine"]
        seeds = 1 + max(row["seed"] for row in record["rows"])
        lines += [markdown(HEAD, table), ""]
        lines.append(
            f"{record['data']}, features of EfficientNet-Lite0 at {record['side']} pixels, {seeds} seeds together; "
            f"torch {about['torch']}, commit `{record['commit']}`."
        )
    return lines


def cells(part: str, labelled: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    """A row of the table."""
    total = {key: sum(row[key] for row in rows) for key in ("wrong", "suspects", "found", "first", "first_by_margin")}
    shares = [f"{total[key]} ({100 * total[key] / total['wrong']:.0f} %)" for key in list(total)[2:]]
    classes = "all" if labelled == "all" else f"fewer than {FEW_BELOW} images"
    images = f"{part}, {np.mean([row['images'] for row in rows]):,.0f}"
    return [images, classes, f"{total['wrong']}", f"{total['suspects']}", *shares]


if __name__ == "__main__":
    main()
