"""Recipe words of older versions: a recipe that has one is refused with the word of today."""

from collections.abc import Iterator, Mapping
from typing import Any

from tailcloud.errors import UsageError

STAGES = ("stage1", "stage2", "stage3")
OLD_KEYS = {
    "data.plane": "data.loader",
    "augment.area": "augment.crop_area",
    "augment.ratio": "augment.crop_ratio",
    "augment.jitter": "augment.color_jitter",
    "watch": "logging",
    **{f"{stage}.head": f"{stage}.head_transform" for stage in STAGES},
    **{f"{stage}.second": f"{stage}.second_sampler" for stage in STAGES},
}
OLD_HEAD_TRANSFORMS = {"level": "tuned-logit-adjust"}


def check_old_words(table: Mapping[str, Any], file: str) -> None:
    """Refuse a recipe file that was written by an older version."""
    if renamed := ", ".join(renamed_words(table)):
        raise UsageError(
            f"{file} was written by an older tailcloud: {renamed}; rename it there (a run that is not finished has to "
            "be trained again)"
        )


def check_old_settings(table: Mapping[str, Any]) -> None:
    """Refuse settings, such as those of ``--set``, with words of an older version."""
    if renamed := ", ".join(renamed_words(table)):
        raise UsageError(f"a setting has a word of an older tailcloud: {renamed}")


def renamed_words(table: Mapping[str, Any]) -> Iterator[str]:
    """For each old word in a table, such as "data.plane is data.loader now"."""
    for old, new in OLD_KEYS.items():
        if _has(table, *old.split(".")):
            yield f"{old} is {new} now"
    for stage in STAGES:
        for key in ("head", "head_transform"):
            name = _name(table.get(stage), key)
            if name in OLD_HEAD_TRANSFORMS:
                yield f'{stage}.head_transform = "{name}" is "{OLD_HEAD_TRANSFORMS[name]}" now'


def _has(table: Any, *path: str) -> bool:
    for step in path:
        if not isinstance(table, Mapping) or step not in table:
            return False
        table = table[step]
    return True


def _name(stage: Any, key: str) -> Any:
    """The name of a part of a stage, in short or as a table."""
    part = stage.get(key) if isinstance(stage, Mapping) else None
    name = part.get("name") if isinstance(part, Mapping) else part
    return name if isinstance(name, str) else None
