"""The 95 % intervals of the accuracies on a page, and which of their differences a headline may state.

An accuracy of fewer than ``FEW_IMAGES`` test images has its interval beside it. A headline states that two accuracies
differ only if they differ by more than chance:

- Two methods: by more than two accuracies on that many test images do by chance (``beyond_chance``), and, if both have
  several seeds, by more than the seeds do (``beyond_seeds``).
- The few-shot classes of a run: their interval and that of all test images do not overlap.

Older results do not say how many test images a class has. Then nothing is known, and what was measured is stated.
"""

from tailcloud.confidence_interval import Interval, beyond_chance, beyond_seeds, effective_images, wilson_interval
from tailcloud.formatting import counted, percent
from tailcloud.reporting.tables import DatasetTable, MethodRow, gain
from tailcloud.runs.result import Result

FEW_IMAGES = 1000  # the interval of 50 % is then about ± 3 points


def class_interval(result: Result, index: int) -> Interval | None:
    """The interval of a class's accuracy; None if its test images are not known, or there are none."""
    images = result.dataset.test_counts[index] if result.dataset.test_counts else 0
    value = result.per_class[index] if result.per_class else None
    return wilson_interval(value, images) if images and value is not None else None


def group_interval(result: Result, group: str) -> Interval | None:
    """The interval of a shot group, or of "all" classes (balanced accuracy): a mean over classes with test images."""
    value: float | None = result.balanced_accuracy if group == "all" else getattr(result, group)
    images = effective_images(_test_counts(result, group))
    return wilson_interval(value, images) if images and value is not None else None


def top1_interval(result: Result) -> Interval | None:
    """The interval of top-1 accuracy."""
    images = result.dataset.images.get("test", 0)
    return wilson_interval(result.top1.last, images) if images and result.top1.last is not None else None


def interval_note(result: Result, what: str) -> str:
    """The interval of "top1", "all" or a shot group as the start of a note, if it is of few images; else empty."""
    images = result.tested["all" if what == "top1" else what].images
    interval = top1_interval(result) if what == "top1" else group_interval(result, what)
    return f"95\u00a0%: {interval.text}; " if interval and images is not None and images < FEW_IMAGES else ""


def class_text(result: Result, index: int) -> str:
    """A class in words: its accuracy, interval, test images and training images."""
    value = result.per_class[index] if result.per_class else None
    interval = class_interval(result, index)
    tested = f" of {counted(result.dataset.test_counts[index], 'test image')}" if result.dataset.test_counts else ""
    between = f", 95\u00a0%: {interval.text}" if interval else ""
    trained = counted(result.dataset.counts[index], "training image")
    return f"{result.names[index]}: {percent(value)}{tested} correct{between}; {trained}"


def few_differs(result: Result) -> bool:
    """Whether the accuracy in few-shot classes differs from top-1 by more than chance."""
    few, whole = group_interval(result, "few"), top1_interval(result)
    return few is None or whole is None or few.high < whole.low or whole.high < few.low


def clearly_above(table: DatasetTable, row: MethodRow, other: MethodRow, metric: str) -> bool:
    """Whether a method is above another by more than chance; ``metric`` is top1 or balanced_accuracy."""
    above, below = row.summary(metric), other.summary(metric)
    if above.mean is None or below.mean is None or above.mean <= below.mean:
        return False
    difference = gain(row, other, metric)
    if difference.mean is None:  # no seed of both was measured
        return False
    if difference.std is not None and not beyond_seeds(difference.mean, difference.std, difference.n):
        return False
    result = table.example
    images: float = result.dataset.images.get("test", 0)
    if metric == "balanced_accuracy":
        images = effective_images(result.dataset.test_counts) or images
    return not images or beyond_chance(above.mean, below.mean, images)


def _test_counts(result: Result, group: str) -> list[int]:
    tests = result.dataset.test_counts
    return [count for index, count in enumerate(tests) if group in ("all", result.group_of[index])]
