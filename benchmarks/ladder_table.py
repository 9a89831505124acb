"""The records of benchmarks/ladder.py as a table for docs/results.md: each rung on tuning images."""

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from tailcloud.bench import read_table
from tailcloud.formatting import NOT_MEASURED, number
from tailcloud.reporting.tables import markdown

Run = dict[str, Any]
GROUPS = ("many", "medium", "few")


def parts(records: Sequence[dict[str, Any]]) -> list[str]:
    """A row for each rung, with columns for each data set; then where it was measured."""
    titles = {(run["row"], *run["changed"]): title_of(run) for run in in_order(records)}
    header = ["", *(name for record in records for name in columns_of(record))]
    rows = [[title, *(cell for record in records for cell in cells(record, key))] for key, title in titles.items()]
    return [markdown(header, rows), "", *map(place, records)]


def in_order(records: Sequence[dict[str, Any]]) -> list[Run]:
    """All runs, by their rung."""
    places = {row.key: number for number, row in enumerate(read_table("ladder").rows)}
    runs = [run for record in records for run in record["runs"]]
    return sorted(runs, key=lambda run: (places.get(run["row"], len(places)), run["changed"]))


def title_of(run: Run) -> str:
    """The rung, and what was changed."""
    return ", ".join([run["label"], *(f"`{setting}`" for setting in run["changed"])])


def columns_of(record: dict[str, Any]) -> list[str]:
    """Of a data set; groups that have no classes there are left out."""
    return [f"`{record['data']}`", "after stage 1", *groups_of(record)]


def groups_of(record: dict[str, Any]) -> list[str]:
    return [name for name in GROUPS if any(run[name] is not None for run in record["runs"])]


def cells(record: dict[str, Any], key: tuple[str, ...]) -> list[str]:
    """Balanced accuracy at the end, after the first of two stages, and of each group."""
    runs = [run for run in record["runs"] if (run["row"], *run["changed"]) == key]
    if not runs:
        return [NOT_MEASURED] * len(columns_of(record))
    two_stages = len(runs[0]["stages"]) > 1
    first = mean([run["stages"][0]["balanced_accuracy"] for run in runs]) if two_stages else ""
    groups = [mean([run[name] for run in runs]) for name in groups_of(record)]
    return [mean([run["balanced_accuracy"] for run in runs]), first, *groups]


def mean(values: Sequence[float]) -> str:
    """With its deviation, if there are several."""
    spread = f" ± {number(stdev(values), 1)}" if len(values) > 1 else ""
    return f"{number(fmean(values), 1)}{spread}"


def place(record: dict[str, Any]) -> str:
    """Seeds, images, machine and commits."""
    runs = record["runs"]
    seeds = dict.fromkeys(str(run["seed"]) for run in runs)
    machines = dict.fromkeys(
        f"{run['machine']['gpu'] or run['machine']['processor']}, torch {run['machine']['torch']}" for run in runs
    )
    commits = dict.fromkeys(f"`{run['commit']}`" for run in runs)
    images = dict.fromkeys(f"`{run['fingerprint']}`" for run in runs)
    return (
        f"- `{record['data']}`: seed {', '.join(seeds)}; images {', '.join(images)}; "
        f"{'; '.join(machines)}; commit {', '.join(commits)}"
    )
