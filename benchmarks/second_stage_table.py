"""The records of benchmarks/tune_second_stage.py as a table for docs/methods.md."""

from collections.abc import Iterator, Sequence
from statistics import fmean, stdev
from typing import Any

from tailcloud.reporting.tables import markdown

TUNING = "-tune:"


def parts(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One table for all data sets; the candidates in the order of their mean over the tuning parts."""
    runs = [run for record in records for run in record["runs"]]
    specs = list(dict.fromkeys(run["spec"] for run in runs))
    tuning = [spec for spec in specs if TUNING in spec]
    names = sorted(records[0]["candidates"], key=lambda name: -overall(runs, name, tuning))
    cells = [spec for spec in specs if TUNING not in spec]
    header = ["second stage", "mean of tuning parts", *tuning, *cells, "mean of cells"]
    rows = [
        [
            name,
            f"{overall(runs, name, tuning):.2f}",
            *(cell(runs, name, spec) for spec in [*tuning, *cells]),
            f"{overall(runs, name, cells):.2f}",
        ]
        for name in names
    ]
    yield f"{markdown(header, rows)}\n"
    about = f"Balanced accuracy of the last epoch in percent, mean ± deviation over {seeds(runs)} seeds"
    yield f"{about}; {origin(records)}."


def overall(runs: Sequence[dict[str, Any]], name: str, specs: Sequence[str]) -> float:
    """The mean over data sets of a candidate's mean over seeds."""
    return fmean(fmean(values(runs, name, spec)) for spec in specs)


def cell(runs: Sequence[dict[str, Any]], name: str, spec: str) -> str:
    found = values(runs, name, spec)
    return f"{fmean(found):.2f} ± {stdev(found):.2f}" if len(found) > 1 else f"{found[0]:.2f}"


def values(runs: Sequence[dict[str, Any]], name: str, spec: str) -> list[float]:
    return [run["balanced_accuracy"] for run in runs if (run["candidate"], run["spec"]) == (name, spec)]


def seeds(runs: Sequence[dict[str, Any]]) -> int:
    return len({run["seed"] for run in runs})


def origin(records: Sequence[dict[str, Any]]) -> str:
    machines = {record["machine"]["gpu"] or record["machine"]["processor"] for record in records}
    commits = {f"`{record['commit']}`" for record in records}
    return f"on {', '.join(sorted(machines))}, commit {', '.join(sorted(commits))}"
