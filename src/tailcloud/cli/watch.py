"""``tailcloud watch``: how runs that were started elsewhere are getting on."""

from pathlib import Path
from typing import Annotated

import typer


def watch(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, or folders that hold some.")],
) -> None:
    """Follow runs that were started elsewhere: stage, epoch, loss, accuracy by shot group, and time left.

        tailcloud watch runs/gcl

        tailcloud watch runs

    It only reads, and ends when the runs do. Ctrl-C leaves it; the runs go on. A run that was stopped is named, with
    the command that continues it.
    """
    from tailcloud.cli.console import say_error, say_note
    from tailcloud.cli.live_table import Spectator
    from tailcloud.cli.run_status import check_runs

    check_runs(runs)
    spectator = Spectator(runs)
    try:
        spectator.follow()
    except KeyboardInterrupt:
        say_note("You left; the runs go on.")
        return
    troubles = [run.trouble for run in spectator.runs if run.trouble]
    for sentence in troubles:
        say_error(sentence)
    if troubles:
        raise typer.Exit(1)
