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
    figures, groups = _figures(change), _groups(change)
    if any(one.beyond_chance for one in figures.values()):
        overall = _trade(figures) or " and ".join(_clause(one, name) for name, one in figures.items())
        return f"{overall}; {groups}" if groups else overall
    if groups:
        unchanged = " nor ".join(f"{name} ({_interval(one)})" for name, one in figures.items())
        return f"{'changes neither' if len(figures) > 1 else 'does not change'} {unchanged} beyond chance, but {groups}"
    unchanged = "; ".join(f"{name} {_interval(one)}" for name, one in figures.items())
    return f"makes no difference beyond chance: {unchanged}"


def _trade(figures: dict[str, AccuracyChange]) -> str:
    """The points of one figure that are given for those of another; "" if none are."""
    changed = sorted((one.points, name) for name, one in figures.items() if one.beyond_chance)
    if not (len(changed) > 1 and changed[0][0] < 0 < changed[-1][0]):
        return ""
    return "gives {} for {}".format(*(f"{_points(figures[name])} of {name}" for _, name in changed))


def _figures(change: StageChange) -> dict[str, AccuracyChange]:
    """Top-1 and balanced accuracy; the latter is not said again where test images are balanced."""
    same = _interval(change.top1) == _interval(change.balanced_accuracy)
    return {"top-1": change.top1} if same else {"top-1": change.top1, "balanced accuracy": change.balanced_accuracy}


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
