"""What each stage of a run changed on the test images, in words."""

from collections.abc import Iterator

from tailcloud.formatting import number
from tailcloud.runs.result import AccuracyChange, Result, StageChange


def changes_in_words(result: Result) -> Iterator[str]:
    """A sentence for each later stage that changed something; none for results of older versions, which lack errors."""
    for stage in result.stages:
        if stage.change and (stage.change.top1.points or stage.change.balanced_accuracy.points):
            yield f"{stage.name.replace('stage', 'Stage ')} {_change(stage.change)}."


def _change(change: StageChange) -> str:
    top1, balanced = change.top1, change.balanced_accuracy
    if top1.beyond_chance and balanced.beyond_chance and top1.points * balanced.points < 0:
        named = [f"{_points(top1)} of top-1", f"{_points(balanced)} of balanced accuracy"]
        lost, gained = named if top1.points < 0 else reversed(named)
        return f"gives {lost} for {gained}"
    if not (top1.beyond_chance or balanced.beyond_chance):
        return (
            f"makes no difference beyond chance: top-1 {_with_error(top1)} points, balanced accuracy "
            f"{_with_error(balanced)}"
        )
    return f"{_clause(top1, 'top-1')} and {_clause(balanced, 'balanced accuracy')}"


def _clause(change: AccuracyChange, name: str) -> str:
    if not change.beyond_chance:
        return f"makes no difference to {name} beyond chance ({_with_error(change)} points)"
    return f"{'gains' if change.points > 0 else 'loses'} {_points(change)} of {name}"


def _points(change: AccuracyChange) -> str:
    return f"{number(abs(change.points))} points"


def _with_error(change: AccuracyChange) -> str:
    return f"{number(change.points, signed=True)} ± {number(change.error)}"
