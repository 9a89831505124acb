"""``tailcloud report``: a page about one run, or a comparison of several, which can be a table too."""

from pathlib import Path
from typing import Annotated

import typer

from tailcloud.cli.options import Plugin


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders: one, or several to compare.")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The .html file to write, or .csv, .md or .tex for a table; required for a comparison.  "
            "[default: RUN/report.html]",
            show_default=False,
        ),
    ] = None,
    embedding: Annotated[
        bool, typer.Option("--embedding", help="Write a page about the embeddings instead: t-SNE maps and measures.")
    ] = False,
    root: Annotated[
        str | None, typer.Option(help="With --embedding: the folder with the data files.", show_default=False)
    ] = None,
    _plugin: Plugin = None,
) -> None:
    """Write one self-contained HTML page about a run, or a comparison of several.

    Examples:

        tailcloud report runs/gcl

        tailcloud report runs/ce/seed* runs/gcl/seed* --out comparison.html

        tailcloud report runs/ce/seed* runs/gcl/seed* --out comparison.tex

        tailcloud report --embedding runs/ce/seed0 runs/gcl/seed0 --out embedding.html

    Runs that differ only in their seed become one row, mean ± standard deviation over seeds; gains are over the first
    row. FILE.csv has the rows of the comparison in full precision, FILE.md and FILE.tex as text, "82.9 ± 0.4". An
    earlier report is replaced; any other file is an error.
    """
    from tailcloud.errors import UsageError
    from tailcloud.reporting import write_report

    if len(runs) > 1 and out is None:
        raise UsageError("a comparison of several runs needs --out FILE.html, or .csv, .md or .tex for a table")
    if embedding:
        from tailcloud.reporting.embedding_page import write_embedding
        from tailcloud.training.devices import pick_device

        typer.echo(f"report: {write_embedding(runs, out, root, pick_device('auto'))}")
        return
    if root is not None:
        raise UsageError(f"--root {root} is only for --embedding: other reports read no images; leave it out")
    typer.echo(f"report: {write_report(runs, out)}")
