"""The records of benchmarks/auto_recipe.py as tables for docs/results.md."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from tailcloud.formatting import duration
from tailcloud.reporting.tables import markdown, mean_std

HEAD = ("recipe", "model", "epochs", "top-1", "many", "medium", "few", "earlier stages", "whole command")


def parts(records: Sequence[dict[str, Any]]) -> list[str]:
    """For every record: the data and the machine, and a row for each recipe."""
    lines: list[str] = []
    for record in records:
        rows = [row(name, runs) for name, runs in record["runs"].items()]
        lines += [origin(record), "", markdown(HEAD, rows), ""]
    return lines[:-1]


def origin(record: dict[str, Any]) -> str:
    """What was trained on, where, and with what budget."""
    first = record["runs"]["chosen"][0]
    counts = first["counts"]
    return (
        f"**{record['data']}**: {sum(counts):,} training images of {len(counts)} classes, {max(counts)} to "
        f"{min(counts)} each, and {first['images']['test']:,} test images; budget {record['budget']}; "
        f"{place(record)}, commit `{record['commit']}`."
    )


def place(record: dict[str, Any]) -> str:
    """The machine: its GPU, or its cores and how busy they were."""
    about = record["machine"]
    if about.get("gpu"):
        return f"one {about['gpu']}"
    return f"{about['processor']}, {about['threads']} thread, load {record['busy']:.1f} on {about['cores']} cores"


def row(name: str, runs: Sequence[dict[str, Any]]) -> list[str]:
    """A recipe, over its seeds."""
    first = runs[0]
    figures = [mean_std([run[key] for run in runs]).text() for key in ("top1", "many", "medium", "few")]
    epochs = " / ".join(dict.fromkeys(" + ".join(str(each) for each in run["epochs"] if each) for run in runs))
    time = duration(fmean(run["seconds"] for run in runs))
    model = f"{first['backbone']}, {first['size']} pixels"
    return [f"{name}{method(runs)}", model, epochs, *figures, before(runs), time]


def method(runs: Sequence[dict[str, Any]]) -> str:
    """The chosen methods, where the record has them."""
    names = dict.fromkeys(f"`{run['method']}`" for run in runs if "method" in run)
    return f" ({', '.join(names)})" if names else ""


def before(runs: Sequence[dict[str, Any]]) -> str:
    """Top-1 after the earlier stages, in order, where the record has it."""
    earlier = zip(*(run.get("after", [0.0])[:-1] for run in runs), strict=True)
    return ", ".join(mean_std(values).text() for values in earlier)
