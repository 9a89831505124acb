"""``tailcloud watch``: follow runs that were started elsewhere."""

from pathlib import Path
from typing import Annotated

import typer


def watch(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, or folders that contain them.")],
) -> None:
    """Follow runs that were started elsewhere: stage, epoch, loss, accuracy by shot group, and time left.

    Examples:

        tailcloud watch runs/gcl

        tailcloud watch runs

    Nothing is written. The command exits when all runs have ended; Ctrl-C stops watching, and the runs continue. For a
    run that was stopped, it prints the command that continues it and exits with status 1.
    """
    from tailcloud.cli.console import print_error, print_note
    from tailcloud.cli.live_table import RunWatcher
    from tailcloud.cli.run_status import check_runs

    check_runs(runs)
    watcher = RunWatcher(runs)
    try:
        watcher.follow()
    except KeyboardInterrupt:
        print_note("Stopped watching; runs continue.")
        return
    problems = [run.problem for run in watcher.runs if run.problem]
    for problem in problems:
        print_error(problem)
    if problems:
        raise typer.Exit(1)
