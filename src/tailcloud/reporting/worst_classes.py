"""The worst classes of the tail: accuracy, most frequent wrong predictions, and misclassified images."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tailcloud.profile import tail_group, worst_tail
from tailcloud.reporting.example_images import Example
from tailcloud.reporting.figures.confusion import Confusion, frequent_confusions
from tailcloud.runs.result import Result

CONFUSIONS_LISTED = 4


@dataclass(frozen=True)
class WorstClass:
    """A class with a low accuracy in percent, and what it is confused with."""

    index: int
    accuracy: float
    confusions: Sequence[Confusion]
    examples: Sequence[Example]


def worst_classes(result: Result, examples: Mapping[int, Sequence[Example]]) -> list[WorstClass]:
    """The worst classes of the rarest shot group, worst first; empty if all are always right."""
    worst = worst_tail(result.dataset.counts, result.per_class) if result.per_class else []
    errors = frequent_confusions(result, limit=None) if worst else []
    return [
        WorstClass(
            index,
            result.per_class[index] or 0.0,
            [error for error in errors if error.true == index][:CONFUSIONS_LISTED],
            examples.get(index, ()),
        )
        for index in worst
    ]


def worst_title(result: Result) -> str:
    """The heading above them."""
    return f"The worst {tail_group(result.dataset.counts)}-shot classes"
