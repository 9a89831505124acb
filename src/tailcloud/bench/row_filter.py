"""``--only``: some rows and columns of a table, by words."""

from collections.abc import Iterable, Sequence

from tailcloud.bench.table import Row, Table
from tailcloud.errors import UsageError


def narrowed(table: Table, words: Sequence[str]) -> Table:
    """What is left of a table: a word that is in the name of a data set chooses columns, any other one chooses rows.

    A row is found by its label, its method or its name in folders. A word that is one of these, or a data set, to the
    letter means just that one; otherwise everything that has the word in it.
    """
    columns, rows = list[str](), list[Row]()
    for word in words:
        specs = [spec for spec in table.columns if fits(word, [spec], table.columns)]
        names = [name for row in table.rows for name in names_of(row)]
        found = [] if specs else [row for row in table.rows if fits(word, names_of(row), names)]
        if not specs and not found:
            raise UsageError(
                f'--only "{word}" is in no row and no data set of {table.name}; it has the rows '
                f"{', '.join(row.key for row in table.rows)} and the data sets {', '.join(table.columns)}"
            )
        columns += specs
        rows += found
    return table.only(rows or table.rows, columns or table.columns)


def names_of(row: Row) -> tuple[str, str, str]:
    """What a row can be called."""
    return row.label, row.method, row.key


def fits(word: str, names: Iterable[str], known: Iterable[str]) -> bool:
    """Whether a word means something with these names, among all that are known."""
    low = word.lower()
    if low in [name.lower() for name in known]:
        return low in [name.lower() for name in names]
    return any(low in name.lower() for name in names)
