"""A review of the labels of a run, from its folder to the list of items."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from tailcloud.errors import UsageError
from tailcloud.files import expand_home
from tailcloud.formatting import counted
from tailcloud.launch.run_data import clear_data_cache, open_data
from tailcloud.review.cross_validation import FOLDS, head_recipe, predict_held_out
from tailcloud.review.review_images import (
    ReviewImages,
    duplicates_among,
    open_images,
    run_recipe,
    splits_of,
    without_limits,
)
from tailcloud.review.review_items import ReviewItem, review_items, typical_images
from tailcloud.runs.folder import RunFolder


@dataclass(frozen=True)
class Review:
    """What there is to review in the data of a run; ``samples`` are typical images of each class."""

    images: ReviewImages
    items: list[ReviewItem]
    samples: list[list[int]]


def review_run(
    run: Path, device: torch.device, note: Callable[[str], None], *, data: str | None = None, root: str | None = None
) -> Review:
    """Find suspicious labels and duplicates among all images of the data of a finished run, whatever their split.

    Args:
        run: its folder.
        device: where to compute.
        note: receives sentences on what is done.
        data: where the images are now, if they moved.
        root: the same for the folder that a list starts from.

    Raises:
        TailcloudError: the run is not finished, or its images are not files or not there.
    """
    recipe, result = run_recipe(run, data, root), RunFolder(run).result()
    images, dataset = open_images(recipe)
    used = open_data(recipe)
    left_out = len(images) - sum(map(len, splits_of(used).values()))
    if used.fingerprint != result.dataset.fingerprint:
        note(
            f"{recipe.data.spec} has changed since {run} was trained: the images are reviewed as they are now, and if "
            "it names no splits, the test images may be others than those of the run."
        )
    if left_out:
        note(
            f"The run left out {counted(left_out, 'image')} (data.max_count, data.min_count), which the review has too."
        )
    found = duplicates_among(dataset)
    if found is None:
        note("Duplicates are not looked for, because the images stay in their files.")
    together = np.arange(len(images)) if found is None else found.sets(len(images))
    if images.groups is not None:
        together = images.groups
    heads = head_recipe(without_limits(recipe), len(images), max(dataset.shape[:2]))
    note(
        f"{FOLDS} heads are trained on features of {heads.model.backbone} ({heads.model.weights}), each without a part "
        "of the images, which it then predicts."
    )
    if heads.data.size not in {None, max(dataset.shape[:2])}:
        del used
        clear_data_cache()  # two copies may not fit into memory
        dataset = open_data(heads)
    predictions = predict_held_out(heads, dataset, device, together, note)
    return Review(images, review_items(images, predictions, found), typical_images(images, predictions))


def check_outside(out: Path, run: Path, data: str | None) -> None:
    """Refuse a file in the folder of the images.

    Raises:
        UsageError: ``out`` is there.
    """
    images = expand_home(run_recipe(run, data).data.spec)
    if images.is_dir() and out.resolve().is_relative_to(images.resolve()):
        raise UsageError(
            f"{out} is inside {images}, and a review writes nothing to the folder of the images; choose another place "
            "with --out"
        )
