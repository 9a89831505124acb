"""A table of the paper together with the measured results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tailcloud.bench.plan import BenchProtocol
from tailcloud.bench.table import CellKey, PaperTable, Reference, TableRow
from tailcloud.reporting.tables import MethodRow, Summary, seed_place
from tailcloud.runs.result import Result

TOLERANCE = 1.0  # percentage points; a cell further below the published number is marked
METRICS = ("top1", "best", "balanced_accuracy", "many", "medium", "few", "ece", "seconds")


@dataclass(frozen=True)
class TableCell:
    """One row on one data set: results, the published number, and the errors of failed runs."""

    row: TableRow
    spec: str
    reference: Reference | None = None
    results: tuple[Result, ...] = ()
    failures: tuple[str, ...] = ()
    note: str = ""
    comparable: bool = True  # trained exactly by its recipe

    def summary(self, metric: str) -> Summary:
        """Mean and deviation of a metric over the seeds."""
        return MethodRow(self.row.label, self.results).summary(metric) if self.results else Summary(None, None, 0)

    @property
    def gap(self) -> float | None:
        """Percentage points above the published number, last epoch; None for runs that differ from their recipes."""
        mean = self.summary("top1").mean
        return None if mean is None or self.reference is None or not self.comparable else mean - self.reference.value

    @property
    def below(self) -> bool:
        """Whether the cell is marked: more than ``TOLERANCE`` below the published number."""
        return self.gap is not None and self.gap < -TOLERANCE

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
            "per_seed": [seed_record(result) for result in self.results],
            "failures": list(self.failures),
            "note": self.note,
        }


def seed_record(result: Result) -> dict[str, Any]:
    """One run as JSON."""
    return {
        "seed": result.protocol.seed,
        "top1": result.top1.last,
        "best": result.top1.best,
        "evaluated_epochs": result.top1.evaluated_epochs,
        **{metric: getattr(result, metric) for metric in METRICS[2:]},
        "commit": result.commit,
        "command": result.command,
    }


@dataclass(frozen=True)
class FilledTable:
    """A table, its protocol, and a cell for each row and data set."""

    table: PaperTable
    protocol: BenchProtocol
    cells: tuple[TableCell, ...]

    def column(self, spec: str) -> list[TableCell]:
        """The cells of a data set, row by row."""
        return [cell for cell in self.cells if cell.spec == spec]

    def unmeasured(self, spec: str) -> list[str]:
        """A sentence for a data set without results, if the table says which files it needs."""
        if spec not in self.table.needs or any(cell.results for cell in self.column(spec)):
            return []
        return [f"{spec} is not measured here: it needs {self.table.needs[spec]}."]

    def record(self) -> dict[str, Any]:
        """The whole table as JSON."""
        return {
            "table": self.table.name,
            "title": self.table.title,
            "shortened": self.protocol.epochs is not None,
            "label": self.protocol.label,
            "cells": [cell.record() for cell in self.cells],
        }


def fill_table(
    table: PaperTable,
    results: Mapping[CellKey, Sequence[Result]],
    failures: Mapping[CellKey, Sequence[str]] | None = None,
    protocol: BenchProtocol | None = None,
) -> FilledTable:
    """The table with these results and error messages."""
    protocol = protocol or BenchProtocol()
    cells = [
        TableCell(
            row,
            spec,
            table.reference(row, spec),
            tuple(sorted(results.get((row.key, spec), ()), key=lambda result: seed_place(result.protocol.seed))),
            tuple((failures or {}).get((row.key, spec), ())),
            table.note(row, spec),
            comparable=not protocol.label,
        )
        for spec in table.columns
        for row in table.rows
    ]
    return FilledTable(table, protocol, tuple(cells))
