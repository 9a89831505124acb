"""``tailcloud bench``: train the runs of a table of the paper, and print measured and published accuracy."""

from pathlib import Path
from typing import Annotated

import typer

from tailcloud.cli.options import Device, Plugin

TABLE_NAMES = "table1, table2, cloud-size (table 3), sampling (table 4), retraining (table 5), ladder or beyond"


def bench(
    table: Annotated[
        str, typer.Argument(metavar="TABLE", help=f"Which table: {TABLE_NAMES}; or a .toml file of your own.")
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Train some cells of the table; repeatable. A text in the name of a data set (cifar10-lt:100) selects "
            "columns; any other text selects rows by label or method (gcl). An exact match selects nothing else.",
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method", metavar="NAME", help="Add a row for another method: your own, or FIRST+SECOND; repeatable."
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="SPEC", help="Add a column for other data, such as cifar10-lt:10; repeatable."),
    ] = None,
    seed: Annotated[
        list[str] | None,
        typer.Option(metavar="N", help="A seed, or a range such as 0-4; repeatable.  [default: 0-2]"),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Shorten stage 1 to N epochs and stage 2 in proportion; results are labelled as shortened.",
        ),
    ] = None,
    root: Annotated[str | None, typer.Option(help="The folder with the data files.")] = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="The parent of the run folders.  [default: runs/bench/TABLE]")
    ] = None,
    device: Device = "auto",
    on: Annotated[
        str | None,
        typer.Option(
            metavar="ray[=ADDRESS]",
            help="Train on a Ray cluster: the local one, or that at HOST:PORT (docs/bench.md).",
        ),
    ] = None,
    gpus: Annotated[
        float | None,
        typer.Option(
            "--gpus-per-run", metavar="SHARE", help="With --on: GPUs per run, 0.5 for half of one.  [default: 1]"
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            "--cores-per-run", metavar="N", help="With --on: CPU cores per run.  [default: those per GPU, or 1]"
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change a field of every recipe; results are labelled as changed."
        ),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all results to this file.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs without training.")] = False,
    _plugin: Plugin = None,
) -> None:
    """Train the runs of a table of the paper, and print measured and published accuracy.

    Examples:

        tailcloud bench table1 --root data

        tailcloud bench table1 --only gcl --only cifar10-lt:100 --seed 0

        tailcloud bench beyond --data cifar100-lt:10 --only cifar100-lt:10 --root data

        tailcloud bench sampling --epochs 5 --json sampling.json

        tailcloud bench table1 --on ray=10.0.0.1:6379 --gpus-per-run 0.125 --root /data --out /shared/table1

    Finished runs are not repeated. To continue an interrupted bench, run the same command again.
    """
    from tailcloud.bench import BenchProtocol, filter_table, plan_bench, read_table
    from tailcloud.bench.bench_runner import on_a_cluster, on_this_machine, take_finished, train_missing
    from tailcloud.bench.ray_cluster import parse_cluster
    from tailcloud.bench.table import with_data, with_methods
    from tailcloud.cli.bench_display import BenchProgress, finish_bench, print_bench_plan
    from tailcloud.cli.console import outlive_readers
    from tailcloud.cli.train import seeds_of
    from tailcloud.files import check_output
    from tailcloud.training.distributed.world import check_single_process

    check_single_process("bench")
    cluster = parse_cluster(on, device, gpus, cores)
    selected = filter_table(with_data(with_methods(read_table(table), methods or []), data or []), only or [])
    output = output or Path("runs") / "bench" / selected.name
    if cluster:  # the machines of a cluster may have other working folders
        root, output = str(Path(root or "data").absolute()), output.absolute()
    protocol = BenchProtocol(seeds_of(seed or ["0-2"]), epochs, settings or [], root)
    folder = output / protocol.folder
    plan = plan_bench(selected, protocol, folder)
    progress = BenchProgress(selected, protocol, plan.runs)
    for cell, error in plan.impossible.items():
        progress.fail(cell, error)
    runs = take_finished(plan.runs, progress)
    if dry_run:
        print_bench_plan(runs, progress)
        return
    outlive_readers()
    check_output("--out", folder, folder=True)
    if json_file:
        check_output("--json", json_file, folder=False)
    train_missing(runs, progress, on_a_cluster(cluster, folder) if cluster else on_this_machine(device))
    finish_bench(progress, folder, json_file)
