"""Whether test images are harder than those that were held out of training: then the latter say too much."""

import numpy as np

from tailcloud.confidence_interval import Interval, effective_images, wilson_interval
from tailcloud.evaluation import Predictions
from tailcloud.formatting import number
from tailcloud.runs.observer import Observer
from tailcloud.training.session import Session


def note_held_out_gap(session: Session, observer: Observer) -> None:
    """Remark on a balanced accuracy of the kept weights that is lower on test images than on held-out ones."""
    if session.inputs.val is None:
        return
    scale = session.loss(list(session.kept_recipe.stages.values())[-1]).scale
    held_out, test = (session.predict(images, scale) for images in (session.inputs.val, session.inputs.test))
    remark = held_out_gap(held_out, test, session.dataset.classes)
    if remark:
        session.findings.append(remark)
        observer.note(remark)


def held_out_gap(held_out: Predictions, test: Predictions, classes: int) -> str | None:
    """The remark if the 95 % intervals of balanced accuracy do not overlap; over the classes that both parts have."""
    images = [np.bincount(part.target, minlength=classes) for part in (held_out, test)]
    both = (images[0] > 0) & (images[1] > 0)
    if not both.any():
        return None
    intervals, figures = [], []
    for part, count in zip((held_out, test), images, strict=True):
        hits = np.bincount(part.target[part.predicted == part.target], minlength=classes)
        figures.append(100 * float((hits[both] / count[both]).mean()))
        intervals.append(wilson_interval(figures[-1], effective_images(count[both].tolist())))
    if intervals[1].high >= intervals[0].low:
        return None
    return sentence(figures, intervals)


def sentence(figures: list[float], intervals: list[Interval]) -> str:
    """What differs, and what that means."""
    held_out, test = (f"{number(each)} % (95 %: {part.text})" for each, part in zip(figures, intervals, strict=True))
    return (
        f"Balanced accuracy is {held_out} on the images that were held out of training, and {test} on the test images. "
        "So the held-out images are more like the training images than the test images are (the same object, patient, "
        "camera or day?), and what was chosen and calibrated on them says too much about new images. If images belong "
        "together, name what they share with --set data.group=… (docs/data.md)."
    )
