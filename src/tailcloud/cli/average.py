"""``tailcloud average``: make one model of several finished runs."""

from pathlib import Path
from typing import Annotated

import typer

from tailcloud.cli.options import Device, Plugin

FIGURES = ("top1", "balanced_accuracy", "many", "medium", "few")


def average(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Finished runs that differ in their seed.")],
    output: Annotated[Path, typer.Option("--out", help="The new run folder.")],
    root: Annotated[str | None, typer.Option(help="The folder with the data files.")] = None,
    device: Device = "auto",
    _plugin: Plugin = None,
) -> None:
    """Make one model of several finished runs: the mean of their logits.

    Example:

        tailcloud average runs/seed0 runs/seed1 runs/seed2 --out runs/average

    Seeds of one recipe make different mistakes, and their average fewer than each. It has the parameters and costs the
    FLOPs of all of them. The new folder works with evaluate, predict, export, report and train --teacher; nothing
    is trained.
    """
    from rich.table import Table

    from tailcloud.cli.console import out, outlive_readers, print_note
    from tailcloud.files import expand_home
    from tailcloud.formatting import number
    from tailcloud.launch.average import average as make_average
    from tailcloud.runs.folder import RunFolder

    outlive_readers()
    made = make_average(runs, output, root=root, device=device)
    for remark in made.remarks:
        print_note(remark)
    table = Table(box=None, pad_edge=False)
    table.add_column("percent", overflow="fold")  # seeds differ at the end of their names
    for name in FIGURES:
        table.add_column(name.replace("_", " "), justify="right")
    members = [(run, RunFolder(expand_home(str(run))).result()) for run in runs]
    for path, result in [*members, (output, made)]:
        top1 = result.picked.top1 if result.picked else result.top1.last
        others = (getattr(result.picked or result, name) for name in FIGURES[1:])
        table.add_row(str(path), *map(number, (top1, *others)))
    out.print(table)
    out.print(f"report: {RunFolder(output).report_file}", markup=False)
