"""Results of the runs of a command, in lines for the terminal."""

import shlex
from collections.abc import Sequence

from tailcloud.cli.console import out, say_error
from tailcloud.errors import TailcloudError
from tailcloud.formatting import number
from tailcloud.launch.fleet import Outcome
from tailcloud.launch.run_plan import PlannedRun
from tailcloud.reporting.tables import by_dataset
from tailcloud.runs.result import PickedEpoch, Result, StageResult


def print_outcomes(runs: Sequence[PlannedRun], outcomes: Sequence[Outcome]) -> None:
    """The results of finished runs, their mean, and how to compare several."""
    for run, outcome in zip(runs, outcomes, strict=True):
        if not isinstance(outcome, TailcloudError):
            print_result(run, outcome)
    print_summary([outcome for outcome in outcomes if not isinstance(outcome, TailcloudError)])
    if len(runs) > 1:
        folders = shlex.join(str(run.folder.path) for run in runs)
        out.print(f"compare them: tailcloud report {folders} --out comparison.html", markup=False)


def print_result(run: PlannedRun, result: Result) -> None:
    """The metrics of a run, stage by stage, and the path of its report."""
    out.print(f"{run.title}  {run.folder.report_file}", markup=False)
    for stage in result.stages:
        out.print(f"  {stage.name}  {figures_of(stage)}  ({stage.seconds or 0:.1f} s)")
        if picked := stage.picked:
            chosen = f"kept epoch {picked.epoch}, chosen on {picked.on}"
            out.print(f"  {' ' * len(stage.name)}  {figures_of(picked)}  ({chosen})")


def figures_of(measured: StageResult | PickedEpoch) -> str:
    """The main metrics in one line."""
    return "  ".join(f"{key} {number(getattr(measured, key))}" for key in ("top1", "many", "medium", "few", "ece"))


def print_summary(results: list[Result]) -> None:
    """Mean and standard deviation over the runs of each method that has several."""
    keys = ("top1", "many", "medium", "few", "ece")
    lines: list[tuple[str, ...]] = [("mean ± deviation", "runs", *keys)]
    for table in by_dataset(results):
        for row in (row for row in table.rows if len(row.results) > 1):
            figures = [row.summary(key).text() for key in keys]
            lines.append((f"{row.label}, {table.spec}", str(len(row.results)), *figures))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines if len(lines) > 1 else []:
        out.print(
            "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip(), markup=False
        )


def finish_with_errors(runs: Sequence[PlannedRun], outcomes: Sequence[Outcome]) -> None:
    """Print each error once, with the runs that failed with it.

    Raises:
        TailcloudError: a run failed.
    """
    failed: dict[str, list[str]] = {}
    errors = [outcome for outcome in outcomes if isinstance(outcome, TailcloudError)]
    for run, outcome in zip(runs, outcomes, strict=True):
        if isinstance(outcome, TailcloudError):
            failed.setdefault(str(outcome), []).append(run.title)
    sentences = [f"{', '.join(titles)}: {text}" if len(runs) > 1 else text for text, titles in failed.items()]
    for sentence in sentences[:-1]:
        say_error(sentence)
    if errors:
        raise type(errors[-1])(sentences[-1])
