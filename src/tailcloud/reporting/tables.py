"""Means over seeds, as tables for the terminal, for Markdown and for the report.

Only runs that can be averaged share a row (same recipe but for the seed, same device, precision and selection), and
only runs on the same images share a table (same data set specification and fingerprint). Runs of the same seed count
once, as their mean: a deviation is always over seeds.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from tailcloud.formatting import NOT_MEASURED, counted, magnitude, number, whole
from tailcloud.profile import GROUPS
from tailcloud.reporting.labels import best_of, epochs_text
from tailcloud.reporting.row_settings import group_by_settings
from tailcloud.runs.result import Result, parse_result

AnyResult = Mapping[str, Any] | Result
GAINS = ("top1", *GROUPS)
PLAIN_BAR = re.compile(r"(?<!\\)\|")
COLUMNS = {
    "label": "method",
    "seeds": "seeds",
    "top1": "top-1, last epoch",
    "best": "top-1, best epoch",
    "many": "many",
    "medium": "medium",
    "few": "few",
    "balanced_accuracy": "balanced accuracy",
    "ece": "ECE",
    "parameters": "parameters",
    "flops": "FLOPs",
    "seconds": "seconds per run",
}


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation of ``n`` measured values; None if there are too few."""

    mean: float | None
    std: float | None
    n: int

    def text(self, *, digits: int = 1, signed: bool = False) -> str:
        """ "92.6 ± 0.4"; a single value has no deviation."""
        mean = number(self.mean, digits, signed=signed)
        return mean if self.std is None else f"{mean} ± {number(self.std, digits)}"


def seed_place(seed: int | None) -> int:
    """A sort key: an average, which has no seed, comes first."""
    return -1 if seed is None else seed


@dataclass(frozen=True)
class MethodRow:
    """The runs of one method in one setting, averaged."""

    label: str
    results: tuple[Result, ...]

    @property
    def method(self) -> str:
        """The method's name."""
        return self.results[0].method

    @property
    def seeds(self) -> list[int | None]:
        """The seeds, each once; None is an average of runs."""
        return sorted({result.protocol.seed for result in self.results}, key=seed_place)

    @property
    def parameters(self) -> int | None:
        """The parameters of the model, the same in all runs of a row."""
        return self.results[0].model.parameters

    @property
    def flops(self) -> float | None:
        """FLOPs of the forward pass of one image, the same in all runs of a row."""
        return self.results[0].model.flops

    @property
    def runs(self) -> str:
        """The number of seeds; if a seed ran more than once, the number of runs and the seeds."""
        if len(self.seeds) == len(self.results):
            return str(len(self.seeds))
        if self.seeds == [None]:
            return counted(len(self.results), "average")
        which = "seed" if len(self.seeds) == 1 else "seeds"
        return f"{counted(len(self.results), 'run')}, {which} {', '.join(map(str, self.seeds))}"

    @property
    def epochs(self) -> str:
        """The epochs of the runs: "60 + 10"; "60 + 10 or 30" if they differ."""
        return " or ".join(dict.fromkeys(map(epochs_text, self.results)))

    @property
    def best_on(self) -> str | None:
        """The split on which the best epoch was chosen."""
        return self.results[0].top1.best_on

    def by_seed(self, metric: str) -> dict[int | None, float | None]:
        """One value for each seed, the mean of its runs."""
        values: dict[int | None, list[float | None]] = {seed: [] for seed in self.seeds}
        for result in self.results:
            values[result.protocol.seed].append(_value(result, metric))
        return {seed: mean_std(of_seed).mean for seed, of_seed in values.items()}

    def summary(self, metric: str) -> Summary:
        """The mean of a metric over the seeds."""
        return mean_std(self.by_seed(metric).values())

    def class_means(self) -> list[float | None]:
        """The accuracy of each class, averaged over the runs."""
        return [mean_std(values).mean for values in zip(*(result.per_class for result in self.results), strict=False)]


