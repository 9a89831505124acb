"""A run that starts from the first stage of another one, which is then trained once for both."""

from pathlib import Path

from tailcloud.errors import TailcloudError
from tailcloud.recipe import Recipe, differences
from tailcloud.runs.checkpoint import Checkpoint, CheckpointDamaged, load_checkpoint, save_checkpoint
from tailcloud.runs.folder import RunFolder

FIRST = "stage1"
MAY_DIFFER = ("method", "stage2", "stage3")


def branch(parent: RunFolder, child: RunFolder, recipe: Recipe, command: str) -> None:
    """Make a new run folder whose first stage is trained already: that of ``parent``, with its log and its seconds.

    Training then goes on as it does after an interruption. Refused where the two recipes differ in anything that
    decides the first stage. A folder that is left without its checkpoint, because this was killed, trains all stages.
    """
    check_same_start(parent, recipe)
    found = last_checkpoint(parent, recipe)
    try:
        checkpoint = load_checkpoint(found)
    except CheckpointDamaged:
        raise TailcloudError(f"{found} is cut short or altered; train {parent.path} again") from None
    with child.locked():
        child.create(recipe, command)
        for line in parent.log():
            if line["stage"] == FIRST:
                child.append_log(line)
        state = {**checkpoint.state, "recipe": recipe.substance()}
        save_checkpoint(child.checkpoints, FIRST, recipe.stage1.epochs, Checkpoint(checkpoint.tensors, state))


def check_same_start(parent: RunFolder, recipe: Recipe) -> None:
    """The first stages of two runs are the same, and so is all that they are trained and judged on."""
    then, now = (
        {key: value for key, value in one.substance().items() if key not in MAY_DIFFER}
        for one in (parent.recipe(), recipe)
    )
    for field, old, new in differences(then, now):
        raise TailcloudError(
            f"{parent.path} cannot lend its first stage: its {field} is {old}, and this run's is {new}; "
            "train this run from the beginning"
        )


def last_checkpoint(parent: RunFolder, recipe: Recipe) -> Path:
    """The checkpoint at the end of a run's first stage."""
    path = first_stage_file(parent, recipe)
    if not path.is_file():
        raise TailcloudError(
            f"{parent.path} cannot lend its first stage: there is no {path.name} in its checkpoints; "
            f'if it is not finished, "tailcloud train --resume --out {parent.path}" goes on'
        )
    return path


def first_stage_file(folder: RunFolder, recipe: Recipe) -> Path:
    """Where a run keeps its first stage once that is trained."""
    return folder.checkpoints / f"{FIRST}-{recipe.stage1.epochs:07d}.safetensors"
