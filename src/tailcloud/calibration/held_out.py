"""Images that were not trained on: what a model says about them, for the few numbers that are fitted on them."""

import numpy as np
import torch
from torch import nn

from tailcloud.calibration.priors import Prior, adjustment, normalised
from tailcloud.calibration.temperature import FEWEST
from tailcloud.data import Dataset
from tailcloud.data.augment.normalize import Normalise
from tailcloud.data.loaders.batch import Batch
from tailcloud.data.loaders.images import Images
from tailcloud.errors import UsageError
from tailcloud.head_transforms import HeldOut
from tailcloud.recipe import Recipe
from tailcloud.training.stages.factory import make_head_transform

MOST_LOGITS = 1 << 22  # one number or two are fitted: a few thousand images tell them


@torch.inference_mode()
def held_out(
    model: nn.Module, images: Images | None, transform: Normalise, assumed: Prior, *, absent: float = 0.0
) -> HeldOut | None:
    """What a model whose outputs assume a mix of classes says about images; None where there are fewer than 20.

    These are all images, or as many as fit, evenly spaced over the part. Computed as the model will be when it is used:
    by PyTorch's own kernels. A class that is not among them counts as ``absent`` images; with 0, none can be of it.
    """
    if images is None or len(images.labels) < FEWEST:
        return None
    model.eval()
    classes, outputs, target = len(assumed), [], []
    for batch in images.in_order(transform):  # one at a time: as floats they need not fit all at once
        few = _few(batch, classes, len(images.labels))
        outputs.append(model(few.images).float())
        target.append(few.target)
    logits, labels = torch.cat(outputs).cpu().double().numpy(), torch.cat(target).cpu().numpy()
    return HeldOut(logits, np.asarray(labels), adjustment(_mix(images, classes, absent), assumed))


def check_held_out(recipe: Recipe, dataset: Dataset) -> None:
    """Refuse a stage that looks at held-out images where there are none."""
    for name in stages_that_look(recipe, dataset):
        if dataset.val:
            continue
        transform = recipe.stages[name].head_transform.name
        needs = f'{name}.head_transform = "{transform}" looks at images that were not trained on'
        if recipe.selection.split:
            raise UsageError(f"{needs}, and no class of {dataset.spec} has an image to spare; take {name} out")
        raise UsageError(
            f"{needs}, and {dataset.spec} has no validation part; train with --set selection.split=0.1, which holds "
            "some out"
        )


def stages_that_look(recipe: Recipe, dataset: Dataset) -> list[str]:
    """The stages whose change of the head is fitted on held-out images."""
    counts = dataset.profile.counts.tolist()
    changes = {name: make_head_transform(stage, counts) for name, stage in recipe.stages.items()}
    return [name for name, change in changes.items() if change.looks_at_held_out]


def _mix(images: Images, classes: int, absent: float) -> Prior:
    """How often the classes are among the held-out images."""
    found = images.labels.cpu().numpy()
    return normalised(np.maximum(np.bincount(found, minlength=classes), absent))


def _few(batch: Batch, classes: int, images: int) -> Batch:
    step = max(1, -(-images * classes // MOST_LOGITS))
    return Batch(batch.images[::step], batch.target[::step])
