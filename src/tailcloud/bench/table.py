"""A table of a bench: rows are methods or settings, columns are data sets, cells are published accuracies.

``with_methods`` adds rows (``--method``), ``with_data`` columns (``--data``), ``filter_table`` selects (``--only``).
"""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from tailcloud.data import OWN, parse_spec
from tailcloud.errors import UsageError, unknown
from tailcloud.files import expand_home
from tailcloud.recipe import parse_setting, read_toml

PAPER_TABLES = {
    "table1": "CIFAR-10-LT and CIFAR-100-LT, every method",
    "table2": "ImageNet-LT, iNaturalist 2018 and Places-LT",
    "cloud-size": "table 3: how a cloud's size follows from the count",
    "sampling": "table 4: samplers of the second stage",
    "retraining": "table 5: ways to re-balance the classifier",
}
TABLES = {
    **PAPER_TABLES,
    "ladder": "what each ingredient adds beyond the paper, with GCL and without",
    "beyond": "one ResNet-32 by what came after the paper, and three of them distilled into one",
}
TABLE_FIELDS = {"data", "method", "seed", "root"}  # recipe fields that the table decides, so that no setting may
CellKey = tuple[str, str]  # a row's key and a data set
PublishedValues = tuple[float | Literal["-"], ...]  # one for each column; "-": not published


def row_key(method: str, variant: str) -> str:
    """The name of a row in folders and files."""
    return f"{method}-{variant}" if variant else method


class TableSection(BaseModel):
    """A section of a table's TOML file: frozen, unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TableRow(TableSection):
    """One method in one setting, with published accuracies in the order of the table's columns."""

    label: str
    method: str
    variant: str = ""
    over: str = ""  # the key of an earlier row, whose settings come before this row's
    teacher: str = ""  # the key of a row, whose runs on the same data teach this one
    teacher_seeds: tuple[int, ...] = ()  # of these runs; empty: the run of the same seed
    settings: tuple[str, ...] = Field(default=(), alias="set")
    paper: PublishedValues = ()
    other: PublishedValues = ()
    source: str = ""  # who published ``other``

    @model_validator(mode="after")
    def _check_row(self) -> "TableRow":
        if self.variant and not re.fullmatch(r"[\w.-]+", self.variant):
            raise ValueError(f'the variant "{self.variant}" is part of folder names; use letters, digits, "-", "_"')
        if any(value != "-" for value in self.other) and not self.source:
            raise ValueError("other needs a source: who published these numbers")
        for setting in self.settings:
            if fixed := TABLE_FIELDS & set(parse_setting(setting)):
                raise ValueError(f'"{setting}" is no setting of a row, because the table decides {min(fixed)}')
        return self

    @property
    def key(self) -> str:
        """The row's name in folders and files."""
        return row_key(self.method, self.variant)

    def at_columns(self, indices: Sequence[int]) -> "TableRow":
        """The row with the values of some columns only."""
        paper, other = (tuple(values[index] for index in indices if values) for values in (self.paper, self.other))
        return self.model_copy(update={"paper": paper, "other": other})

    def with_columns(self, more: int) -> "TableRow":
        """The row with so many columns more, of which nothing is published."""
        blank: PublishedValues = tuple(repeat("-", more))
        paper, other = (values and values + blank for values in (self.paper, self.other))
        return self.model_copy(update={"paper": paper, "other": other})


@dataclass(frozen=True)
class Reference:
    """A published accuracy in percent, and its source."""

    value: float
    source: str


class PaperTable(TableSection):
    """A whole table."""

    name: str
    title: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    needs: dict[str, str] = {}  # data set → the files it needs, for data sets that may be missing
    notes: dict[str, str] = {}  # "ROW SPEC" → what was tried, for cells below their reference

    @model_validator(mode="before")
    @classmethod
    def _join_settings(cls, content: dict[str, Any]) -> dict[str, Any]:
        """Put the settings of the row that a row is ``over`` before its own."""
        known: dict[str, tuple[str, ...]] = {}
        rows = []
        if not isinstance(content.get("rows"), list):
            return content
        for row in content["rows"]:
            joined = row
            if isinstance(row, dict) and isinstance(row.get("set", []), list):
                below, own = str(row.get("over", "")), tuple(row.get("set", ()))
                if below and below not in known:
                    raise ValueError(f'{row.get("label")} is over "{below}", which is no earlier row')
                joined = row | {"set": (*known.get(below, ()), *own)}
                known[row_key(str(row.get("method")), str(row.get("variant", "")))] = joined["set"]
            rows.append(joined)
        return content | {"rows": rows}

    @model_validator(mode="after")
    def _check_rows(self) -> "PaperTable":
        if not self.rows or not self.columns:
            raise ValueError(f"it has no {'columns' if self.rows else 'rows'}")
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("a column is there twice")
        if len({row.key for row in self.rows}) < len(self.rows):
            raise ValueError("two rows have the same method and variant")
        for row in self.rows:
            if row.teacher and row.teacher not in {other.key for other in self.rows if not other.teacher}:
                raise ValueError(f'{row.label} has the teacher "{row.teacher}", which is no row without a teacher')
            if row.teacher_seeds and not row.teacher:
                raise ValueError(f"{row.label} has teacher_seeds and no teacher")
        for row in self.rows:
            for values in (row.paper, row.other):
                if len(values) not in {0, len(self.columns)}:
                    raise ValueError(f"{row.label} has {len(values)} values for {len(self.columns)} columns")
        return self

    def reference(self, row: TableRow, spec: str) -> Reference | None:
        """The published accuracy of a cell: the paper's, else a third party's."""
        index = self.columns.index(spec)
        for values, source in ((row.paper, "paper"), (row.other, row.source)):
            value = values[index] if values else "-"
            if value != "-":
                return Reference(value, source)
        return None

    def subset(self, rows: Sequence[TableRow], columns: Sequence[str]) -> "PaperTable":
        """Some of the rows and columns, in the order of the table."""
        indices = [index for index, spec in enumerate(self.columns) if spec in columns]
        kept = [row.at_columns(indices) for row in self.rows if row in rows]
        return self.model_copy(update={"rows": tuple(kept), "columns": tuple(self.columns[index] for index in indices)})

    def note(self, row: TableRow, spec: str) -> str:
        """The table's note about a cell, or an empty text."""
        return self.notes.get(f"{row.key} {spec}", "")


