"""A comparison of runs as a table: CSV for a spreadsheet, Markdown for a text, LaTeX for a paper.

Rows, and which runs share one, are those of the page; so are the sentences on what must not be compared.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import tailcloud
from tailcloud.csv_cells import no_formula, row_writer
from tailcloud.formatting import counted, markdown_text, one_line
from tailcloud.reporting.comparison import row_notes, unequal_training
from tailcloud.reporting.run_record import RunRecord
from tailcloud.reporting.tables import COLUMNS, DatasetTable, MethodRow, by_dataset, cells, markdown

METRICS = ("top1", "balanced_accuracy", "many", "medium", "few", "ece")
TEXT_COLUMNS = ("label", "seeds", *METRICS, "parameters", "epochs")
CSV_HEADER = (
    *("data", "fingerprint", "method", "runs", "seeds"),
    *(f"{metric}_{figure}" for metric in METRICS for figure in ("mean", "deviation")),
    *("parameters", "epochs", "remarks"),
)
ABOUT = (
    "Mean ± sample standard deviation over seeds, in percent, after the last epoch. ECE: of the test images as they "
    "are, without temperature."
)
UNEQUAL = "Not trained alike."
MARKS = {  # what a file of ours begins with
    ".csv": f"{','.join(CSV_HEADER)}\n",
    ".md": "<!-- tailcloud report",
    ".tex": "% tailcloud report",
}
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "|": r"\textbar{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        **{character: f"\\{character}" for character in "&%$#_{}"},
        **{character: f"{{{character}}}" for character in "[]*"},  # after \\ they would be its arguments
        "±": r"$\pm$",
        "−": "$-$",
        "×": r"$\times$",
        "…": r"\dots{}",
        "“": "``",
        "”": "''",
    }
)


class TableWithNotes(NamedTuple):
    """A table, how its runs were not trained alike, and the notes on each of its rows: sentences."""

    table: DatasetTable
    unequal: list[str]
    notes: list[list[str]]


def comparison_table(runs: Sequence[RunRecord], ending: str) -> str:
    """The comparison of some runs as the text of a file; ``ending`` is ".csv", ".md" or ".tex"."""
    results = [run.result for run in runs]
    return WRITERS[ending](
        [
            TableWithNotes(table, unequal_training(table, results), [row_notes(row, runs) for row in table.rows])
            for table in by_dataset(results)
        ]
    )


def _csv(tables: Sequence[TableWithNotes]) -> str:
    stream = io.StringIO()
    write = row_writer(stream)
    write(CSV_HEADER)
    for table, unequal, notes in tables:
        flag = [" ".join([UNEQUAL, *unequal])] if unequal else []
        for row, of_row in zip(table.rows, notes, strict=True):
            write([*_csv_cells(table, row), no_formula(" ".join([*flag, *of_row]))])
    return stream.getvalue()


def _csv_cells(table: DatasetTable, row: MethodRow) -> Iterator[str]:
    """Every column but the last; numbers in full precision, empty where nothing was measured."""
    yield from map(no_formula, (table.spec, table.fingerprint, row.label))
    yield str(len(row.results))
    yield " ".join(str(seed) for seed in row.seeds if seed is not None)
    for metric in METRICS:
        summary = row.summary(metric)
        yield from ("" if value is None else str(value) for value in (summary.mean, summary.std))
    yield "" if row.parameters is None else str(row.parameters)
    yield row.epochs


def _markdown(tables: Sequence[TableWithNotes]) -> str:
    lines = [f"{MARKS['.md']}: written by tailcloud {tailcloud.__version__} -->", ""]
    for table, unequal, notes in tables:
        lines += [f"## {markdown_text(table.spec)}", "", markdown_text(_about(table)), ""]
        lines += [f"**{UNEQUAL}** {markdown_text(' '.join(unequal))}", ""] if unequal else []
        rows = [[markdown_text(cell) for cell in cells(row, TEXT_COLUMNS)] for row in table.rows]
        lines += [markdown(_header(), rows), "", ABOUT, ""]
        said = [f"- {markdown_text(note)}" for of_row in notes for note in of_row]
        lines += [*said, ""] if said else []
    return "\n".join(lines)


def _latex(tables: Sequence[TableWithNotes]) -> str:
    lines = [rf"{MARKS['.tex']}: written by tailcloud {tailcloud.__version__}; needs \usepackage{{booktabs}}"]
    for table, unequal, notes in tables:
        flag = [rf"\textbf{{{UNEQUAL}}}", *map(_latex_text, unequal)] if unequal else []
        said = [_latex_text(note) for of_row in notes for note in of_row]
        data = f"{table.spec}: {_about(table)}"
        caption = " ".join([_latex_text(data), _latex_text(ABOUT), *flag, *said])
        rows = [_latex_row(cells(row, TEXT_COLUMNS)) for row in table.rows]
        lines += [r"\begin{table}", r"\centering", rf"\caption{{{caption}}}"]
        lines += [rf"\begin{{tabular}}{{l{'r' * (len(TEXT_COLUMNS) - 1)}}}", r"\toprule", _latex_row(_header())]
        lines += [r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", r"\end{table}"]
    return "\n".join([*lines, ""])


WRITERS: Mapping[str, Callable[[Sequence[TableWithNotes]], str]] = {".csv": _csv, ".md": _markdown, ".tex": _latex}


def _header() -> list[str]:
    return [COLUMNS.get(column, column) for column in TEXT_COLUMNS]


def _about(table: DatasetTable) -> str:
    data = table.example.dataset
    tested = f", {counted(data.images['test'], 'test image')}" if data.images.get("test") else ""
    trained = f"{counted(sum(data.counts), 'training image')} of {counted(len(data.counts), 'class', 'classes')}"
    return f"{trained}{tested}; fingerprint {table.fingerprint}."


def _latex_text(text: str) -> str:
    """Text in which nothing is a command: names are untrusted."""
    return one_line(text).translate(LATEX)


def _latex_row(row: Sequence[str]) -> str:
    return rf"{' & '.join(map(_latex_text, row))} \\"
