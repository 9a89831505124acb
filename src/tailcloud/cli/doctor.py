"""``tailcloud doctor``: check the installation, the machine, caches and weights."""

from pathlib import Path
from typing import Annotated

import typer

from tailcloud.cli.console import out, print_note
from tailcloud.cli.options import Device
from tailcloud.errors import UsageError


def doctor(
    device: Device = "auto",
    cache: Annotated[
        list[Path] | None,
        typer.Option(metavar="FOLDER", help="A folder of data.cache or data.feature_cache to check too; repeatable."),
    ] = None,
    time_budget: Annotated[
        str, typer.Option(help="How long it may take: 45s, 5m. Checks that do not fit are named and left out.")
    ] = "50s",
) -> None:
    """Check this installation, and print one page for a bug report.

    Example: tailcloud doctor

    The page says what is installed and which device, threads and kernels are used. Digits are trained for a few epochs
    in every executor that works here, one by one, stopped and resumed, and two at a time: where the same bits are
    promised, bits are compared, elsewhere losses. Caches and pretrained weights are compared with their checksums.
    Nothing is downloaded or changed, and nothing is kept but what compilers cache. The page has no user name and no
    home folder.

    The exit status is 1 if a check failed.
    """
    from tailcloud.auto_recipe.time_budget import parse_budget
    from tailcloud.doctor.page import examine
    from tailcloud.training.devices import pick_device

    seconds = parse_budget(time_budget)
    chosen = pick_device(device)
    for folder in cache or []:
        if not folder.is_dir():
            raise UsageError(f"--cache {folder} is not a folder; name one of data.cache or data.feature_cache")
    page = examine(chosen, cache or [], seconds, lambda what: print_note(f"{what} …"))
    out.print(page.text(), markup=False)
    if page.failed:
        raise typer.Exit(1)
