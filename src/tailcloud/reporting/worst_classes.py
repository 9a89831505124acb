"""The worst tail classes: how often they are right, what they are taken for, and images of theirs that went wrong."""

from collections.abc import Sequence
from dataclasses import dataclass

from tailcloud.profile import tail_group, worst_tail
from tailcloud.reporting.example_images import Example, Examples
from tailcloud.reporting.figures.confusion import Confusion, frequent_confusions
from tailcloud.runs.result import Result

TAKEN_FOR = 4


@dataclass(frozen=True)
class Mistaken:
    """A class that is often wrong, and what it is taken for."""

    index: int
    accuracy: float
    taken_for: Sequence[Confusion]
    examples: Sequence[Example]


def worst_classes(result: Result, examples: Examples) -> list[Mistaken]:
    """The worst classes of the rarest shot group, the worst first; none where all are right."""
    worst = worst_tail(result.dataset.counts, result.per_class) if result.per_class else []
    errors = frequent_confusions(result, limit=None) if worst else []
    return [
        Mistaken(
            index,
            result.per_class[index] or 0.0,
            [error for error in errors if error.true == index][:TAKEN_FOR],
            examples.get(index, ()),
        )
        for index in worst
    ]


def worst_title(result: Result) -> str:
    """What the list of them is called."""
    return f"The worst {tail_group(result.dataset.counts)}-shot classes"
