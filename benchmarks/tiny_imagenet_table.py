"""The records of benchmarks/tiny_imagenet.py and stage2_samplers.py as tables for docs/results.md."""

from collections.abc import Sequence
from typing import Any

from tailcloud.formatting import duration, magnitude
from tailcloud.reporting.tables import markdown, mean_std

HEAD = ("backbone", "method", "seeds", "top-1", "many", "medium", "few", "without stage 2", "parameters")
FIGURES = ("many", "medium", "few")


def parts(records: Sequence[dict[str, Any]]) -> list[str]:
    """One table over the backbones, and where each of them was measured."""
    if not records:
        return ["Not measured yet."]
    rows = [row for record in records for row in rows_of(record)]
    return [*(origin(record) for record in records), "", markdown(HEAD, rows)]


def origin(record: dict[str, Any]) -> str:
    """What was trained on, how long, and where."""
    counts, about = record["counts"], record["machine"]
    data = f"{sum(counts):,} training images of {len(counts)} classes, {max(counts)} to {min(counts)} each"
    how = f"{record['size']} pixels, {record['epochs']} epochs in stage 1"
    took = f"in {duration(record['seconds'])}" if record["seconds"] else "(interrupted and resumed)"
    return (
        f"- {record['backbone']}: {record['data']}, {data}; {how}; {len(record['runs'])} runs side by side {took} on "
        f"{about['gpu'] or about['processor']}, commit `{record['commit']}`."
    )


def rows_of(record: dict[str, Any]) -> list[list[str]]:
    """A row for each method, over its seeds."""
    methods = list(dict.fromkeys(run["method"] for run in record["runs"]))
    return [row(record["backbone"], [run for run in record["runs"] if run["method"] == method]) for method in methods]


def row(backbone: str, runs: Sequence[dict[str, Any]]) -> list[str]:
    """A method: the last epoch, and what its first stage alone gives where there is another."""
    figures = [
        mean_std([run["top1"]["last"] for run in runs]),
        *(mean_std([run[key] for run in runs]) for key in FIGURES),
    ]
    first = [run["stages"][0]["top1"] for run in runs]
    alone = mean_std(first).text() if len(runs[0]["stages"]) > 1 else ""
    texts = [figure.text() for figure in figures]
    return [backbone, runs[0]["method"], str(len(runs)), *texts, alone, magnitude(runs[0]["model"]["parameters"])]


def samplers(records: Sequence[dict[str, Any]]) -> list[str]:
    """The second stage with several samplers, after the same first stages."""
    return [line for record in records for line in (samplers_origin(record), "", samplers_table(record))]


def samplers_origin(record: dict[str, Any]) -> str:
    """What was trained on, and where."""
    counts, about = record["runs"][0]["counts"], record["machine"]
    data = f"{sum(counts):,} training images of {len(counts)} classes, {max(counts)} to {min(counts)} each"
    return (
        f"{record['data']}, {data}, 32 pixels, resnet20, {record['epochs']} epochs in stage 1, seeds: "
        f"{len(record['runs'])}; {about['gpu'] or about['processor']}, commit `{record['commit']}`."
    )


def samplers_table(record: dict[str, Any]) -> str:
    """A row for the first stage alone, and one for each sampler of the second."""
    names = {"stage1": "without stage 2", **{name: f"`stage2.sampler = {name}`" for name in record["samplers"]}}
    keys = ("top1", *FIGURES)
    rows = [
        [name, *(mean_std([run[way][key] for run in record["runs"]]).text() for key in keys)]
        for way, name in names.items()
    ]
    return markdown(("GCL", "top-1", *FIGURES), rows)
