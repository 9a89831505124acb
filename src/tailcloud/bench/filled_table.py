"""A table with what was measured in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailcloud.bench.plan import Protocol
from tailcloud.bench.table import Reference, Row, Table
from tailcloud.reporting.tables import MethodRow, Summary
from tailcloud.runs.result import Result

TOLERANCE = 1.0  # points under the published number that are not worth a mark
METRICS = ("top1", "best", "many", "medium", "few", "ece", "seconds")


@dataclass(frozen=True)
class Cell:
    """One row on one data set: the runs that finished, what was published, and why anything is missing."""

    row: Row
    spec: str
    reference: Reference | None = None
    results: tuple[Result, ...] = ()
    failures: tuple[str, ...] = ()
    note: str = ""
    comparable: bool = True  # trained as its recipe says

    def summary(self, metric: str) -> Summary:
        """Mean and deviation of a metric over the seeds."""
        return MethodRow(self.row.label, self.results).summary(metric) if self.results else Summary(None, None, 0)

    @property
    def gap(self) -> float | None:
        """Points above the published number, last epoch."""
        mean = self.summary("top1").mean
        return None if mean is None or self.reference is None else mean - self.reference.value

    @property
    def below(self) -> bool:
        """Whether the cell is marked: trained as its recipe says, and more than a point under the published number."""
        return self.comparable and self.gap is not None and self.gap < -TOLERANCE

    def record(self) -> dict[str, Any]:
        """The cell as JSON."""
        first = self.results[0] if self.results else None
        summaries = {metric: self.summary(metric) for metric in METRICS}
        return {
            "row": self.row.label,
            "method": self.row.method,
            "variant": self.row.variant,
            "settings": list(self.row.settings),
            "data": self.spec,
            "published": None if self.reference is None else vars(self.reference),
            "gap": self.gap,
            "below": self.below,
            "seeds": [result.protocol.seed for result in self.results],
            **{metric: vars(summary) for metric, summary in summaries.items()},
            "best_on": first.top1.best_on if first else None,
            "parameters": first.model.parameters if first else None,
            "flops": first.model.flops if first else None,
            "fingerprint": first.dataset.fingerprint if first else None,
            "per_seed": [per_seed(result) for result in self.results],
            "failures": list(self.failures),
            "note": self.note,
        }


def per_seed(result: Result) -> dict[str, Any]:
    """The figures of one run."""
    return {
        "seed": result.protocol.seed,
        "top1": result.top1.last,
        "best": result.top1.best,
        **{metric: getattr(result, metric) for metric in METRICS[2:]},
        "commit": result.commit,
        "command": result.command,
    }


@dataclass(frozen=True)
class Filled:
    """A table, how its figures came about, and a cell for every place."""

    table: Table
    protocol: Protocol
    cells: tuple[Cell, ...]

    def column(self, spec: str) -> list[Cell]:
        """The cells of a data set, row by row."""
        return [cell for cell in self.cells if cell.spec == spec]

    def unmeasured(self, spec: str) -> list[str]:
        """A sentence about a data set of which nothing was measured, where the table knows what that takes."""
        if spec not in self.table.needs or any(cell.results for cell in self.column(spec)):
            return []
        return [f"{spec} is not measured here: it needs {self.table.needs[spec]}."]

    @property
    def measured(self) -> bool:
        """Whether there is any figure of our own."""
        return any(cell.results for cell in self.cells)

    def record(self) -> dict[str, Any]:
        """The whole table as JSON."""
        return {
            "table": self.table.name,
            "title": self.table.title,
            "shortened": self.protocol.epochs is not None,
            "label": self.protocol.label,
            "cells": [cell.record() for cell in self.cells],
        }


Place = tuple[str, str]  # a row's name and a data set


def fill(
    table: Table,
    results: Mapping[Place, Sequence[Result]],
    failures: Mapping[Place, Sequence[str]] | None = None,
    protocol: Protocol | None = None,
) -> Filled:
    """The table with these results in it, and a sentence for what failed."""
    how = protocol or Protocol()
    cells = [
        Cell(
            row,
            spec,
            table.reference(row, spec),
            tuple(sorted(results.get((row.key, spec), ()), key=lambda result: result.protocol.seed)),
            tuple((failures or {}).get((row.key, spec), ())),
            table.note(row, spec),
            comparable=not how.label,
        )
        for spec in table.columns
        for row in table.rows
    ]
    return Filled(table, how, tuple(cells))
