"""``tailcloud recipes``: list, show and copy the recipes that come with the package."""

import re
from pathlib import Path
from typing import Annotated

import typer

from tailcloud.cli.console import out
from tailcloud.cli.plugin_option import Plugin

app = typer.Typer(
    no_args_is_help=True,
    help="List, show or copy the recipes that come with tailcloud.",
    epilog='Example: "tailcloud recipes copy cifar10-lt/gcl mine.toml", then "tailcloud train mine.toml".',
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A recipe name, for example cifar10-lt/gcl.")]


@app.command()
def ls(_plugin: Plugin = None) -> None:
    """List the data sets and the methods; a recipe is DATA/METHOD.

    Example: tailcloud recipes ls
    """
    from rich.table import Table

    from tailcloud.recipe import data_sets, load_recipe, shipped

    data = Table("data", "default", "backbone", "epochs", "batch size", box=None, pad_edge=False)
    for name in data_sets():
        recipe = load_recipe(f"{name}/ce")
        data.add_row(name, recipe.data.spec, recipe.model.backbone, str(recipe.stage1.epochs), str(recipe.stage1.batch))
    methods = Table("method", "description", box=None, pad_edge=False)
    for name, file in shipped("methods").items():
        methods.add_row(name, description(file.read_text(encoding="utf-8")))
    out.print(
        data, "", methods, "", "A recipe is DATA/METHOD, for example: tailcloud train cifar10-lt/ldam-drw", sep="\n"
    )


def description(text: str) -> str:
    """The first sentence of the comment at the top of a method's file."""
    lines = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    return re.split(r"(?<!\beq)[:;.](?:\s|$)", " ".join(lines))[0]


@app.command()
def show(
    name: Name,
    resolved: Annotated[bool, typer.Option("--resolved", help="Fill in the method and every default.")] = False,
    _plugin: Plugin = None,
) -> None:
    """Print a recipe.

    Example: tailcloud recipes show digits-lt/gcl --resolved
    """
    from tailcloud.recipe import find_recipe, load_recipe

    text = load_recipe(name).to_toml() if resolved else find_recipe(name).read_text(encoding="utf-8")
    typer.echo(text, nl=False)


@app.command()
def copy(
    name: Name,
    to: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="The file or folder to write.  [default: DATA-METHOD.toml]", show_default=False
        ),
    ] = None,
    _plugin: Plugin = None,
) -> None:
    """Copy a recipe to a file that you can edit; an existing file is not replaced.

    Example: tailcloud recipes copy cifar10-lt/gcl mine.toml
    """
    from tailcloud.errors import TailcloudError
    from tailcloud.files import write_atomically
    from tailcloud.recipe import find_recipe

    text = find_recipe(name).read_text(encoding="utf-8")
    target = to or Path(name.replace("/", "-") + ".toml")
    if target.is_dir():
        target = target / (name.replace("/", "-") + ".toml")
    if target.exists():
        raise TailcloudError(f"{target} exists already; choose another file")
    write_atomically(target, text)
    out.print(f"wrote {target}; edit it, then run: tailcloud train {target}", markup=False)
