"""``tailcloud weights``: list, download and describe pretrained weights."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcloud.cli.console import out

if TYPE_CHECKING:
    from tailcloud.weights.catalogue import CatalogueEntry

app = typer.Typer(
    no_args_is_help=True,
    help="List, download or describe pretrained weights.",
    epilog='Example: "tailcloud weights get resnet50", then "tailcloud train --data photos --set '
    'model.backbone=resnet50 --weights pretrained".',
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
NAME_HELP = "A name of the list, or timm:NAME.TAG."


@app.command()
def ls(as_json: AsJson = False) -> None:
    """List the weights that tailcloud knows, and whether they are here. No request is sent.

    Example: tailcloud weights ls
    """
    import json

    from rich import box
    from rich.console import Console
    from rich.table import Table

    from tailcloud.weights import CATALOGUE
    from tailcloud.weights.catalogue import NOT_MEASURED

    if as_json:
        typer.echo(json.dumps([facts(entry) for entry in CATALOGUE.values()], indent=1))
        return
    columns = ("name", "architecture", "parameters", "GFLOPs", "MB", "pixels", "trained on", "licence", "here")
    table = Table(*columns, box=box.SIMPLE_HEAD)
    for entry in CATALOGUE.values():
        fact = facts(entry)
        figures = f"{entry.parameters or 0:,}", f"{entry.gflops or 0:.2f}", f"{entry.megabytes or 0:.1f}"
        words = str(entry.pixels), entry.trained_on, entry.licence, "yes" if fact["here"] else "no"
        table.add_row(entry.name, entry.architecture, *figures, *words)
    Console(width=max(160, out.width), emoji=False).print(table)
    unmeasured = [entry.name for entry in CATALOGUE.values() if entry.note == NOT_MEASURED]
    out.print(f"Not measured here: {', '.join(unmeasured)}", markup=False)


@app.command()
def get(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help=NAME_HELP)],
    accept_licence: Annotated[
        bool,
        typer.Option("--accept-licence", help="Download weights whose licence is not Apache, MIT or BSD as well."),
    ] = False,
) -> None:
    """Download weights into the cache of huggingface_hub, and check them. What is here already is only checked.

    For a machine without a network: run it on another one, and copy the folder models--… of the cache.

    Example: tailcloud weights get resnet50 timm:convnext_tiny.in12k_ft_in1k
    """
    from tailcloud.weights.resolve import find_entry, resolve_entry

    for entry in [find_entry(name) for name in names]:
        found = resolve_entry(entry, download=True, accept_licence=accept_licence)
        out.print(f"{entry.name} is here: {found.file} (SHA-256 {found.sha256})", markup=False)


@app.command()
def show(name: Annotated[str, typer.Argument(metavar="NAME", help=NAME_HELP)], as_json: AsJson = False) -> None:
    """Print everything that is known about weights. No request is sent.

    Example: tailcloud weights show efficientnet_lite0
    """
    import json

    from tailcloud.cli.console import print_columns
    from tailcloud.weights.resolve import find_entry

    found = facts(find_entry(name))
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    print_columns([(key.replace("_", " "), in_words(value)) for key, value in found.items() if value is not None])


def facts(entry: "CatalogueEntry") -> dict[str, Any]:
    """What is known about weights, and whether they are here, for JSON."""
    from dataclasses import asdict

    from tailcloud.weights.catalogue import PackageFile
    from tailcloud.weights.resolve import local_file

    file, source = local_file(entry), entry.source
    return {
        **{key: value for key, value in asdict(entry).items() if key != "source"},
        "source": str(source),
        "package_licence": source.licence if isinstance(source, PackageFile) else None,
        "revision": None if isinstance(source, PackageFile) else source.revision or "not pinned",
        "sha256": source.sha256 or "not pinned",
        "here": file is not None,
        "file": file,
    }


def in_words(value: object) -> str:
    """A fact for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(f"{each:.4g}" for each in value)
    if isinstance(value, int) and value >= 10_000:
        return f"{value:,}"
    return str(value)
