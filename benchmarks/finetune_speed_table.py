"""The record of benchmarks/finetune_speed.py as tables for docs/performance.md."""

from typing import Any

from tailcloud.formatting import duration, number
from tailcloud.reporting.tables import markdown

STEPS = ("pixels, batch, augmentation", "eager, images a second", "CUDA graph, images a second", "ratio")
COMMANDS = ("whole command", "wall clock", "memory, GB")
NAMES = {"plain": "plain script, eager", "tailcloud": "`tailcloud train`"}


def parts(record: dict[str, Any]) -> list[str]:
    """Steps, and whole commands once these are measured; each with its origin."""
    steps = [markdown(STEPS, [step(row) for row in record["images_per_second"]]), "", origin(record)]
    return [*steps, *commands(record["whole_commands"])] if "whole_commands" in record else steps


def step(row: dict[str, Any]) -> list[str]:
    augmentation = "crops, flips, colours" + (", TrivialAugment" if row["trivial_augment"] else "")
    rates = [number(row[executor], 0) for executor in ("eager", "graphed")]
    return [f"{row['size']}, {row['batch']}, {augmentation}", *rates, number(row["ratio"], 2)]


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
