"""Options of several verbs: ``device: Device = "auto"`` and ``_plugin: Plugin = None``.

``--plugin`` is an option of ``tailcloud`` itself too. Plugins are loaded before the verb starts.
"""

from typing import Annotated

import typer

from tailcloud.cli.console import print_note
from tailcloud.garbage_collection import imports_kept

DEVICES = "auto, cpu, cuda or mps."
Device = Annotated[str, typer.Option(help=DEVICES)]


def load_plugins(context: typer.Context, files: list[str] | None) -> list[str] | None:
    """Load the named files; for a verb, plugins of installed packages as well."""
    of_a_verb = context.parent is not None
    if context.resilient_parsing or not (files or of_a_verb):
        return files
    with imports_kept():  # imports PyTorch
        from tailcloud.plugins import load_entry_points, load_plugin

    for remark in load_entry_points() if of_a_verb else []:
        print_note(remark)
    for file in files or []:
        load_plugin(file)
    return files


Plugin = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        callback=load_plugins,
        help="A Python file with your own losses, samplers …; see docs/extending.md.",
    ),
]
