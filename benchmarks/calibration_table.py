"""The records of runs with held-out images as a table for docs/predict.md."""

from collections.abc import Iterator, Sequence
from typing import Any

from tailcloud.formatting import number
from tailcloud.reporting.tables import markdown

MIXES = ("forward", "uniform", "backward")
HEADER = ("method", "T", "ECE before", "ECE after", *(f"{mix}, plain → adjusted" for mix in MIXES))


def parts(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """For every data set: where it was measured, and a row for each run."""
    for spec in dict.fromkeys(record["dataset"]["spec"] for record in records):
        mine = [record for record in records if record["dataset"]["spec"] == spec]
        yield f"{origin(mine)}\n"
        yield markdown(HEADER, map(row, mine))


def origin(records: Sequence[dict[str, Any]]) -> str:
    """The data, how much of it was held out, and the machine."""
    first = records[0]
    images, machine = first["dataset"]["images"], first["machine"].get("gpu") or first["machine"]["processor"]
    seeds = ", ".join(map(str, dict.fromkeys(record["protocol"]["seed"] for record in records)))
    commits = ", ".join(dict.fromkeys(f"`{record['commit']}`" for record in records))
    return (
        f"**{first['dataset']['spec']}**, seed {seeds}: {images['train']:,} images to train on, {images['val']:,} held "
        f"out, {images['test']:,} test images; percent, the last epoch, on {machine}, commit {commits}."
    )


def row(record: dict[str, Any]) -> list[str]:
    """A run: its temperature, ECE before and after, and its accuracy under three class frequencies."""
    calibrated, priors = record["calibrated"], record["priors"]
    errors = [number(calibrated["before"]["ece"], 1), number(calibrated["ece"], 1)]
    accuracies = [f"{number(priors[mix]['plain'], 1)} → {number(priors[mix]['adjusted'], 1)}" for mix in MIXES]
    return [f"`{record['method']}`", number(calibrated["temperature"], 2), *errors, *accuracies]
