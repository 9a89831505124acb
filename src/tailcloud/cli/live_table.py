"""Several runs at a glance: a table that moves where there is a terminal, a line for each epoch where there is none."""

import time
from collections.abc import Sequence
from pathlib import Path

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tailcloud.cli.console import live_display, on_terminal, out
from tailcloud.cli.run_status import Followed, runs_in
from tailcloud.errors import TailcloudError
from tailcloud.formatting import NOT_MEASURED, duration, number
from tailcloud.profile import GROUPS
from tailcloud.reporting.run_record import Epoch

INTERVAL = 0.5  # seconds between two looks
GRACE = 10.0  # seconds in which a folder may bring another run after its last one ended
BLOCKS = "▁▂▃▄▅▆▇█"
COLUMNS = ("run", "", "epoch", "loss", "top-1", *GROUPS, "", "left")
WIDTH = 16  # of a sparkline


class Spectator:
    """Follows every run in some folders until all have ended."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths, self.runs = paths, [Followed(path) for path in runs_in(paths)]
        self.told: dict[Path, int] = {}

    def follow(self) -> None:
        """Look again and again."""
        self.look()
        watched = not self.ended  # where all have ended before, nothing more is to come
        if on_terminal():
            live = Live(self.picture(), console=out, auto_refresh=False)
            with live_display(live):
                self.wait(watched, live)
        else:
            self.wait(watched, None)
        for run in self.runs:
            if run.finished:
                out.print(closing(run), markup=False)

    def wait(self, watched: bool, live: Live | None) -> None:
        """Until every run has ended, and a while longer if more may begin."""
        grace = GRACE if watched and set(self.paths) != {run.path for run in self.runs} else 0.0
        ended = time.monotonic()
        while True:
            if live:
                live.update(self.picture(), refresh=True)
            else:
                self.tell()
            if not self.ended:
                ended = time.monotonic()
            elif time.monotonic() - ended >= grace:
                return
            time.sleep(INTERVAL)
            self.look()

    @property
    def ended(self) -> bool:
        """Whether no run is under way."""
        return all(run.ended for run in self.runs)

    def look(self) -> None:
        """Take in what is new, new runs included."""
        known = {run.path for run in self.runs}
        self.runs += [Followed(path) for path in runs_in(self.paths) if path not in known]
        for run in self.runs:
            if not run.ended:
                run.look()

    def tell(self) -> None:
        """A line for each run that has come further since."""
        for run in self.runs:
            if run.last and len(run.log.lines) != self.told.get(run.path):
                self.told[run.path] = len(run.log.lines)
                out.print(line_of(run, run.last), markup=False)

    def picture(self) -> Table:
        """The table of all runs."""
        table = Table(box=None, pad_edge=False)
        for place, title in enumerate(COLUMNS):
            table.add_column(title, justify="right" if title in COLUMNS[2:8] else "left", no_wrap=place > 0)
        for run in self.runs:
            table.add_row(*row_of(run))
        return table


def row_of(run: Followed) -> list[Text | ProgressBar]:
    """A run in the table."""
    last, total = run.last, sum(run.stages.values())
    done = total if run.finished else len(run.log.lines)
    bar = ProgressBar(total=max(total, 1), completed=done, width=12)
    if last is None:
        return [Text(run.name), bar, Text(condition(run))]
    figures = [number(last.loss, 3), *accuracies(run)]
    where = Text(f"{last.stage} {last.epoch}/{run.stages.get(last.stage, 0)}")
    ending = condition(run) if run.ended else duration(run.left)
    return [Text(run.name), bar, where, *map(Text, figures), Text(sparkline(run.log.lines)), Text(ending)]


def accuracies(run: Followed) -> list[str]:
    """The newest accuracies: top-1 on validation images if there are any, and of the shot groups."""
    measured = next((line for line in reversed(run.log.lines) if line.top1 is not None), None)
    if measured is None:
        return [NOT_MEASURED] * 4
    top1 = f"{number(measured.val_top1)} val" if measured.val_top1 is not None else number(measured.top1)
    return [top1, *(number(getattr(measured, group)) for group in GROUPS)]


def condition(run: Followed) -> str:
    """How a run stands, in a word."""
    return "finished" if run.finished else "stopped" if run.trouble else "starting"


def sparkline(lines: Sequence[Epoch]) -> str:
    """Accuracy over all epochs so far, from 0 to 100 %."""
    values = [line.top1 for line in lines if line.top1 is not None]
    count = min(WIDTH, len(values))
    picked = [values[(place + 1) * len(values) // count - 1] for place in range(count)]
    return "".join(BLOCKS[min(int(value / 100 * len(BLOCKS)), len(BLOCKS) - 1)] for value in picked)


def line_of(run: Followed, last: Epoch) -> str:
    """An epoch as a line of text."""
    where = f"{run.name} {last.stage} epoch {last.epoch}/{run.stages.get(last.stage, 0)}"
    top1, *groups = accuracies(run)
    shots = "  ".join(f"{group} {value}" for group, value in zip(GROUPS, groups, strict=True))
    left = "" if run.ended else f"  {duration(run.left)} left"
    return f"{where}  loss {number(last.loss, 3)}  top-1 {top1}  {shots}{left}"


def closing(run: Followed) -> str:
    """What there is to say about a finished run."""
    there = (run.path / "report.html").is_file()
    page = f"; its page is {Path(run.name) / 'report.html'}" if there else ""
    return f"{run.name} is finished: top-1 {final_accuracy(run)}{page}"


def final_accuracy(run: Followed) -> str:
    """The newest top-1; from the result where the last stage has no epochs, and so no line in the log."""
    if list(run.stages.values())[-1]:
        return accuracies(run)[0]
    from tailcloud.runs.result import read_result

    try:
        return number(read_result(run.path / "result.json").top1.last)
    except TailcloudError:
        return NOT_MEASURED
