"""The stage whose model a run keeps.

That is the last one. With ``selection.stage = "best"`` each stage is compared on the held-out images with the one that
is kept so far, and the earlier model stays if accuracy does not rise (``is_worse``). Differences and their errors are
those of ``evaluation.paired_difference``. Test images have no part in it.

A stage without epochs whose head transform is fitted on the held-out images is not compared on them: it would look
better than it is. It has its own significance test, and belongs to the stage before it: both are kept, or neither.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tailcloud.errors import TailcloudError
from tailcloud.evaluation.paired_difference import (
    BEYOND_CHANCE,
    FIGURE_NAMES,
    PairedDifference,
    SelectionObjective,
    difference_text,
    image_weights,
    paired_difference,
)
from tailcloud.formatting import counted, number
from tailcloud.head_transforms.keep_or_fresh import KeepHead
from tailcloud.recipe import Recipe
from tailcloud.runs.checkpoint import Checkpoint, CheckpointDamaged, TrainingProgress, load_checkpoint
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.observer import Observer
from tailcloud.training.session import Session
from tailcloud.training.stage_metrics import unpack_hits
from tailcloud.training.stages.factory import make_head_transform
from tailcloud.training.stages.start import start_stage, use_new_head


def keep_stage(
    session: Session, folder: RunFolder, progress: TrainingProgress, observer: Observer
) -> dict[str, Any] | None:
    """Choose the stage, and load its model if a later one was trained. Returns ``kept_stage`` of the result.

    None if the last stage is kept without a comparison.
    """
    recipe = session.recipe
    ends = compared_stages(recipe, session.dataset.profile.counts.tolist())
    if recipe.selection.stage == "last" or len(ends) < 2:
        return None
    kept = session.world.from_rank0(partial(choose_stage, session, progress, list(ends)))
    kept["name"] = ends[kept["name"]]
    observer.note(kept["reason"])
    if kept["name"] != list(recipe.stages)[-1]:
        restore_stage(session, folder, kept["name"])
    return kept


def compared_stages(recipe: Recipe, counts: list[int]) -> dict[str, str]:
    """By stage that is compared on held-out images, the stage that its model ends with.

    A head that was never trained is not compared. A transform that is fitted on held-out images, or changes nothing,
    ends the stage before.
    """
    ends: dict[str, str] = {}
    for name, stage in recipe.stages.items():
        transform = make_head_transform(stage, counts)
        not_compared = not stage.epochs and (transform.needs_held_out or isinstance(transform, KeepHead))
        if not_compared and ends:
            ends[list(ends)[-1]] = name
        elif stage.epochs or ends:
            ends[name] = name
    return ends


def choose_stage(session: Session, progress: TrainingProgress, names: Sequence[str]) -> dict[str, Any]:
    """Compare stages on the held-out images in order, each with the one that is kept so far."""
    objective, val = objective_of(session.recipe), session.dataset.val
    assert val is not None
    counts, images = session.dataset.profile.counts, len(val)
    weights, alike = (image_weights(val.labels, counts, each) for each in (objective, "overall"))
    hits = {done["name"]: unpack_hits(done["hits"]["val"], images) for done in progress.finished}
    kept, reasons, comparisons = names[0], [], []
    for later in names[1:]:
        change, top1 = (paired_difference(val.labels, hits[kept], hits[later], each) for each in (weights, alike))
        comparisons.append({"earlier": kept, "later": later, "objective": vars(change), "top1": vars(top1)})
        worse = is_worse(change, top1)
        figures = {FIGURE_NAMES[objective]: change, FIGURE_NAMES["overall"]: top1}
        reasons.append(reason(kept, later, figures, images, worse=worse))
        kept = kept if worse else later
    return {
        "name": kept,
        "reason": " ".join(reasons),
        "objective": objective,
        "images": images,
        "comparisons": comparisons,
    }


def objective_of(recipe: Recipe) -> SelectionObjective:
    """What is compared: classes count alike unless the recipe says otherwise."""
    return recipe.selection.objective or "balanced"


def is_worse(change: PairedDifference, top1: PairedDifference) -> bool:
    """Whether an earlier stage is kept instead of a later one. ``change`` is by the objective.

    It is if ``change`` falls beyond its error, or if it does not rise beyond its error and top-1 falls beyond chance.
    In doubt the later one is kept: it re-balances classes for a reason, and few held-out images are of rare ones.
    """
    falls = change.points < -change.error
    unpaid = change.points <= change.error and top1.points < -BEYOND_CHANCE * top1.error
    return falls or unpaid


def reason(earlier: str, later: str, figures: Mapping[str, PairedDifference], images: int, *, worse: bool) -> str:
    """Which of two stages is kept, and the figures on held-out images that decided it."""
    changes = ", ".join(
        f"{name} from {number(each.before)} to {number(each.after)} ({difference_text(each.points, each.error)})"
        for name, each in figures.items()
    )
    where = f"on {counted(images, 'held-out image')}"
    if worse:
        return f"The model of {earlier} is kept, because {later} is not better {where}: {changes}."
    return f"The model of {later} is kept: {where} it changes {changes}, compared with {earlier}."


def restore_stage(session: Session, folder: RunFolder, name: str) -> None:
    """Load the model at the end of a stage: from the last checkpoint with epochs, and the transforms after it."""
    recipe = session.recipe.until(name)
    trained = [each for each, stage in recipe.stages.items() if stage.epochs][-1]
    checkpoint = session.world.from_rank0(partial(end_of_stage, folder, trained))
    use_new_head(session, trained)
    session.load_weights(checkpoint.group("best") or checkpoint.group("model"))
    names = list(recipe.stages)
    for transformed in names[names.index(trained) + 1 :]:
        start_stage(session, transformed)
    session.keep_until(name)


def end_of_stage(folder: RunFolder, name: str) -> Checkpoint:
    """The checkpoint at the end of a stage: the last one of that stage."""
    files = sorted(folder.checkpoints.glob(f"{name}-*.safetensors"))
    try:
        return load_checkpoint(files[-1])
    except (CheckpointDamaged, IndexError):
        raise TailcloudError(
            f"the model of {name} is the one to keep, and its last checkpoint in {folder.checkpoints} is missing or "
            "damaged; restore it, or train again in another folder"
        ) from None
