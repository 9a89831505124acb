"""Means over seeds, as tables for the terminal, for Markdown and for the report.

Only runs that can be averaged share a row (same method, model, epochs, split and device), and only runs on the same
images share a table (same data set specification and fingerprint).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from tailcloud.profile import GROUPS
from tailcloud.reporting.result import Result, parse_result
from tailcloud.reporting.wording import NOT_MEASURED, number, whole

AnyResult = Mapping[str, Any] | Result
GAINS = ("top1", *GROUPS)
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
    "seconds": "seconds per run",
}


@dataclass(frozen=True)
class Summary:
    """Mean and sample standard deviation of ``n`` measured values; null where there is none."""

    mean: float | None
    std: float | None
    n: int

    def text(self, *, digits: int = 1, signed: bool = False) -> str:
        """ "92.6 ± 0.4"; a single value has no deviation."""
        mean = number(self.mean, digits, signed=signed)
        return mean if self.std is None else f"{mean} ± {number(self.std, digits)}"


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
    def seeds(self) -> list[int]:
        """The seeds, each once."""
        return sorted({result.protocol.seed for result in self.results})

    @property
    def parameters(self) -> int | None:
        """The parameters of the model, the same in all runs of a row."""
        return self.results[0].model.parameters

    @property
    def best_on(self) -> str | None:
        """The split on which the best epoch was chosen."""
        return self.results[0].top1.best_on

    def values(self, metric: str) -> list[float | None]:
        """One value per run."""
        return [_value(result, metric) for result in self.results]

    def summary(self, metric: str) -> Summary:
        """The mean of a metric over the runs."""
        return mean_std(self.values(metric))

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
        """Any of the results: the data set is the same in all."""
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
    return [DatasetTable(spec, mark, _rows(members)) for (spec, mark), members in tables.items()]


def gain(row: MethodRow, base: MethodRow, metric: str) -> Summary:
    """How many points ``row`` is above ``base``.

    Rows with the same seeds, one run each, are compared seed by seed; others by their means, and the two deviations
    add up as those of independent samples.
    """
    if paired(row, base):
        after, before = _by_seed(row, metric), _by_seed(base, metric)
        return mean_std(_minus(after[seed], before[seed]) for seed in row.seeds)
    above, below = row.summary(metric), base.summary(metric)
    both = None if above.std is None or below.std is None else math.hypot(above.std, below.std)
    return Summary(_minus(above.mean, below.mean), both, min(above.n, below.n))


def paired(row: MethodRow, base: MethodRow) -> bool:
    """Whether both rows have one run for each of the same seeds."""
    return row.seeds == base.seeds and all(len(one.results) == len(one.seeds) for one in (row, base))


def cells(row: MethodRow, columns: Iterable[str] = COLUMNS) -> list[str]:
    """A row as text, one cell for each column; the best epoch always says on which split it was chosen."""
    return [_cell(row, column) for column in columns]


def gain_cells(row: MethodRow, base: MethodRow) -> list[str]:
    """The gains of a row over the first one, as text: overall, many, medium, few."""
    return [gain(row, base, metric).text(signed=True) for metric in GAINS]


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: the first column to the left, numbers to the right."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    lines = [header, rule, *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines)


def _cell(row: MethodRow, column: str) -> str:
    match column:
        case "label":
            return row.label
        case "seeds":
            return str(len(row.seeds))
        case "parameters":
            return whole(row.parameters)
        case "best":
            best = row.summary("best").text()
            return best if best == NOT_MEASURED else f"{best} on {row.best_on or 'an unknown split'}"
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


def _by_seed(row: MethodRow, metric: str) -> dict[int, float | None]:
    return {result.protocol.seed: _value(result, metric) for result in row.results}


def _minus(above: float | None, below: float | None) -> float | None:
    return None if above is None or below is None else above - below


def _rows(results: Sequence[Result]) -> tuple[MethodRow, ...]:
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        groups.setdefault((result.method, *_setting(result)), []).append(result)
    return tuple(MethodRow(_label(key, list(groups)), tuple(members)) for key, members in groups.items())


def _setting(result: Result) -> tuple[str, ...]:
    """In words, what runs must have in common to be averaged."""
    model = result.model
    return (
        model.backbone,
        f"{model.head} head",
        f"width {model.width}",
        f"{whole(model.parameters)} parameters",
        f"{' + '.join(str(stage.epochs) for stage in result.stages)} epochs",
        f"split {result.protocol.split}",
        f"best on {result.top1.best_on}",
        result.device,
    )


def _label(key: tuple[str, ...], keys: Sequence[tuple[str, ...]]) -> str:
    """The method; where a table has it in several settings, with what tells them apart."""
    namesakes = [other for other in keys if other[0] == key[0]]
    apart = [word for place, word in enumerate(key) if len({other[place] for other in namesakes}) > 1]
    return f"{key[0]} ({', '.join(apart)})" if apart else key[0]
