"""``tailcloud report``: a page about one run, or a comparison of several."""

from pathlib import Path
from typing import Annotated

import typer


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders: one, or several to compare.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The .html file to write. Without it, RUN/report.html; a comparison needs it."),
    ] = None,
) -> None:
    """Write one self-contained HTML page about a run, or a comparison of several.

        tailcloud report runs/gcl

        tailcloud report runs/ce/seed* runs/gcl/seed* --out comparison.html

    Runs that differ only in their seed become one row, mean ± deviation over seeds; gains are over the row named first.
    No file is replaced but an earlier page.
    """
    from tailcloud.errors import UsageError
    from tailcloud.reporting import write_report

    if len(runs) > 1 and out is None:
        raise UsageError("a comparison of several runs needs a place for its page: add --out FILE.html")
    typer.echo(f"report: {write_report(runs, out)}")
