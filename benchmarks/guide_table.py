"""What docs/guide.md says of the measured methods: a short table for each data set, and who is ahead in what."""

from collections.abc import Iterator, Sequence

from tailcloud.formatting import counted, number
from tailcloud.reporting.tables import COLUMNS, DatasetTable, MethodRow, cells, markdown

SHORT = ("seeds", "top1", "many", "medium", "few", "ece")
QUESTIONS = {
    "top1": ("highest top-1", max),
    "many": ("highest in many-shot classes", max),
    "few": ("highest in few-shot classes", max),
    "ece": ("lowest ECE", min),
}


def parts(tables: Sequence[DatasetTable]) -> Iterator[str]:
    """A section for every data set on which methods can be compared, those with the most methods first."""
    compared = [(table, first_rows(table)) for table in tables]
    for table, rows in sorted(compared, key=lambda pair: -len(pair[1])):
        if len(rows) > 1:
            yield f"### {table.spec}\n"
            yield f"{methods(rows)}\n"
            yield f"Ahead: {', '.join(ahead(rows))}.\n"


def first_rows(table: DatasetTable) -> list[MethodRow]:
    """The first row of each method, which has its usual settings; the highest top-1 first."""
    rows = {row.method: row for row in reversed(table.rows)}.values()
    return sorted(rows, key=lambda row: -(row.summary("top1").mean or 0.0))


def methods(rows: Sequence[MethodRow]) -> str:
    header = ["method", *(COLUMNS[column] for column in SHORT)]
    return markdown(header, [[f"`{row.method}`", *cells(row, SHORT)] for row in rows])


def ahead(rows: Sequence[MethodRow]) -> Iterator[str]:
    """For each question the method whose mean answers it best, where the data have such classes."""
    for key, (question, best) in QUESTIONS.items():
        found = {row.method: (mean, row) for row in rows if (mean := row.summary(key).mean) is not None}
        if found:
            name = best(found, key=lambda method: found[method][0])
            mean, row = found[name]
            yield f"{question}: `{name}` ({number(mean, 1)}, {counted(len(row.seeds), 'seed')})"
