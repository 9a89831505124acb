"""Plausible run folders without training: accuracies fall with the training images, and stage 2 lifts the tail."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

GROUPS = ("many", "medium", "few")


def long_tail(classes: int) -> list[int]:
    largest, ratio = (120, 50) if classes <= 20 else (1280, 256)
    return [int(largest * (1 / ratio) ** (index / max(1, classes - 1))) for index in range(classes)]


def group_of(count: int) -> str:
    return "many" if count > 100 else "few" if count < 20 else "medium"


def confusion_matrix(counts: list[int], lift: float, per_class: int, random: np.random.Generator) -> np.ndarray:
    classes = len(counts)
    skill = np.clip(
        0.4 + 0.5 * np.log1p(counts) / np.log1p(max(counts)) + lift * (1 - np.array(counts) / max(counts)), 0, 1
    )
    skill = np.clip(skill + random.normal(0, 0.06, classes), 0, 1)
    matrix = np.zeros((classes, classes), dtype=int)
    towards_head = np.array(counts, dtype=float) / sum(counts)
    for true in range(classes):
        right = random.binomial(per_class, skill[true] * 0.97)
        chance = towards_head.copy()
        chance[true] = 0
        matrix[true] = random.multinomial(per_class - right, chance / max(chance.sum(), 1e-9)) if classes > 1 else 0
        matrix[true, true] += right
    return matrix


def scores(counts: list[int], matrix: np.ndarray, random: np.random.Generator) -> dict[str, Any]:
    per_class = 100 * matrix.diagonal() / matrix.sum(axis=1)
    groups = np.array([group_of(count) for count in counts])
    f1 = 200 * matrix.diagonal() / (matrix.sum(axis=0) + matrix.sum(axis=1))
    return {
        "top1": float(100 * matrix.diagonal().sum() / matrix.sum()),
        "top5": float(min(100, per_class.mean() + 6)),
        "balanced_accuracy": float(per_class.mean()),
        "macro_f1": float(f1.mean()),
        **{name: float(per_class[groups == name].mean()) if (groups == name).any() else None for name in GROUPS},
        "per_class": per_class.tolist(),
        "ece": float(random.uniform(2, 9)),
        "reliability": reliability(matrix.sum(), random),
    }


def reliability(images: int, random: np.random.Generator) -> list[dict[str, Any]]:
    bins = random.dirichlet(np.arange(1, 16) ** 2) * images
    middle = (np.arange(15) + 0.5) / 15
    return [
        {
            "count": int(n),
            "confidence": float(m) if n >= 1 else None,
            "accuracy": float(max(0, m - 0.08)) if n >= 1 else None,
        }
        for n, m in zip(bins, middle, strict=True)
    ]


def in_use(counts: list[int], top1: float, random: np.random.Generator) -> dict[str, Any]:
    """What a model is worth in use: calibrated confidences, and other mixes of classes."""

    def calibration() -> dict[str, Any]:
        return {"ece": float(random.uniform(2, 9)), "reliability": reliability(500, random)}

    present = {group_of(count) for count in counts}
    groups = {
        name: {when: calibration() if name in present else None for when in ("before", "after")} for name in GROUPS
    }
    fitted = {"temperature": 1.5, "fitted_on": "val", "images": 71}
    mixes = {
        name: {"plain": top1 + shift, "adjusted": top1 + shift + 1}
        for name, shift in (("forward", 5.0), ("uniform", 0.0), ("backward", -5.0))
    }
    return {
        "calibrated": {**fitted, **calibration(), "before": calibration(), "groups": groups},
        "priors": {"assumed": "uniform", **mixes},
    }


def make_result(
    classes: int = 10, *, method: str = "gcl", seed: int = 0, stages: int = 2, picked_on: str = "", **dataset: Any
) -> dict[str, Any]:
    random = np.random.default_rng([classes, seed, sum(map(ord, method))])
    counts = dataset.pop("counts", long_tail(classes))
    per_class = 50 if classes <= 100 else 20
    lifts = [0.0, 0.15 + len(method) / 100][:stages] if stages > 1 else [-0.1]
    matrices = [confusion_matrix(counts, lift, per_class, random) for lift in lifts]
    records = [scores(counts, matrix, random) for matrix in matrices]
    last, matrix = records[-1], matrices[-1]
    epochs = [60, 10][:stages]
    picked = [
        {"picked": {"epoch": epoch, "on": picked_on, **scores(counts, matrix, random)}} if picked_on else {}
        for epoch, matrix in zip((40, 7), matrices, strict=False)
    ]
    return {
        "format": 1,
        "method": method,
        **last,
        "top1": {
            "last": last["top1"],
            "best": min(100.0, last["top1"] + 0.4),
            "best_on": "test",
            "best_epoch": {"stage": f"stage{stages}", "epoch": 7},
        },
        "top_k": min(5, classes),
        **picked[-1],
        **in_use(counts, last["top1"], random),
        "confusion": [[int(t), int(p), int(matrix[t, p])] for t, p in np.argwhere(matrix)],
        "stages": [
            {"name": f"stage{place + 1}", "epochs": epochs[place], **record, "seconds": 4.2 / (place + 1)}
            | {"best": {"epoch": 7, "top1": record["top1"] + 0.4, "on": "test"}}
            | picked[place]
            for place, record in enumerate(records)
        ],
        "dataset": {
            "spec": f"synthetic-{classes}",
            "fingerprint": "0123456789abcdef",
            "counts": counts,
            "class_names": [f"class {index}" if classes > 10 else str(index) for index in range(len(counts))],
            "images": {"train": sum(counts), "val": 0, "test": per_class * len(counts)},
            "shape": [8, 8, 1],
            **dataset,
        },
        "protocol": {
            "seed": seed,
            "selection": f"best on {picked_on}" if picked_on else "last",
            "split": 0.0,
            "every": 1,
        },
        "model": {"backbone": "resnet8", "head": "cosine", "width": 1.0, "parameters": 77824, "flops": 1234567},
        "remarks": ["class 9: a single training image; accuracy depends on that image."],
        "seconds": 4.9,
        "device": "cpu",
        "version": "0.1.0",
        "machine": {
            "processor": "a processor",
            "cores": 2,
            "threads": 2,
            "gpu": None,
            "python": "3.11.9",
            "torch": "2.13.0",
        },
        "commit": None,
        "command": f"tailcloud train --data synthetic-{classes} --set method={method} --seed {seed}",
        "finished": "2026-11-15T09:00:00+00:00",
        "a key of the future": {"ignored": True},
    }


def make_log(result: dict[str, Any]) -> list[dict[str, Any]]:
    lines = []
    for place, stage in enumerate(result["stages"]):
        for epoch in range(1, stage["epochs"] + 1):
            share = 1 - np.exp(-4 * epoch / stage["epochs"])
            line = {
                "format": 1,
                "stage": stage["name"],
                "epoch": epoch,
                "lr": 0.1 * (0.02 if place else 1) * (0.1 if epoch > 0.8 * stage["epochs"] else 1),
            }
            line |= {"loss": float(2.5 - 2 * share) / (place + 1), "seconds": 0.07}
            if epoch % 2 == 0 or epoch == stage["epochs"]:
                before = result["stages"][0] if place else None
                for key in ("top1", *GROUPS):
                    end, start = stage[key], before[key] if before else 0
                    line[key] = None if end is None else float(start + (end - start) * share)
            lines.append(line)
    return lines


def write_examples(
    folder: Path, pairs: list[tuple[int, int]], shape: tuple[int, int, int] = (8, 8, 1)
) -> dict[str, np.ndarray]:
    """Random images of the (true, predicted) classes, as a run keeps them."""
    images = np.random.default_rng(0).integers(0, 256, (len(pairs), *shape), dtype=np.uint8)
    true, predicted = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
    content = {"images": images, "true": true, "predicted": predicted}
    save_file(content, folder / "examples.safetensors", {"format": "1"})
    return content


def write_all_examples(folder: Path, classes: int, side: int = 8) -> dict[str, np.ndarray]:
    """Random images of every kind, as a run keeps them: an error, confident errors, uncertain images, samples."""
    random = np.random.default_rng(0)
    kind = np.repeat(np.arange(4), [1, 2, 2, classes])
    true = np.concatenate([[classes - 1, 0, 1 % classes, 0, classes - 1], np.arange(classes)])
    content = {
        "images": random.integers(0, 256, (len(kind), 8, 8, 3), dtype=np.uint8),
        "true": true,
        "predicted": np.where((kind < 2) & (classes > 1), (true + 1) % classes, true),
        "confidence": np.linspace(0.99, 0.11, len(kind)).astype(np.float32),
        "kind": kind,
        "seen": random.integers(0, 256, (2, side, side, 3), dtype=np.uint8),
        "seen_true": np.array([0, classes - 1]),
    }
    save_file(content, folder / "examples.safetensors", {"format": "1"})
    return content


def with_test_counts(result: dict[str, Any]) -> dict[str, Any]:
    """The result with the test images of each class, as newer runs record them."""
    tested = np.zeros(len(result["dataset"]["counts"]), dtype=int)
    for true, _, images in result["confusion"]:
        tested[true] += images
    result["dataset"]["test_counts"] = tested.tolist()
    return result


def write_run(folder: Path, result: dict[str, Any], log: list[dict[str, Any]] | None = None) -> Path:
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(result))
    lines = make_log(result) if log is None else log
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    seed = result["protocol"]["seed"] or 0  # an average has none
    method = json.dumps(result["method"])
    recipe = f"# resolved\nformat = 1\nmethod = {method}\nseed = {seed}\n\n[stage1]\nepochs = 60\nbatch = 64\n"
    (folder / "recipe.toml").write_text(recipe)
    return folder
