"""Watching a run: bars where there is a terminal, plain lines where there is none."""

from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tailcloud.cli.console import number, on_terminal, out, say_note
from tailcloud.recipe import Stage

PLAIN_LINES = 10  # per stage


class Watcher:
    """Shows each stage of a run with loss, accuracy and time left."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=out,
            disable=not on_terminal(),
        )
        self.bar: TaskID | None = None
        self.epochs = 0

    def __enter__(self) -> Self:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A new bar."""
        self.epochs = stage.epochs
        self.bar = self.bars.add_task(f"{self.title} {name}", total=stage.epochs, completed=done, figures="")

    def epoch_done(self, line: dict[str, Any]) -> None:
        """Move the bar, or print every tenth of the lines."""
        split, accuracy = ("val", line["val_top1"]) if "val_top1" in line else ("test", line.get("top1"))
        figures = f"loss {line['loss']:.3f}"
        if accuracy is not None:
            figures += f"  {split} {number(accuracy)} %"
        if self.bar is not None:
            self.bars.update(self.bar, completed=line["epoch"], figures=figures)
        every = max(1, self.epochs // PLAIN_LINES)
        if self.bars.disable and (line["epoch"] % every == 0 or line["epoch"] == self.epochs):
            where = f"{line['stage']} epoch {line['epoch']}/{self.epochs}"
            out.print(f"{self.title} {where}  {figures}  {line['seconds']:.2f} s/epoch")

    def note(self, text: str) -> None:
        """A sentence beside the bars."""
        say_note(text)
