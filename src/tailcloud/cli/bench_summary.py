"""What ``tailcloud bench`` prints and writes: the runs of a dry run, the filled table, its page and its record."""

from collections.abc import Sequence
from pathlib import Path

from tailcloud.bench.bench_page import bench_page
from tailcloud.bench.plan import BenchRun
from tailcloud.bench.shared_stages import steps_of
from tailcloud.bench.table_text import SHORT_COLUMNS, legend, remarks, text_rows
from tailcloud.cli.bench_progress import BenchProgress
from tailcloud.cli.console import out, say_note
from tailcloud.errors import TailcloudError
from tailcloud.files import write_atomically, write_json
from tailcloud.formatting import counted


def print_steps(runs: Sequence[BenchRun], board: BenchProgress) -> None:
    """The runs of a bench: which are finished, and which start from the first stage of another."""
    steps = {step.run.title: step for step in steps_of(runs)}
    for run in runs:
        step = steps.get(run.title)
        state = "finished" if step is None else "resumed" if run.folder.exists else "new"
        start = f", from the first stage of {step.parent.folder.path.name}" if step and step.parent else ""
        epochs = " + ".join(str(stage.epochs) for stage in run.recipe.stages.values())
        out.print(f"{run.folder.path}  {epochs} epochs, {state}{start}", markup=False)
    own = sum(step.parent is None for step in steps.values())
    out.print(
        f"{counted(len(runs), 'run')}, {len(runs) - len(steps)} finished, {len(steps)} to train: "
        f"{own} from their own first stage, {len(steps) - own} from that of another"
    )
    note_failures(board)


def conclude(board: BenchProgress, place: Path, json_file: Path | None) -> None:
    """Print the table, write its page and its record.

    Raises:
        TailcloudError: a run failed.
    """
    filled = board.filled()
    for spec in filled.table.columns:
        cells = filled.column(spec)
        rows = [list(SHORT_COLUMNS.values()), *text_rows(cells, list(SHORT_COLUMNS))]
        print_columns(f"{filled.table.title}: {spec}", rows)
    out.print(legend(filled), markup=False)
    note_failures(board)  # before anything is written: writing may fail for the same reason
    if json_file:
        write_json(json_file, filled.record())
    page = place / f"{filled.table.name}.html"  # tables may share a folder
    write_atomically(page, bench_page([filled]))
    out.print(f"page: {page}", markup=False)
    failed = sum(map(len, board.failures.values()))
    if failed:
        raise TailcloudError(
            f"{counted(failed, 'cell or run', 'cells or runs')} could not be measured; the sentences above say why. "
            "The same command tries them again"
        )


def print_columns(title: str, rows: Sequence[Sequence[str]]) -> None:
    """A table with a title, its columns aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    out.print(f"[bold]{title}[/]")
    for row in rows:
        first, *rest = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        out.print("  ".join([first, *rest]).rstrip(), markup=False)
    out.print()


def note_failures(board: BenchProgress) -> None:
    """A note for each failure, with the rows that it is about."""
    filled = board.filled()
    for sentence in dict.fromkeys(text for spec in filled.table.columns for text in remarks(filled.column(spec))):
        say_note(sentence)
