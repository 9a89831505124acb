"""``tailcloud recipes``: look at the recipes that come with the package, and take a copy to change."""

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

Name = Annotated[str, typer.Argument(help="A recipe name, for example cifar10-lt/gcl.")]


@app.command()
def ls(_plugin: Plugin = None) -> None:
    """List the data sets and the methods; a recipe is one of each.

    Example: tailcloud recipes ls
    """
    from rich.table import Table

    from tailcloud.recipe import data_sets, load_recipe, shipped

    data = Table("data", "by default", "backbone", "epochs", "batch", box=None, pad_edge=False)
    for name in data_sets():
        recipe = load_recipe(f"{name}/ce")
        data.add_row(name, recipe.data.spec, recipe.model.backbone, str(recipe.stage1.epochs), str(recipe.stage1.batch))
    methods = Table("method", "what it is", box=None, pad_edge=False)
    for name, file in shipped("methods").items():
        methods.add_row(name, title(file.read_text(encoding="utf-8")))
    out.print(
        data, "", methods, "", "A recipe is DATA/METHOD, for example: tailcloud train cifar10-lt/ldam-drw", sep="\n"
    )


def title(text: str) -> str:
    """What a method's file says first about itself."""
    lines = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    return re.split(r"(?<!\beq)[:;.](?:\s|$)", " ".join(lines))[0]


@app.command()
def show(
    name: Name,
    resolved: Annotated[bool, typer.Option("--resolved", help="With every default and the method filled in.")] = False,
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
        Path | None, typer.Argument(help="Where to; the recipe's own name in this folder by default.")
    ] = None,
    _plugin: Plugin = None,
) -> None:
    """Copy a recipe to a file of your own; an existing file is not touched.

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
        raise TailcloudError(f"{target} exists already; name another file")
    write_atomically(target, text)
    out.print(f"{target} is yours to change; train it with: tailcloud train {target}", markup=False)
