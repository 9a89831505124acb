"""The records of runs with held-out images as a table for docs/predict.md."""

from collections.abc import Iterator, Sequence
from typing import Any

from tailcloud.formatting import number
from tailcloud.reporting.tables import markdown
from tailcloud.runs.result import AccuracyAtPrior, Result, parse_result

MIXES = ("forward", "uniform", "backward")
HEADER = ("method", "T", "ECE before", "ECE after", *(f"{mix}, plain → adjusted" for mix in MIXES))


def parts(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """For every data set: where it was measured, and a row for each run."""
    results = [parse_result(record) for record in records]
    for spec in dict.fromkeys(result.dataset.spec for result in results):
        mine = [result for result in results if result.dataset.spec == spec]
        yield f"{origin(mine)}\n"
        yield markdown(HEADER, map(row, mine))


def origin(results: Sequence[Result]) -> str:
    """The data, how much of it was held out, and the machine."""
    first = results[0]
    images, machine = first.dataset.images, first.machine.get("gpu") or first.machine["processor"]
    seeds = ", ".join(map(str, dict.fromkeys(result.protocol.seed for result in results)))
    commits = ", ".join(dict.fromkeys(f"`{result.commit}`" for result in results))
    return (
        f"**{first.dataset.spec}**, seed {seeds}: {images['train']:,} images to train on, {images['val']:,} held "
        f"out, {images['test']:,} test images; percent, the last epoch, on {machine}, commit {commits}."
    )


def row(result: Result) -> list[str]:
    """A run: its temperature, ECE before and after, and its accuracy under three class frequencies."""
    calibrated, priors = result.calibrated, result.priors
    assert calibrated is not None
    assert priors is not None
    errors = [number(calibrated.before.ece, 1), number(calibrated.ece, 1)]
    mixes: list[AccuracyAtPrior] = [getattr(priors, mix) for mix in MIXES]
    accuracies = [f"{number(mix.plain, 1)} → {number(mix.adjusted, 1)}" for mix in mixes]
    return [f"`{result.method}`", number(calibrated.temperature, 2), *errors, *accuracies]
