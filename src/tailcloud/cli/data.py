"""``tailcloud data``: list, download and verify data sets. ``verify`` of image files is in ``cli/verify.py``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tailcloud.data.benchmarks.download import Progress

Root = Annotated[Path, typer.Option(help="The folder with the data sets.", file_okay=False)]

app = typer.Typer(
    name="data",
    help="List, download and verify data sets.",
    epilog='Example: "tailcloud data get cifar10", then "tailcloud data verify cifar10-lt:100".',
    no_args_is_help=True,
)


@app.command()
def ls(root: Root = Path("data")) -> None:
    """List the data sets that tailcloud knows, and whether they are in ROOT.

    Example: tailcloud data ls --root ~/datasets
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from tailcloud.data.benchmarks.cifar import TUNE
    from tailcloud.data.benchmarks.cifar_files import CIFAR_EDITIONS
    from tailcloud.data.benchmarks.editions import EDITIONS

    table = Table("name", "classes", "train + test", "download", "here", box=box.SIMPLE_HEAD)
    table.add_row("digits-lt, digits-lt:γ", "10", "331 + 500", "none", "built in")
    for name, cifar in CIFAR_EDITIONS.items():
        row = (f"{name}, {name}-lt:γ", str(cifar.classes), "50,000 + 10,000", _megabytes(cifar.archive_bytes))
        table.add_row(*row, _presence(name, root))
    for name, edition in EDITIONS.items():
        numbers = f"{edition.images['train']:,} + {edition.images['test']:,}"
        table.add_row(name, str(edition.classes), numbers, "by hand", _presence_of_files(name, root))
    Console(emoji=False).print(table)
    tuning = " and ".join(f"{name}-lt{TUNE}:γ" for name in CIFAR_EDITIONS)
    typer.echo(f"{tuning} have training images only, to choose settings on.")


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="cifar10 or cifar100.")],
    root: Root = Path("data"),
    url: Annotated[str | None, typer.Option(help="Another address of the archive; it is verified too.")] = None,
) -> None:
    """Download a data set from its publisher, check it, and unpack it under ROOT.

    An interrupted download is continued. Without a network, put the archive into ROOT and run the same command.

    Example: tailcloud data get cifar10 --root data
    """
    from tailcloud.data.benchmarks.download import get as get_cifar

    wanted = name.partition(":")[0].removesuffix("-lt")
    if wanted == "digits":
        typer.echo("digits-lt needs no download: it comes with scikit-learn.")
        return
    with _progress(wanted) as progress:
        message = get_cifar(wanted, root, progress, url=url)
    typer.echo(message)


@app.command()
def verify(
    spec: Annotated[
        str, typer.Argument(metavar="DATA", help="A data set, such as cifar10 or imagenet-lt, or a path to images.")
    ],
    root: Annotated[
        str | None,
        typer.Option(help="The folder with the data sets, or with the images of a list.", show_default="data"),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The report of broken files.  [default: NAME-broken.csv next to the data]"),
    ] = None,
) -> None:
    """Check that a benchmark is as published, or that every image file can be read.

    Prints OK, or what is wrong, with exit status 1. Image files (a folder, a list, imagenet-lt …) are all decoded, and
    a CSV report lists those that cannot be read, each with the reason.

    Example: tailcloud data verify cifar10-lt:100 --root data

    Example: tailcloud data verify photos --report broken.csv
    """
    from tailcloud.data import OWN, is_in_files, open_dataset, parse_spec
    from tailcloud.data.benchmarks.cifar import FOR_TUNING
    from tailcloud.data.readers.open_path import named_root
    from tailcloud.errors import TailcloudError, UsageError

    if is_in_files(spec):
        from tailcloud.cli.verify import verify_files

        verify_files(spec, named_root(root), report)
        return
    if report:
        raise UsageError(f"--report is for image files, and the images of {spec} are in arrays; leave it out")
    dataset = open_dataset(spec, named_root(root))
    faults = [remark for remark in dataset.remarks if remark != FOR_TUNING]
    if faults and parse_spec(spec)[0] != OWN:
        raise TailcloudError("\n".join(faults))
    counts = dataset.profile.counts
    typer.echo(
        f"OK: {dataset.spec} has {len(dataset.train):,} training images ({counts.max():,} … {counts.min():,} a class) "
        f"and {len(dataset.test):,} test images in {dataset.classes} classes, fingerprint {dataset.fingerprint}"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


def _presence(name: str, root: Path) -> str:
    from tailcloud.data.benchmarks.cifar import find_copy

    copy = find_copy(name, root)
    if copy is None:
        return "no"
    return "incomplete" if copy.missing() else "yes"


def _presence_of_files(name: str, root: Path) -> str:
    """Lists and images are downloaded separately, so there may be lists only."""
    from tailcloud.data.benchmarks.file_lists import find_lists, images_of
    from tailcloud.errors import TailcloudError

    try:
        find_lists(name, root)
    except TailcloudError:
        return "no"
    try:
        images_of(name, root)
    except TailcloudError:
        return "lists only"
    return "yes"


@contextmanager
def _progress(title: str) -> "Iterator[Progress]":
    """A bar on a terminal, a line for each tenth elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True, emoji=False)
    if not console.is_terminal:
        yield _DownloadLines()
        return
    columns = "{task.description}", BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, start=False, visible=False)

        def update(here: int, total: int | None) -> None:
            bar.start_task(task)
            bar.update(task, completed=here, total=total, visible=True)

        yield update


class _DownloadLines:
    """Prints a line at each tenth of a download."""

    def __init__(self) -> None:
        self.printed = -1

    def __call__(self, here: int, total: int | None) -> None:
        tenth = here * 10 // total if total else 0
        if tenth > self.printed:
            self.printed = tenth
            typer.echo(f"{_megabytes(here)} of {_megabytes(total) if total else 'an unknown size'}", err=True)
