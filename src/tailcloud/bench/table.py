"""A table of the paper: its rows are methods or settings, its columns data sets, its cells published accuracies."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tailcloud.errors import unknown

TABLES = {
    "table1": "CIFAR-10-LT and CIFAR-100-LT, every method",
    "table2": "ImageNet-LT, iNaturalist 2018 and Places-LT",
    "cloud-size": "table 3: how a cloud's size follows from the count",
    "sampling": "table 4: samplers of the second stage",
    "retraining": "table 5: ways to re-balance the classifier",
}
Figures = tuple[float | Literal["-"], ...]


class Part(BaseModel):
    """A part of a table's file: every field known, nothing changed later."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Row(Part):
    """One method in one setting; the figures of others stand in the order of the table's columns."""

    label: str
    method: str
    variant: str = ""
    settings: tuple[str, ...] = Field(default=(), alias="set")
    paper: Figures = ()
    other: Figures = ()
    source: str = ""  # of ``other``

    @property
    def key(self) -> str:
        """The row in the name of a folder or file."""
        return f"{self.method}-{self.variant}" if self.variant else self.method

    def at(self, places: Sequence[int]) -> "Row":
        """The row with the figures of some columns only."""
        paper, other = (tuple(figures[place] for place in places if figures) for figures in (self.paper, self.other))
        return self.model_copy(update={"paper": paper, "other": other})


@dataclass(frozen=True)
class Reference:
    """An accuracy that others published, and where."""

    value: float
    source: str


class Table(Part):
    """A whole table."""

    name: str
    title: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    needs: dict[str, str] = {}  # what a data set is made of, for those that may be missing
    notes: dict[str, str] = {}  # "ROW SPEC" → what was tried, for cells below their reference

    @model_validator(mode="after")
    def _is_a_table(self) -> "Table":
        if len({row.key for row in self.rows}) < len(self.rows):
            raise ValueError("two rows have the same method and variant")
        for row in self.rows:
            for figures in (row.paper, row.other):
                if len(figures) not in {0, len(self.columns)}:
                    raise ValueError(f"{row.label} has {len(figures)} figures for {len(self.columns)} columns")
        return self

    def reference(self, row: Row, spec: str) -> Reference | None:
        """What was published for a cell: by the paper, else by a third party."""
        place = self.columns.index(spec)
        for figures, source in ((row.paper, "paper"), (row.other, row.source)):
            value = figures[place] if figures else "-"
            if value != "-":
                return Reference(value, source)
        return None

    def only(self, rows: Sequence[Row], columns: Sequence[str]) -> "Table":
        """Some of the rows and columns, in the order of the table."""
        kept = [place for place, spec in enumerate(self.columns) if spec in columns]
        cut = [row.at(kept) for row in self.rows if row in rows]
        return self.model_copy(update={"rows": tuple(cut), "columns": tuple(self.columns[place] for place in kept)})

    def note(self, row: Row, spec: str) -> str:
        """What there is to say about a cell."""
        return self.notes.get(f"{row.key} {spec}", "")


@cache
def read_table(name: str) -> Table:
    """A table by its name."""
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    text = (resources.files("tailcloud.bench") / "tables" / f"{name}.toml").read_text(encoding="utf-8")
    return Table.model_validate({"name": name, **tomllib.loads(text)})


def with_methods(table: Table, methods: Sequence[str]) -> Table:
    """The table with a row more for each of these methods that has none yet; nothing was published for them."""
    have = {row.key for row in table.rows}
    more = [Row(label=method, method=method) for method in dict.fromkeys(methods) if method not in have]
    return table.model_copy(update={"rows": (*table.rows, *more)})
