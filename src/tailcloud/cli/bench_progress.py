"""A table that fills in: live where there is a terminal, a line for each run where there is none."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from threading import RLock
from types import TracebackType
from typing import Any, Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from tailcloud.bench import Cell, Filled, Planned, Protocol, Table
from tailcloud.bench.filled_table import Place, fill
from tailcloud.bench.table_text import MARK
from tailcloud.cli.console import live_display, on_terminal, out, say_note
from tailcloud.formatting import counted, number
from tailcloud.recipe import Stage
from tailcloud.runs.result import Result

SHOWN = 4  # runs under way that are named


@dataclass
class Board:
    """What a bench has so far: results and failures by cell, and where the runs under way stand."""

    table: Table
    protocol: Protocol
    planned: Sequence[Planned]
    results: dict[Place, list[Result]] = field(default_factory=dict)
    failures: dict[Place, list[str]] = field(default_factory=dict)
    under_way: dict[str, str] = field(default_factory=dict)  # a run's title → where it stands
    ending: list[Planned] = field(default_factory=list)  # trained to the last epoch, but the result is not written yet
    notes: set[str] = field(default_factory=set)
    lock: RLock = field(default_factory=RLock)

    def __enter__(self) -> Self:
        live = Live(get_renderable=self.picture, console=out, refresh_per_second=2, transient=True)
        self.display = live_display(live) if on_terminal() else nullcontext()
        self.display.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.display.__exit__(kind, error, trace)

    def watch(self, run: Planned) -> "Seat":
        """An observer for one run."""
        return Seat(self, run)

    def finish(self, run: Planned, result: Result, *, new: bool = True) -> None:
        """A run is done: its figures go into the table, and on paper into a line."""
        place = (run.row.key, run.spec)
        with self.lock:
            self.under_way.pop(run.title, None)
            if any(known.protocol.seed == run.recipe.seed for known in self.results.get(place, [])):
                return
            self.results.setdefault(place, []).append(result)
            if new and not on_terminal():
                done = f"{self.done} of {len(self.planned)}"
                out.print(f"{run.title}: {number(result.top1.last)} last epoch ({done} runs)", markup=False)

    def fail(self, place: Place, sentence: str) -> None:
        """A run, or all runs of a cell, cannot be had."""
        with self.lock:
            self.failures.setdefault(place, []).append(sentence)

    def note(self, text: str) -> None:
        """A sentence, once for all runs that have it."""
        with self.lock:
            if text not in self.notes:
                self.notes.add(text)
                say_note(text)

    def look(self) -> None:
        """Take in the runs whose results have been written since."""
        with self.lock:
            for run in [run for run in self.ending if run.folder.finished]:
                self.ending.remove(run)
                self.finish(run, run.folder.result())

    def filled(self) -> Filled:
        """The table as it stands."""
        return fill(self.table, self.results, self.failures, self.protocol)

    @property
    def done(self) -> int:
        """How many runs are finished."""
        return sum(map(len, self.results.values()))

    def picture(self) -> RenderableType:
        """How far it is, which runs are under way, and the table: what does not fit a small terminal is its end."""
        with self.lock:
            self.look()
            label = f", {self.protocol.label}" if self.protocol.label else ""
            head = f"{self.table.title}{label}: {self.done} of {counted(len(self.planned), 'run')} done"
            names = [f"{title}  {where}" for title, where in sorted(self.under_way.items())]
            more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
            return Group(head, *(Text(line, style="dim") for line in names[:SHOWN] + more), self.grid())

    def grid(self) -> Grid:
        """The table, a cell for each row and data set."""
        grid, filled = Grid(box=None, pad_edge=False), self.filled()
        for title in ("", *self.table.columns):
            grid.add_column(title.replace(":", "\nγ = "))
        for row in self.table.rows:
            cells = [cell for cell in filled.cells if cell.row == row]
            grid.add_row(Text(row.label), *(Text(brief(cell)) for cell in cells))
        return grid


def brief(cell: Cell) -> str:
    """82.2 (82.68): the mean so far, and published in brackets."""
    mine = number(cell.summary("top1").mean) if cell.results else "failed" if cell.failures else "…"
    mark = f" {MARK}" if cell.below else ""
    return f"{mine}{mark} ({number(cell.reference.value, 2)})" if cell.reference else f"{mine}{mark}"


@dataclass
class Seat:
    """An observer of one run."""

    board: Board
    run: Planned
    epochs: int = 0

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins; one without epochs is over at once."""
        self.epochs = stage.epochs
        self.at(name, done)

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is over, and perhaps the run."""
        self.at(line["stage"], line["epoch"])

    def at(self, stage: str, epoch: int) -> None:
        """The run has come this far."""
        with self.board.lock:
            self.board.under_way[self.run.title] = f"{stage} epoch {epoch}/{self.epochs}"
            if stage == list(self.run.recipe.stages)[-1] and epoch >= self.epochs:
                self.board.ending.append(self.run)
            self.board.look()

    def note(self, text: str) -> None:
        """A sentence that the user should read."""
        self.board.note(text)
