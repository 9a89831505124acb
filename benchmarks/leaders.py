"""Who is ahead on a data set: highest top-1, best in the head and in the tail, lowest ECE."""

from collections.abc import Iterator, Sequence

from tailcloud.formatting import counted, number
from tailcloud.reporting.tables import DatasetTable, MethodRow

QUESTIONS = {
    "top1": ("highest top-1", max),
    "many": ("highest in many-shot classes", max),
    "few": ("highest in few-shot classes", max),
    "ece": ("lowest ECE", min),
}


def parts(table: DatasetTable) -> Iterator[str]:
    """One sentence for a data set on which methods can be compared."""
    rows = first_rows(table)
    if len(rows) > 1:
        yield f"Ahead: {', '.join(ahead(rows))}.\n"


def first_rows(table: DatasetTable) -> list[MethodRow]:
    """The first row of each method, which has its usual settings, and of each variant; the highest top-1 first."""
    rows = {name_of(row): row for row in reversed(table.rows)}.values()
    return sorted(rows, key=by_top1)


def name_of(row: MethodRow) -> str:
    """The method, or for a variant the name that a table gives it."""
    return row.label if row.label.startswith(f"{row.method}-") else row.method


def by_top1(row: MethodRow) -> float:
    """A sort key: the highest mean top-1 comes first."""
    return -(row.summary("top1").mean or 0.0)


def ahead(rows: Sequence[MethodRow]) -> Iterator[str]:
    """For each question the method whose mean answers it best, where the data have such classes."""
    for key, (question, best) in QUESTIONS.items():
        found = {name_of(row): (mean, row) for row in rows if (mean := row.summary(key).mean) is not None}
        if found:
            name = best(found, key=lambda method: found[method][0])
            mean, row = found[name]
            yield f"{question}: `{name}` ({number(mean, 1)}, {counted(len(row.seeds), 'seed')})"