def read_table(name: str) -> PaperTable:
    """A table by its name, or from a TOML file of your own (``.toml``).

    Raises:
        UsageError: there is no such table or file, or it is no table.
    """
    return table_of_file(expand_home(name)) if name.endswith(".toml") else shipped_table(name)


@cache
def shipped_table(name: str) -> PaperTable:
    """A table of the package."""
    if name not in TABLES:
        raise unknown("table", name, TABLES)
    text = (resources.files("tailcloud.bench") / "tables" / f"{name}.toml").read_text(encoding="utf-8")
    return PaperTable.model_validate({"name": name, **tomllib.loads(text)})


def table_of_file(path: Path) -> PaperTable:
    """A table of your own; its name is that of the file."""
    try:
        content = read_toml(path)
        if "name" in content:
            raise UsageError(f"{path} is no table: name is no key; its name is that of the file")
        table = PaperTable.model_validate({"name": path.stem, "title": path.stem, "about": ""} | content)
    except ValidationError as error:
        raise UsageError(f"{path} is no table: {problem_of(error)}") from None
    for spec in table.columns:
        check_data(spec, f'the column "{spec}" of {path}')
    return table


def problem_of(error: ValidationError) -> str:
    """What is wrong with a table, and where; an unknown key before those that are missing."""
    first = next((one for one in error.errors() if one["type"] == "extra_forbidden"), error.errors()[0])
    place = " ".join(f"number {step + 1}:" if isinstance(step, int) else str(step) for step in first["loc"])
    known = {
        "extra_forbidden": "is no key",
        "missing": "is missing",
        "model_type": "is no table of keys",
        "tuple_type": "is no list",
    }
    what = known.get(first["type"], first["msg"])
    return f"{place} {what.removeprefix('Value error, ')}".strip()


def check_data(spec: str, what: str) -> None:
    """Refuse data that have no recipes; ``what`` says where they are named."""
    if parse_spec(spec)[0] == OWN:
        raise UsageError(
            f'{what} is a path, and a table needs data with recipes, such as "cifar10-lt:10"; train methods on your '
            f'own images with "tailcloud train own/METHOD --data {spec}"'
        )


def with_methods(table: PaperTable, methods: Sequence[str]) -> PaperTable:
    """The table with one more row for each of these methods that it lacks; these rows have no published accuracy."""
    known = {row.key for row in table.rows}
    more = [TableRow(label=method, method=method) for method in dict.fromkeys(methods) if method not in known]
    return table.model_copy(update={"rows": (*table.rows, *more)})


def with_data(table: PaperTable, specs: Sequence[str]) -> PaperTable:
    """The table with one more column for each of these data sets that it lacks; nothing is published in it.

    Raises:
        UsageError: there is no data set of that name, or it is a path.
    """
    more = [spec for spec in dict.fromkeys(specs) if spec not in table.columns]
    for spec in more:
        check_data(spec, f"--data {spec}")
    rows = [row.with_columns(len(more)) for row in table.rows]
    return table.model_copy(update={"columns": (*table.columns, *more), "rows": tuple(rows)})


def filter_table(table: PaperTable, texts: Sequence[str]) -> PaperTable:
    """Some rows and columns of a table: a text in the name of a data set selects columns, any other text selects rows.

    A row is found by its label, its method or its name in folders. An exact match selects that one alone; otherwise
    everything that contains the text is selected, but for a ratio: ``:10`` is not ``:100``. Case does not matter.
    """
    columns, rows = list[str](), list[TableRow]()
    for text in texts:
        known = [spec for spec in table.columns if ":" not in text or spec.lower().endswith(text.lower())]
        specs = [spec for spec in known if matches(text, [spec], table.columns)]
        names = [name for row in table.rows for name in row_names(row)]
        matching = [] if specs else [row for row in table.rows if matches(text, row_names(row), names)]
        if not specs and not matching:
            raise UsageError(
                f'--only "{text}" is in no row and no data set of {table.name}; it has the rows '
                f"{', '.join(row.key for row in table.rows)} and the data sets {', '.join(table.columns)}"
                f"{f'; add it with --data {text}' if is_data_set(text) else ''}"
            )
        columns += specs
        rows += matching
    return table.subset(rows or table.rows, columns or table.columns)


def is_data_set(text: str) -> bool:
    """Whether a text names data with recipes."""
    try:
        return parse_spec(text)[0] != OWN
    except UsageError:
        return False


def row_names(row: TableRow) -> tuple[str, str, str]:
    """The names of a row: label, method and key."""
    return row.label, row.method, row.key


def matches(text: str, names: Iterable[str], known: Iterable[str]) -> bool:
    """Whether a text selects one of these names; if it equals any known name, only an equal name matches."""
    low = text.lower()
    if low in [name.lower() for name in known]:
        return low in [name.lower() for name in names]
    return any(low in name.lower() for name in names)
