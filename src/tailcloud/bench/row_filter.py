"""``--only``: some rows and columns of a table, by text."""

from collections.abc import Iterable, Sequence

from tailcloud.bench.table import PaperTable, TableRow
from tailcloud.errors import UsageError


def filter_table(table: PaperTable, texts: Sequence[str]) -> PaperTable:
    """The selected part of a table: a text in the name of a data set selects columns, any other text selects rows.

    A row is found by its label, its method or its name in folders. An exact match selects that one alone; otherwise
    everything that contains the text is selected. Case does not matter.
    """
    columns, rows = list[str](), list[TableRow]()
    for text in texts:
        specs = [spec for spec in table.columns if matches(text, [spec], table.columns)]
        names = [name for row in table.rows for name in row_names(row)]
        matching = [] if specs else [row for row in table.rows if matches(text, row_names(row), names)]
        if not specs and not matching:
            raise UsageError(
                f'--only "{text}" is in no row and no data set of {table.name}; it has the rows '
                f"{', '.join(row.key for row in table.rows)} and the data sets {', '.join(table.columns)}"
            )
        columns += specs
        rows += matching
    return table.subset(rows or table.rows, columns or table.columns)


def row_names(row: TableRow) -> tuple[str, str, str]:
    """The names of a row: label, method and key."""
    return row.label, row.method, row.key


def matches(text: str, names: Iterable[str], known: Iterable[str]) -> bool:
    """Whether a text selects one of these names; if it equals any known name, only an equal name matches."""
    low = text.lower()
    if low in [name.lower() for name in known]:
        return low in [name.lower() for name in names]
    return any(low in name.lower() for name in names)
