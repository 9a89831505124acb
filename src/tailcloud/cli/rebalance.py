"""``tailcloud rebalance``: train another second stage for a finished run."""

from pathlib import Path
from typing import Annotated

import typer

from tailcloud.cli.options import Device, Plugin
from tailcloud.errors import TailcloudError, UsageError, unknown

SECOND_STAGES = {  # option value → the method that has this second stage
    "crt": "crt",
    "lws": "lws",
    "tau-norm": "tau-norm",
    "ncm": "ncm",
    "logit-adjust": "logit-adjust-posthoc",
    "mislas": "mislas",
    "disalign": "disalign",
}


def rebalance(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A finished run folder.")],
    second: Annotated[
        str,
        typer.Option(
            "--with",
            metavar="NAME",
            help=f"The second stage: {', '.join(SECOND_STAGES)}, or that of a plugin's method.",
        ),
    ],
    output: Annotated[Path | None, typer.Option("--out", help="The new run folder.  [default: RUN-NAME]")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a field of the second stage, or add a third one."),
    ] = None,
    device: Device = "auto",
    _plugin: Plugin = None,
) -> None:
    """Re-balance the classifier of a finished run: only the second stage is trained, from the end of the first.

    Examples:

        tailcloud rebalance runs/digits-lt-gcl-seed0 --with crt

        tailcloud rebalance runs/digits-lt-ce-seed0 --with tau-norm --set stage2.head_transform.tau=0.7

    The new folder is a run like any other; its method is called FIRST+SECOND, for example ce+crt.

    The stage is that of the published method: "tailcloud train DATA/FIRST+SECOND" is the same from the start. It is
    faster on features of a few views of each image, which are computed once, and then batch norm and augmentation stay
    as they are: --set stage2.views=4. A run whose first stage was trained on features is re-balanced on features.
    """
    from tailcloud.cli.console import outlive_readers, print_note
    from tailcloud.cli.progress import execute_with_progress
    from tailcloud.cli.train_output import finish_with_errors, print_result
    from tailcloud.launch.command_line import command_line
    from tailcloud.launch.rebalanced_run import rebalanced
    from tailcloud.launch.run_data import open_data
    from tailcloud.launch.run_plan import PlannedRun, check_machine
    from tailcloud.runs.folder import RunFolder
    from tailcloud.runs.fork import fork_run
    from tailcloud.training.devices import pick_device

    method = method_of(second)
    parent, out = RunFolder(run), output or default_folder(run, second)
    recipe = rebalanced(parent.recipe(), method, settings or [])
    if members := parent.result().model.members:  # refuses a run that is not finished, too
        raise UsageError(
            f"{run} is an average of {len(members)} runs, and has no first stage; re-balance each of them, and average "
            "the new runs"
        )
    command = command_line("rebalance", [str(run)], {"--with": second, "--out": str(out), "--set": settings})
    child = PlannedRun(RunFolder(out), recipe, command)
    child.folder.check_free()
    check_machine(recipe, pick_device(device))
    open_data(recipe)  # refuses data that the new stages cannot use
    if recipe.stage2 and recipe.stage2.views and recipe.stage2.epochs:
        print_note(
            f"The second stage trains on features of {recipe.stage2.views} views of each image, which are computed "
            "once. This is a variant of the published method: no other views are drawn, and batch norm stays as it is. "
            "--set stage2.views=0 trains on images."
        )
    outlive_readers()
    fork_run(parent, child.folder, recipe, child.command)
    outcomes = execute_with_progress([child], device)
    if not isinstance(outcomes[0], TailcloudError):
        print_result(child, outcomes[0])
    finish_with_errors([child], outcomes)


def method_of(second: str) -> str:
    """The method that has the second stage of that name: one of ``SECOND_STAGES``, or a plugin's own."""
    from tailcloud.recipe import read_toml
    from tailcloud.recipe.library import PLUGIN_METHODS

    own = {name: name for name, method in PLUGIN_METHODS.items() if "stage2" in read_toml(method)}
    if second in PLUGIN_METHODS and second not in own:
        raise UsageError(f'the method "{second}" has no second stage; add a table [stage2] to it')
    known = own | SECOND_STAGES
    if second not in known:
        raise unknown("second stage", second, known)
    return known[second]


def default_folder(run: Path, second: str) -> Path:
    """A folder next to the run: RUN-NAME."""
    path = run if run.name else run.resolve()
    return path.with_name(f"{path.name}-{second}")