@dataclass(frozen=True)
class DatasetTable:
    """The methods that were measured on the same images."""

    spec: str
    fingerprint: str
    rows: tuple[MethodRow, ...]

    @property
    def example(self) -> Result:
        """One of the results; the data set is the same in all."""
        return self.rows[0].results[0]


def mean_std(values: Iterable[float | None]) -> Summary:
    """Mean and sample standard deviation (n − 1) of the values that were measured."""
    measured = [value for value in values if value is not None and math.isfinite(value)]
    mean = fmean(measured) if measured else None
    return Summary(mean, stdev(measured) if len(measured) > 1 else None, len(measured))


def by_dataset(results: Sequence[AnyResult]) -> list[DatasetTable]:
    """One table for each data set (specification and fingerprint), in the order of the results."""
    tables: dict[tuple[str, str], list[Result]] = {}
    for result in map(parse_result, results):
        tables.setdefault((result.dataset.spec, result.dataset.fingerprint), []).append(result)
    return [
        DatasetTable(spec, fingerprint, tuple(MethodRow(*group) for group in group_by_settings(members)))
        for (spec, fingerprint), members in tables.items()
    ]


def gain(row: MethodRow, base: MethodRow, metric: str) -> Summary:
    """How many points ``row`` is above ``base``.

    Rows with the same seeds are compared seed by seed; others by their means, with the deviation of the difference
    of independent samples.
    """
    if paired(row, base):
        after, before = row.by_seed(metric), base.by_seed(metric)
        return mean_std(_minus(after[seed], before[seed]) for seed in row.seeds)
    above, below = row.summary(metric), base.summary(metric)
    both = None if above.std is None or below.std is None else math.hypot(above.std, below.std)
    return Summary(_minus(above.mean, below.mean), both, min(above.n, below.n))


def paired(row: MethodRow, base: MethodRow) -> bool:
    """Whether both rows have the same seeds."""
    return row.seeds == base.seeds


def cells(row: MethodRow, columns: Iterable[str] = COLUMNS) -> list[str]:
    """A row as text, one cell for each column; the best epoch comes with the split on which it was chosen."""
    return [_cell(row, column) for column in columns]


def informative_columns(table: DatasetTable) -> list[str]:
    """The columns without shot groups that have no class, and without balanced accuracy where it is top-1."""
    means = {name: [row.summary(name).text() for row in table.rows] for name in ("top1", "balanced_accuracy", *GROUPS)}
    same = means["top1"] == means["balanced_accuracy"]
    empty = {group for group in GROUPS if set(means[group]) == {NOT_MEASURED}}
    return [column for column in COLUMNS if column not in empty and not (same and column == "balanced_accuracy")]


def best_epoch_text(best: Summary, results: Sequence[Result]) -> str:
    """The top-1 of the best epochs of some runs, the split that chose them, and how many epochs were compared."""
    if best.mean is None:
        return NOT_MEASURED
    chosen = f"{best.text()} on {results[0].top1.best_on or 'an unknown split'}"
    return ", ".join(filter(None, [chosen, best_of(results)]))


def gain_cells(row: MethodRow, base: MethodRow) -> list[str]:
    """The gains of a row over the first one, as text: overall, many, medium, few."""
    return [gain(row, base, metric).text(signed=True) for metric in GAINS]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: first column left-aligned, others right-aligned. A bar in a cell may be escaped already."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    lines = [header, rule, *rows]
    return "\n".join(f"| {' | '.join(PLAIN_BAR.sub('&#124;', cell) for cell in line)} |" for line in lines)


def _cell(row: MethodRow, column: str) -> str:
    match column:
        case "label" | "epochs":
            return str(getattr(row, column))
        case "seeds":
            return row.runs
        case "parameters":
            return whole(row.parameters)
        case "flops":
            return magnitude(row.flops)
        case "best":
            return best_epoch_text(row.summary("best"), row.results)
        case _:
            return row.summary(column).text()


def _value(result: Result, metric: str) -> float | None:
    match metric:
        case "top1":
            return result.top1.last
        case "best":
            return result.top1.best
        case _:
            value: float | None = getattr(result, metric)
            return value


def _minus(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above - below
