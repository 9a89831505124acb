"""Start a run from the first stage of another one, so that it is trained once for both."""

from pathlib import Path

from tailcloud.errors import TailcloudError
from tailcloud.recipe import Recipe, differences
from tailcloud.runs.checkpoint import Checkpoint, CheckpointDamaged, load_checkpoint, save_checkpoint
from tailcloud.runs.folder import RunFolder

FIRST = "stage1"
MAY_DIFFER = ("method", "stage2", "stage3")  # fields that do not affect the first stage


def fork_run(parent: RunFolder, child: RunFolder, recipe: Recipe, command: str) -> None:
    """Create a run folder with the first stage of ``parent``, its log and its seconds.

    Training then continues as after an interruption. If this function is killed before the checkpoint is written, the
    new run trains all stages.

    Raises:
        TailcloudError: the recipes differ in a field that affects the first stage, or its checkpoint is missing.
    """
    check_same_start(parent, recipe)
    file = first_stage_checkpoint(parent, recipe)
    try:
        checkpoint = load_checkpoint(file)
    except CheckpointDamaged:
        raise TailcloudError(f"{file} is truncated or altered; train {parent.path} again") from None
    with child.locked():
        child.create(recipe, command)
        for line in parent.log():
            if line["stage"] == FIRST:
                child.append_log(line)
        child.sync_log()
        state = {**checkpoint.state, "recipe": recipe.substance()}
        save_checkpoint(child.checkpoints, FIRST, recipe.stage1.epochs, Checkpoint(checkpoint.tensors, state))


def check_same_start(parent: RunFolder, recipe: Recipe) -> None:
    """Refuse two recipes that differ in first stage or data."""
    then, now = (
        {key: value for key, value in keeps_last_stage(one).training_substance().items() if key not in MAY_DIFFER}
        for one in (parent.recipe(), recipe)
    )
    for field, old, new in differences(then, now):
        raise TailcloudError(
            f"the first stage of {parent.path} cannot be used: its {field} is {old}, and this run has {new}; "
            "train this run from the beginning"
        )


def keeps_last_stage(recipe: Recipe) -> Recipe:
    """The recipe without a choice of the stage, which does not affect the first one."""
    selection = recipe.selection.model_copy(update={"stage": "last"})
    return recipe.model_copy(update={"selection": selection})


def first_stage_checkpoint(parent: RunFolder, recipe: Recipe) -> Path:
    """The checkpoint at the end of a run's first stage."""
    path = first_stage_file(parent, recipe)
    if not path.is_file():
        raise TailcloudError(
            f"the first stage of {parent.path} cannot be used: its checkpoint {path.name} is missing; "
            f'if it is not finished, continue it with "tailcloud train --resume --out {parent.path}"'
        )
    return path


def first_stage_file(folder: RunFolder, recipe: Recipe) -> Path:
    """The path of the checkpoint at the end of a run's first stage."""
    planned = folder.checkpoints / f"{FIRST}-{recipe.stage1.epochs:07d}.safetensors"
    saved = sorted(folder.checkpoints.glob(f"{FIRST}-*.safetensors"))
    return saved[-1] if folder.finished and saved else planned  # a time limit may have ended it earlier
