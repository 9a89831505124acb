"""Progress of runs: bars on a terminal, otherwise plain lines."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tailcloud.cli.console import live_display, on_terminal, out, print_note
from tailcloud.formatting import number
from tailcloud.launch.execute import execute_all
from tailcloud.launch.fleet import Outcome
from tailcloud.launch.run_plan import PlannedRun
from tailcloud.recipe import Stage

PLAIN_LINES = 5  # per stage, about
REFRESHES = 4  # per second; drawing many bars takes time from runs that train in this process


def execute_with_progress(runs: Sequence[PlannedRun], device: str) -> list[Outcome]:
    """Execute runs and show their progress; the result of each, or the error that ended it."""
    with shown_progress([run.title for run in runs]) as observers:
        return execute_all(runs, device, observers)


@contextmanager
def shown_progress(titles: Sequence[str]) -> Iterator[list["RunProgress"]]:
    """An observer for each run; progress bars are shown inside the context."""
    bars = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
        console=out,
        refresh_per_second=REFRESHES,
        disable=not on_terminal(),
    )
    notes = set[str]()
    observers = [RunProgress(title, bars, notes) for title in titles]
    if bars.disable:
        yield observers
        return
    with live_display(bars):
        yield observers


class RunProgress:
    """The progress of one run: a bar that starts again with each stage.

    Args:
        title: the run.
        bars: those of all runs of the command.
        notes: what was printed; the runs share it, so that a sentence about their data is printed once.
    """

    def __init__(self, title: str, bars: Progress, notes: set[str]) -> None:
        self.title, self.bars, self.notes = title, bars, notes
        self.bar: TaskID = bars.add_task(title, total=None, figures="waiting")
        self.epochs, self.accuracy, self.evaluated = 0, "", 0  # the last known accuracy, and its epoch

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """The bar of this stage replaces the one of the stage before."""
        self.epochs, self.accuracy = stage.epochs, ""
        self.bars.reset(
            self.bar, description=f"{self.title} {name}", total=stage.epochs, completed=done, figures="starting"
        )

    def epoch_done(self, line: dict[str, Any]) -> None:
        """Move the bar; without a terminal, print about five lines per stage.

        If the epoch was not evaluated, the last known accuracy is shown, with its epoch.
        """
        split, prefix = ("val", "val_") if "val_top1" in line else ("test", "")
        if line.get(f"{prefix}top1") is not None:
            balanced = number(line.get(f"{prefix}balanced_accuracy"))
            self.accuracy = f"  {split} {number(line[f'{prefix}top1'])} %, balanced {balanced} %"
            self.evaluated = line["epoch"]
        earlier = f" (epoch {self.evaluated})" if self.accuracy and self.evaluated != line["epoch"] else ""
        figures = f"loss {line['loss']:.3f}{self.accuracy}{earlier}"
        self.bars.update(self.bar, completed=line["epoch"], figures=figures)
        every = max(1, self.epochs // PLAIN_LINES)
        if self.bars.disable and (line["epoch"] % every == 0 or line["epoch"] == self.epochs):
            where = f"{line['stage']} epoch {line['epoch']}/{self.epochs}"
            out.print(f"{self.title} {where}  {figures}  {line['seconds']:.2f} s/epoch", markup=False)

    def note(self, text: str) -> None:
        """Print a sentence above the bars, once a command."""
        if text not in self.notes:
            self.notes.add(text)
            print_note(text)
