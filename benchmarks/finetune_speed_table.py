"""The record of benchmarks/finetune_speed.py as tables for docs/performance.md."""

from collections.abc import Sequence
from typing import Any

from tailcloud.formatting import duration, number
from tailcloud.reporting.tables import markdown

ABOUT_STEPS = ("size", "batch", "trivial_augment", "ratio")  # every other field is images a second by some way
COMMANDS = ("whole command", "wall clock", "memory, GB")
NAMES = {"plain": "plain script, eager", "tailcloud": "`tailcloud train`"}


def parts(record: dict[str, Any]) -> list[str]:
    """Steps, and whole commands once these are measured; each with its origin."""
    rows = record["images_per_second"]
    ways = [name for name in rows[0] if name not in ABOUT_STEPS]
    header = ["images a second: pixels, batch, augmentation", *ways, f"{ways[-1]} against {ways[0]}"]
    steps = [markdown(header, [step(row, ways) for row in rows]), "", origin(record)]
    return [*steps, *commands(record["whole_commands"])] if "whole_commands" in record else steps


def step(row: dict[str, Any], ways: Sequence[str]) -> list[str]:
    augmentation = "crops, flips, colours" + (", TrivialAugment" if row["trivial_augment"] else "")
    rates = [number(row[way], 0) for way in ways]
    return [f"{row['size']}, {row['batch']}, {augmentation}", *rates, f"× {number(row['ratio'], 2)}"]


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
