"""Watching runs: bars where there is a terminal, plain lines where there is none."""

from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tailcloud.cli.console import on_terminal, out, say_note
from tailcloud.formatting import number
from tailcloud.recipe import Stage

PLAIN_LINES = 5  # per stage


class Screen:
    """Shows the stages of one run or several, each with loss, accuracy and time left."""

    def __init__(self) -> None:
        self.bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=out,
            disable=not on_terminal(),
        )

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def watch(self, title: str) -> "Watcher":
        """An observer for one run."""
        return Watcher(title, self.bars)


class Watcher:
    """One run on the screen: a bar that starts anew with each stage."""

    def __init__(self, title: str, bars: Progress) -> None:
        self.title, self.bars = title, bars
        self.bar: TaskID = bars.add_task(title, total=None, figures="waiting")
        self.epochs = 0

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """The bar of this stage takes the place of the one before."""
        self.epochs = stage.epochs
        self.bars.reset(
            self.bar, description=f"{self.title} {name}", total=stage.epochs, completed=done, figures="starting"
        )

    def epoch_done(self, line: dict[str, Any]) -> None:
        """Move the bar; without a terminal, print a line every so often."""
        split, accuracy = ("val", line["val_top1"]) if "val_top1" in line else ("test", line.get("top1"))
        figures = f"loss {line['loss']:.3f}"
        if accuracy is not None:
            figures += f"  {split} {number(accuracy)} %"
        self.bars.update(self.bar, completed=line["epoch"], figures=figures)
        every = max(1, self.epochs // PLAIN_LINES)
        if self.bars.disable and (line["epoch"] % every == 0 or line["epoch"] == self.epochs):
            where = f"{line['stage']} epoch {line['epoch']}/{self.epochs}"
            out.print(f"{self.title} {where}  {figures}  {line['seconds']:.2f} s/epoch", markup=False)

    def note(self, text: str) -> None:
        """A sentence beside the bars."""
        say_note(text)
