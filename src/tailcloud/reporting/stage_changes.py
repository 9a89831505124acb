"""What each stage of a run changed on the test images, in words."""

from collections.abc import Iterator

from tailcloud.evaluation.paired_difference import difference_text
from tailcloud.formatting import number
from tailcloud.profile import GROUPS
from tailcloud.runs.result import AccuracyChange, Result, StageChange


def changes_in_words(result: Result) -> Iterator[str]:
    """A sentence for each later stage that changed something; none for results of older versions, which lack errors.

    Results that lack only the shot groups have the sentence without them.
    """
    for stage in result.stages:
        change = stage.change
        if change and any(one.points for one in (change.top1, change.balanced_accuracy, *change.groups.values())):
            yield f"{stage.name.replace('stage', 'Stage ')} {_change(change)}."


def _change(change: StageChange) -> str:
    top1, balanced, groups = change.top1, change.balanced_accuracy, _groups(change)
    if not (top1.beyond_chance or balanced.beyond_chance):
        if groups:
            return (
                f"changes neither top-1 ({_interval(top1)}) nor balanced accuracy ({_interval(balanced)}) beyond "
                f"chance, but {groups}"
            )
        return f"makes no difference beyond chance: top-1 {_interval(top1)}; balanced accuracy {_interval(balanced)}"
    overall = f"{_clause(top1, 'top-1')} and {_clause(balanced, 'balanced accuracy')}"
    if top1.beyond_chance and balanced.beyond_chance and top1.points * balanced.points < 0:
        named = [f"{_points(top1)} of top-1", f"{_points(balanced)} of balanced accuracy"]
        lost, gained = named if top1.points < 0 else reversed(named)
        overall = f"gives {lost} for {gained}"
    return f"{overall}; {groups}" if groups else overall


def _clause(change: AccuracyChange, name: str) -> str:
    if not change.beyond_chance:
        return f"makes no difference to {name} beyond chance ({_interval(change)})"
    return f"{'gains' if change.points > 0 else 'loses'} {_points(change)} of {name}"


def _groups(change: StageChange) -> str:
    """The shot groups that change beyond chance, by how much: "many-shot falls by 98.0 points, few-shot gains 50.0"."""
    changed = [(name, change.groups[name]) for name in GROUPS if name in change.groups]
    said = [
        f"{name}-shot {'gains' if one.points > 0 else 'falls by'} {number(abs(one.points))}"
        for name, one in changed
        if one.beyond_chance
    ]
    return ", ".join([f"{said[0]} points", *said[1:]]) if said else ""


def _points(change: AccuracyChange) -> str:
    return f"{number(abs(change.points))} points"


def _interval(change: AccuracyChange) -> str:
    return difference_text(change.points, change.error or 0.0)
