"""Whether trained models can be averaged: their classes, their normalisation, and the class priors they assume."""

from collections.abc import Sequence

import numpy as np

from tailcloud.calibration.priors import Prior, normalised
from tailcloud.formatting import composed
from tailcloud.runs.model_file import ModelFile

SAME_NORMALISATION = 1e-6  # largest difference of two means or deviations of pixels in [0, 1]
SAME_LOG_PRIOR = 0.05  # nats

Statistics = tuple[Sequence[float], Sequence[float]]  # mean and deviation of each channel


def class_difference(theirs: Sequence[str], ours: Sequence[str], here: str) -> str | None:
    """How the classes of a model differ from ours, those of ``here``; None if they do not.

    A model may be older than names whose accents have one form.
    """
    theirs, ours = list(map(composed, theirs)), list(map(composed, ours))
    if theirs == ours:
        return None
    if len(theirs) != len(ours):
        return f"has {len(theirs)} classes, and {here} has {len(ours)}"
    if sorted(theirs) == sorted(ours):
        return f"has the same classes as {here} in another order"
    place = next(number for number, (one, other) in enumerate(zip(theirs, ours, strict=True)) if one != other)
    return f'has other classes than {here}: number {place + 1} is "{theirs[place]}", not "{ours[place]}"'


def normalisation_difference(theirs: Statistics, ours: Statistics, here: str) -> str | None:
    """How the normalisation of images differs from ours, that of ``here``; None if it does not."""
    pairs = zip([*theirs[0], *theirs[1]], [*ours[0], *ours[1]], strict=True)
    if all(abs(one - other) <= SAME_NORMALISATION for one, other in pairs):
        return None
    their_mean, their_std, our_mean, our_std = map(_short, (*theirs, *ours))
    return f"normalises images by mean {their_mean} and deviation {their_std}, and {here} by {our_mean} and {our_std}"


def _short(numbers: Sequence[float]) -> str:
    return "(" + ", ".join(f"{number:.4g}" for number in numbers) + ")"


def same_prior(one: Prior, other: Prior) -> bool:
    """Whether two class priors are the same for every practical purpose."""
    return bool(np.abs(np.log(one) - np.log(other)).max() < SAME_LOG_PRIOR)


def mean_prior(files: Sequence[ModelFile]) -> Prior | None:
    """The class prior that the mean of the models' logits implies: the normalised geometric mean of theirs.

    None if one of them is unknown.
    """
    logs = [np.log(normalised(file.prior)) for file in files if file.prior is not None]
    return normalised(np.exp(np.mean(logs, axis=0))) if len(logs) == len(files) else None
