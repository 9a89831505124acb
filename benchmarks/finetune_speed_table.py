"""The record of benchmarks/finetune_speed.py as tables for docs/performance.md."""

from collections.abc import Sequence
from typing import Any

from tailcloud.formatting import NOT_MEASURED, duration, number
from tailcloud.reporting.tables import markdown

ABOUT_STEPS = (
    "size",
    "batch",
    "trivial_augment",
    "ratio",
    "machine",
    "commit",
    "epochs",
    "images",
)  # the rest are rates
COMMANDS = ("whole command", "wall clock", "memory, GB")
NAMES = {"plain": "plain script, eager", "tailcloud": "`tailcloud train`"}


def parts(record: dict[str, Any]) -> list[str]:
    """Steps, and whole commands once these are measured; each with its origin."""
    rows = record["images_per_second"]
    ways = list(dict.fromkeys(name for row in rows for name in row if name not in ABOUT_STEPS))
    header = ["images a second: pixels, batch, augmentation", *ways, f"{ways[-1]} against {ways[0]}"]
    origins: dict[str, list[str]] = {}
    for row in rows:
        origins.setdefault(origin(row), []).append(f"{row['size']} pixels")
    lines = [f"- {', '.join(dict.fromkeys(sizes))}: m{one[1:]}" for one, sizes in origins.items()]
    steps = [markdown(header, [step(row, ways) for row in rows]), "", *(lines if len(lines) > 1 else origins)]
    return [*steps, *commands(record["whole_commands"])] if "whole_commands" in record else steps


def step(row: dict[str, Any], ways: Sequence[str]) -> list[str]:
    augmentation = "crops, flips, colours" + (", TrivialAugment" if row["trivial_augment"] else "")
    rates, ratio = [number(row.get(way), 0) for way in ways], row.get("ratio")
    name = f"{row['size']}, {row['batch']}, {augmentation}"
    return [name, *rates, NOT_MEASURED if ratio is None else f"× {number(ratio, 2)}"]


def commands(found: dict[str, Any]) -> list[str]:
    """A whole fine-tuning by a plain script and by tailcloud."""
    rows = []
    for key, name in NAMES.items():
        memory = found[key]["memory"]
        rows.append([name, duration(found[key]["wall"]), number(None if memory is None else memory / 1e9)])
    what = f"{found['epochs']} epochs of {found['images']:,} images at {found['size']} pixels, batch {found['batch']}"
    return ["", f"{what}:", "", markdown(COMMANDS, rows), "", origin(found)]


def origin(found: dict[str, Any]) -> str:
    about = found["machine"]
    where = about["gpu"] or about["processor"]
    return f"Measured on {where}, {about['cores']} cores, torch {about['torch']}, commit `{found['commit']}`."
