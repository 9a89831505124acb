"""The output of ``tailcloud watch``: a live table on a terminal, otherwise one line for each new epoch."""

import time
from collections.abc import Sequence
from pathlib import Path

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tailcloud.cli.console import live_display, on_terminal, out
from tailcloud.cli.run_status import RunStatus, find_runs
from tailcloud.errors import TailcloudError
from tailcloud.formatting import NOT_MEASURED, duration, number
from tailcloud.profile import GROUPS
from tailcloud.runs.epoch_log import Epoch

POLL_SECONDS = 0.5
GRACE_SECONDS = 10.0  # after the last run of a folder ended, wait this long for a new one
BLOCKS = "▁▂▃▄▅▆▇█"
COLUMNS = ("run", "", "epoch", "loss", "top-1", *GROUPS, "", "left")
SPARKLINE_WIDTH = 16


class RunWatcher:
    """Follows every run in some folders until all have ended."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths, self.runs = paths, [RunStatus(path) for path in find_runs(paths)]
        self.printed: dict[Path, int] = {}  # lines of the log when a run was last printed

    def follow(self) -> None:
        """Show the runs until all have ended."""
        self.update()
        any_training = not self.ended
        if on_terminal():
            live = Live(self.table(), console=out, auto_refresh=False)
            with live_display(live):
                self.wait(any_training, live)
        else:
            self.wait(any_training, None)
        for run in self.runs:
            if run.finished:
                out.print(closing_line(run), markup=False)

    def wait(self, any_training: bool, live: Live | None) -> None:
        """Update until every run has ended; in a folder where runs were training, another one may still start."""
        may_start = any_training and set(self.paths) != {run.path for run in self.runs}
        grace = GRACE_SECONDS if may_start else 0.0
        last_active = time.monotonic()
        while True:
            if live:
                live.update(self.table(), refresh=True)
            else:
                self.print_new_epochs()
            if not self.ended:
                last_active = time.monotonic()
            elif time.monotonic() - last_active >= grace:
                return
            time.sleep(POLL_SECONDS)
            self.update()

    @property
    def ended(self) -> bool:
        """Whether every run has ended."""
        return all(run.ended for run in self.runs)

    def update(self) -> None:
        """Find new runs, and read what is new in those that have not ended."""
        known = {run.path for run in self.runs}
        self.runs += [RunStatus(path) for path in find_runs(self.paths) if path not in known]
        for run in self.runs:
            if not run.ended:
                run.update()

    def print_new_epochs(self) -> None:
        """Print the newest epoch of each run that has a new one."""
        for run in self.runs:
            if run.last and len(run.log.lines) != self.printed.get(run.path):
                self.printed[run.path] = len(run.log.lines)
                out.print(epoch_line(run, run.last), markup=False)

    def table(self) -> Table:
        """The table of all runs."""
        table = Table(box=None, pad_edge=False)
        for place, title in enumerate(COLUMNS):
            table.add_column(title, justify="right" if title in COLUMNS[2:8] else "left", no_wrap=place > 0)
        for run in self.runs:
            table.add_row(*table_row(run))
        return table


def table_row(run: RunStatus) -> list[Text | ProgressBar]:
    """A run in the table."""
    last, total = run.last, sum(run.stages.values())
    done = total if run.finished else len(run.log.lines)
    bar = ProgressBar(total=max(total, 1), completed=done, width=12)
    if last is None:
        return [Text(run.name), bar, Text(state(run))]
    values = [number(last.loss, 3), *accuracies(run)]
    epoch = Text(f"{last.stage} {last.epoch}/{run.stages.get(last.stage, 0)}")
    ending = state(run) if run.ended else duration(run.seconds_left)
    return [Text(run.name), bar, epoch, *map(Text, values), Text(sparkline(run.log.lines)), Text(ending)]


def accuracies(run: RunStatus) -> list[str]:
    """The newest accuracies: top-1, on validation images if there are any, and that of each shot group."""
    evaluated = next((line for line in reversed(run.log.lines) if line.top1 is not None), None)
    if evaluated is None:
        return [NOT_MEASURED] * 4
    top1 = f"{number(evaluated.val_top1)} val" if evaluated.val_top1 is not None else number(evaluated.top1)
    return [top1, *(number(getattr(evaluated, group)) for group in GROUPS)]


def state(run: RunStatus) -> str:
    """The state of a run that has ended or has no epoch yet, in one word."""
    return "finished" if run.finished else "stopped" if run.problem else "starting"


def sparkline(lines: Sequence[Epoch]) -> str:
    """Accuracy over all epochs so far, from 0 to 100 %."""
    values = [line.top1 for line in lines if line.top1 is not None]
    count = min(SPARKLINE_WIDTH, len(values))
    picked = [values[(place + 1) * len(values) // count - 1] for place in range(count)]
    return "".join(BLOCKS[min(int(value / 100 * len(BLOCKS)), len(BLOCKS) - 1)] for value in picked)


def epoch_line(run: RunStatus, last: Epoch) -> str:
    """An epoch as a line of text."""
    epoch = f"{run.name} {last.stage} epoch {last.epoch}/{run.stages.get(last.stage, 0)}"
    top1, *groups = accuracies(run)
    shots = "  ".join(f"{group} {value}" for group, value in zip(GROUPS, groups, strict=True))
    left = "" if run.ended else f"  {duration(run.seconds_left)} left"
    return f"{epoch}  loss {number(last.loss, 3)}  top-1 {top1}  {shots}{left}"


def closing_line(run: RunStatus) -> str:
    """The last line about a finished run."""
    has_page = (run.path / "report.html").is_file()
    page = f"; report: {Path(run.name) / 'report.html'}" if has_page else ""
    return f"{run.name} is finished: top-1 {final_accuracy(run)}{page}"


def final_accuracy(run: RunStatus) -> str:
    """The newest top-1; from the result if the log has no line of the last stage, or an earlier stage is kept."""
    from tailcloud.runs.result import read_result

    newest = accuracies(run)[0] if run.log.lines and list(run.stages.values())[-1] else None
    try:
        result = read_result(run.path / "result.json")
    except TailcloudError:
        return newest or NOT_MEASURED
    all_kept = len(result.stages_of_model) == len(result.stages)
    return newest if newest and all_kept else number(result.top1.last)
