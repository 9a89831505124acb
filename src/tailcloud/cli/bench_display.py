"""What ``tailcloud bench`` prints: the plan of a dry run, progress, and the filled table.

Progress is a live table on a terminal, otherwise one line for each finished run.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import Any, Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from tailcloud.bench import BenchProtocol, FilledTable, PaperTable, TableCell
from tailcloud.bench.bench_page import bench_page
from tailcloud.bench.filled_table import fill_table
from tailcloud.bench.plan import BenchRun, steps_of
from tailcloud.bench.table import CellKey
from tailcloud.bench.table_text import MARK, SHORT_COLUMNS, columns_for, legend, remarks, text_rows
from tailcloud.cli.console import live_display, on_terminal, out, print_columns, print_note
from tailcloud.errors import TailcloudError
from tailcloud.files import write_atomically, write_json
from tailcloud.formatting import counted, number
from tailcloud.recipe import Stage
from tailcloud.runs.result import Result

RUNS_LISTED = 4  # of those that are training


@dataclass
class BenchProgress:
    """Results and failures of a bench so far, and the current epoch of each run that is training."""

    table: PaperTable
    protocol: BenchProtocol
    planned: Sequence[BenchRun]
    results: dict[CellKey, list[Result]] = field(default_factory=dict)
    failures: dict[CellKey, list[str]] = field(default_factory=dict)
    training: dict[str, str] = field(default_factory=dict)  # a run's title → its stage and epoch
    awaiting_result: list[BenchRun] = field(default_factory=list)  # past their last epoch, result not yet written
    notes: set[str] = field(default_factory=set)
    lock: RLock = field(default_factory=RLock)

    def __enter__(self) -> Self:
        live = Live(get_renderable=self.live_view, console=out, refresh_per_second=2, transient=True)
        self.display = live_display(live) if on_terminal() else nullcontext()
        self.display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.display.__exit__(kind, error, trace)

    def observer(self, run: BenchRun) -> "BenchRunObserver":
        """An observer for one run."""
        return BenchRunObserver(self, run)

    def finish(self, run: BenchRun, result: Result, *, new: bool = True) -> None:
        """Add the result of a run; without a terminal, print a line for a new one."""
        key = (run.row.key, run.spec)
        with self.lock:
            self.training.pop(run.title, None)
            if any(known.protocol.seed == run.recipe.seed for known in self.results.get(key, [])):
                return
            self.results.setdefault(key, []).append(result)
            if new and not on_terminal():
                done = f"{self.done} of {len(self.planned)}"
                out.print(f"{run.title}: top-1 {number(result.top1.last)}, last epoch ({done} runs)", markup=False)

    def fail(self, key: CellKey, sentence: str) -> None:
        """Add the error of a run, or of all runs of a cell."""
        with self.lock:
            self.failures.setdefault(key, []).append(sentence)

    def note(self, text: str) -> None:
        """Print a note, once for all runs."""
        with self.lock:
            if text not in self.notes:
                self.notes.add(text)
                print_note(text)

    def collect_results(self) -> None:
        """Add the results that were written since the last call."""
        with self.lock:
            for run in [run for run in self.awaiting_result if run.folder.finished]:
                self.awaiting_result.remove(run)
                self.finish(run, run.folder.result())

    def filled(self) -> FilledTable:
        """The table with the results so far."""
        return fill_table(self.table, self.results, self.failures, self.protocol)

    @property
    def done(self) -> int:
        """How many runs are finished."""
        return sum(map(len, self.results.values()))

    def live_view(self) -> RenderableType:
        """Progress, the runs that are training, and the table last: a small terminal cuts off the end."""
        with self.lock:
            self.collect_results()
            label = f", {self.protocol.label}" if self.protocol.label else ""
            head = f"{self.table.title}{label}: {self.done} of {counted(len(self.planned), 'run')} done"
            runs = [f"{title}  {epoch}" for title, epoch in sorted(self.training.items())]
            more = [f"and {len(runs) - RUNS_LISTED} more"] if len(runs) > RUNS_LISTED else []
            return Group(head, *(Text(line, style="dim") for line in runs[:RUNS_LISTED] + more), self.grid())

    def grid(self) -> Table:
        """The table as text, one cell for each row and data set."""
        grid, filled = Table(box=None, pad_edge=False), self.filled()
        for title in ("", *self.table.columns):
            grid.add_column(title.replace(":", "\nγ = "))
        for row in self.table.rows:
            cells = [cell for cell in filled.cells if cell.row == row]
            grid.add_row(Text(row.label), *(Text(cell_summary(cell)) for cell in cells))
        return grid


def cell_summary(cell: TableCell) -> str:
    """82.2 (82.68): the mean so far, and the published number in brackets."""
    measured = number(cell.summary("top1").mean) if cell.results else "failed" if cell.failures else "…"
    mark = f" {MARK}" if cell.below else ""
    return f"{measured}{mark} ({number(cell.reference.value, 2)})" if cell.reference else f"{measured}{mark}"


@dataclass
class BenchRunObserver:
    """Reports the epochs of one run to the progress of its bench."""

    progress: BenchProgress
    run: BenchRun
    epochs: int = 0

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins; one without epochs ends immediately."""
        self.epochs = stage.epochs
        self.reach(name, done)

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is over, and perhaps the run."""
        self.reach(line["stage"], line["epoch"])

    def reach(self, stage: str, epoch: int) -> None:
        """The run has completed this epoch."""
        with self.progress.lock:
            self.progress.training[self.run.title] = f"{stage} epoch {epoch}/{self.epochs}"
            if stage == list(self.run.recipe.stages)[-1] and epoch >= self.epochs:
                self.progress.awaiting_result.append(self.run)
            self.progress.collect_results()

    def note(self, text: str) -> None:
        """A sentence that the user should read."""
        self.progress.note(text)


def print_bench_plan(runs: Sequence[BenchRun], progress: BenchProgress) -> None:
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
    note_failures(progress)
    if progress.failures:
        raise TailcloudError(f"{failed_text(progress)} cannot be trained; see the notes above")


def finish_bench(progress: BenchProgress, folder: Path, json_file: Path | None) -> None:
    """Print the table, write its page and its record.

    Raises:
        TailcloudError: a run failed.
    """
    filled = progress.filled()
    for spec in filled.table.columns:
        cells = filled.column(spec)
        columns = columns_for(cells, SHORT_COLUMNS)
        rows = [list(columns.values()), *text_rows(cells, list(columns))]
        out.print(f"[bold]{filled.table.title}: {spec}[/]")
        print_columns(rows)
        out.print()
    out.print(legend(filled), markup=False)
    note_failures(progress)  # before anything is written: writing may fail for the same reason
    if json_file:
        write_json(json_file, filled.record())
    page = folder / f"{filled.table.name}.html"  # tables may share a folder
    write_atomically(page, bench_page([filled]))
    out.print(f"page: {page}", markup=False)
    if progress.failures:
        raise TailcloudError(
            f"{failed_text(progress)} could not be measured; see the notes above. Run the same command to try them "
            "again"
        )


def failed_text(progress: BenchProgress) -> str:
    """How many cells or runs failed."""
    return counted(sum(map(len, progress.failures.values())), "cell or run", "cells or runs")


def note_failures(progress: BenchProgress) -> None:
    """Print a note for each failure, with its rows."""
    filled = progress.filled()
    for sentence in dict.fromkeys(text for spec in filled.table.columns for text in remarks(filled.column(spec))):
        print_note(sentence)
