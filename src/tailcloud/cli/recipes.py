"""``tailcloud recipes``: list, show and copy the recipes that come with the package."""

import re
from pathlib import Path
from typing import Annotated

import typer

from tailcloud.cli.console import out
from tailcloud.cli.options import Plugin

app = typer.Typer(
    no_args_is_help=True,
    help="List, show or copy the recipes that come with tailcloud.",
    epilog='Example: "tailcloud recipes copy cifar10-lt/gcl mine.toml", then "tailcloud train mine.toml".',
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="A recipe name, for example cifar10-lt/gcl or cifar10-lt:50/gcl.")
]
HEAD = 2  # lines of a recipe before its comment: the command that trains it, and its figures
END = re.compile(r"(?<!\beq)[:;.](?:\s|$)(?![^()]*\))")  # of a first sentence; "eq." is none, nor what is in brackets


@app.command()
def ls(_plugin: Plugin = None) -> None:
    """List the data sets, the methods, and the recipes with names of their own; a recipe is DATA/METHOD.

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
    further = Table("recipe", "data", "description", box=None, pad_edge=False)
    for (name, said), places in further_descriptions().items():
        further.add_row(name, ", ".join(places), said)
    example = "A recipe is DATA/METHOD, for example: tailcloud train cifar10-lt/ldam-drw"
    out.print(data, "", methods, "", further, "", f"{example}, or cifar10-lt:50/ldam-drw for γ = 50", sep="\n")


def further_descriptions() -> dict[tuple[str, str], list[str]]:
    """The recipes that are not named after a method: name and description, and the data sets that have such a one."""
    from tailcloud.recipe import data_sets, find_recipe, further_recipes

    found: dict[tuple[str, str], list[str]] = {}
    for data in data_sets():
        for name in further_recipes(data):
            lines = find_recipe(f"{data}/{name}").read_text(encoding="utf-8").splitlines()[HEAD:]
            found.setdefault((name, description("\n".join(lines))), []).append(data)
    return found


def description(text: str) -> str:
    """The first sentence of the comments of a method or recipe, up to a colon or semicolon."""
    lines = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    return END.split(" ".join(lines))[0]


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
    file = re.sub("[/:]", "-", name) + ".toml"
    target = to or Path(file)
    if target.is_dir():
        target = target / file
    if target.exists():
        raise TailcloudError(f"{target} exists already; choose another file")
    write_atomically(target, text)
    out.print(f"wrote {target}; edit it, then run: tailcloud train {target}", markup=False)
