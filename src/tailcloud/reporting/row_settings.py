"""Which runs share a row of a table, and labels that distinguish the rows of one method."""

from collections.abc import Mapping, Sequence

from tailcloud.recipe import completed
from tailcloud.reporting.run_record import dotted
from tailcloud.runs.result import Result

NOT_COMPARED = {"format", "data", "method", "seed", "selection.pick"}  # compared elsewhere, or allowed to differ
FIELDS_IN_LABEL = 3


def group_by_settings(results: Sequence[Result]) -> list[tuple[str, tuple[Result, ...]]]:
    """The runs that can be averaged together, in the order of the results, each group with its label."""
    groups: dict[tuple[tuple[str, str], ...], list[Result]] = {}
    for result in results:
        groups.setdefault(tuple(_setting(result).items()), []).append(result)
    settings = [dict(key) for key in groups]
    labels = _numbered([_label(setting, settings) for setting in settings])
    return [(label, tuple(members)) for label, members in zip(labels, groups.values(), strict=True)]


def _setting(result: Result) -> dict[str, str]:
    """What runs must have in common to be averaged: each field as text."""
    model, selection, precision = result.model, result.protocol.selection, result.machine.get("precision")
    common = {
        "method": result.method,
        "device": result.device,
        "precision": str(precision or "unknown precision"),
        "kernels": f"{kernels_of(result)} kernels",
        "selection": "last epoch kept" if selection == "last" else f"{selection} kept",
    }
    if result.recipe:
        fields = dotted(completed(result.recipe))  # an older version wrote fewer of them
        third = fields.pop("stage3.head_transform.name", None)  # only some runs of a method have a third stage
        common["third"] = f"stage3 {third}" if third else "no stage3"
        return common | {key: f"{key} {value}" for key, value in fields.items() if key not in NOT_COMPARED}
    return common | {
        "no recipe": "recipe not recorded",
        "backbone": model.backbone,
        "head": f"{model.head} head",
        "width": f"width {model.width}",
        "parameters": str(model.parameters),
        "epochs": f"{' + '.join(str(stage.epochs) for stage in result.stages)} epochs",
        "split": f"split {result.protocol.split}",
        "best": f"best on {result.top1.best_on}",
    }


def kernels_of(result: Result) -> str:
    """ "plain" (PyTorch's kernels) or "fused"; older runs did not record it and used the plain ones."""
    return str(result.machine.get("kernels", "plain"))


def _label(setting: Mapping[str, str], settings: Sequence[Mapping[str, str]]) -> str:
    """The method; if a table has it in several settings, with the first fields that differ.

    The number of parameters is not used: every table shows it in its own column.
    """
    same_method = [other for other in settings if other["method"] == setting["method"]]
    comparable = [other for other in same_method if ("no recipe" in other) == ("no recipe" in setting)]
    differing = [
        words
        for field, words in setting.items()
        if (len({other[field] for other in comparable if field in other}) > 1 and field != "parameters")
        or (field == "no recipe" and len(comparable) < len(same_method))
    ]
    shown = [*differing[:FIELDS_IN_LABEL], *(["…"] if len(differing) > FIELDS_IN_LABEL else [])]
    return f"{setting['method']} ({', '.join(shown)})" if shown else setting["method"]


def _numbered(labels: Sequence[str]) -> list[str]:
    """Labels that are equal although the settings differ get a number."""
    return [
        f"{label} [{labels[: place + 1].count(label)}]" if labels.count(label) > 1 else label
        for place, label in enumerate(labels)
    ]
