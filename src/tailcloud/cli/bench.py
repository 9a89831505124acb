"""``tailcloud bench``: fill a table of the paper, measured beside published."""

from pathlib import Path
from typing import Annotated

import typer

from tailcloud.cli.plugin_option import Plugin

NAMES = "table1, table2, cloud-size (table 3), sampling (table 4) or retraining (table 5)"


def bench(
    table: Annotated[str, typer.Argument(metavar="TABLE", help=f"Which table of the paper: {NAMES}.")],
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Only a part of the table; repeatable. A text in the name of a data set (cifar10-lt:100) chooses "
            "columns; any other one chooses rows, by label or method (gcl). Exact names come before parts of names.",
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method", metavar="NAME", help="A row more, for a method of your own or FIRST+SECOND; repeatable."
        ),
    ] = None,
    seed: Annotated[
        list[str] | None,
        typer.Option(metavar="N", help="A seed; give it several times for several.  [default: 0, 1 and 2]"),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Shorten stage 1 to N epochs, and stage 2 in proportion; labelled as shortened everywhere.",
        ),
    ] = None,
    root: Annotated[str | None, typer.Option(help="The folder that data files are in.")] = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="The folder of the run folders.  [default: runs/bench/TABLE]")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    on: Annotated[
        str | None,
        typer.Option(
            metavar="ray[=ADDRESS]", help="Train on a Ray cluster: the one at hand, or the one at HOST:PORT; see docs."
        ),
    ] = None,
    gpus: Annotated[
        float | None,
        typer.Option("--gpus-per-run", metavar="SHARE", help="With --on: how much of a GPU a run has.  [default: 1]"),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            "--cores-per-run", metavar="N", help="With --on: cores of a run.  [default: its GPU's part, or 1]"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a field of every recipe; labelled everywhere."),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write every figure to this file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs, train nothing.")] = False,
    _plugin: Plugin = None,
) -> None:
    """Fill a table of the paper: what is measured here beside what was published.

    Examples:

        tailcloud bench table1 --root data

        tailcloud bench table1 --only gcl --only cifar10-lt:100 --seed 0

        tailcloud bench sampling --epochs 5 --json sampling.json

        tailcloud bench table1 --on ray=10.0.0.1:6379 --gpus-per-run 0.125 --root /data --out /shared/table1

    Runs that exist are not repeated, and an interrupted bench goes on where it was: just call it again.
    """
    from tailcloud.bench import Protocol, narrowed, plan, read_table
    from tailcloud.bench.bench_runner import on_a_cluster, on_this_machine, take_finished, train_missing
    from tailcloud.bench.ray_cluster import parse_cluster
    from tailcloud.bench.table import with_methods
    from tailcloud.cli.bench_progress import Board
    from tailcloud.cli.bench_summary import conclude, print_steps
    from tailcloud.cli.train import seeds_of
    from tailcloud.files import check_output
    from tailcloud.training.distributed.world import check_single_process

    check_single_process("bench")
    cluster = parse_cluster(on, device, gpus, cores)
    chosen = narrowed(with_methods(read_table(table), methods or []), only or [])
    if cluster:  # every machine takes paths as they are
        root, output = str(Path(root or "data").absolute()), (output or Path("runs") / "bench" / table).absolute()
    protocol = Protocol(seeds_of(seed or ["0", "1", "2"]), epochs, settings or [], root)
    place = (output or Path("runs") / "bench" / table) / protocol.folder
    planned = plan(chosen, protocol, place)
    board = Board(chosen, protocol, planned.runs)
    for cell, sentence in planned.impossible.items():
        board.fail(cell, sentence)
    runs = take_finished(planned.runs, board)
    if dry_run:
        print_steps(runs, board)
        return
    check_output("--out", place, folder=True)
    if json_file:
        check_output("--json", json_file, folder=False)
    train_missing(runs, board, on_a_cluster(cluster, place) if cluster else on_this_machine(device))
    conclude(board, place, json_file)
