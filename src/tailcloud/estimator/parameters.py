"""From the parameters of a classifier to settings of a recipe."""

import os
from collections.abc import Mapping
from typing import Any

from tailcloud.auto_recipe import parse_budget
from tailcloud.data import OWN, parse_spec
from tailcloud.errors import UsageError
from tailcloud.estimator.fit import AtPath, Source
from tailcloud.estimator.inputs import InMemory, as_images, encoded
from tailcloud.estimator.persistence import plain
from tailcloud.recipe.merge import Table, merge

FIELDS = {"method": "method", "seed": "seed", "epochs": "stage1.epochs", "size": "data.size"}
FIELDS |= {"validation_fraction": "selection.split"}
# the words in the middle are scikit-learn's, which looks for them
NO_LABELS = "fit requires y to be passed, but the target y is None: every image of arrays or paths needs a label"


def asked_for(parameters: Mapping[str, Any]) -> Table:
    """The settings that a classifier's parameters ask for; those of ``settings`` lie over the others."""
    said = {field: parameters[name] for name, field in FIELDS.items() if parameters[name] is not None}
    return merge(nested(plain(said)), nested(plain(parameters["settings"] or {})))


def nested(settings: Any) -> Table:
    """Settings whose keys may have dots, as tables: ``{"stage1.lr": 0.05}`` is ``{"stage1": {"lr": 0.05}}``."""
    if not isinstance(settings, Mapping):
        raise UsageError(f'settings is {settings!r}; it should be a dictionary such as {{"stage1.lr": 0.05}}')
    table: Table = {}
    for key, value in settings.items():
        inner = value
        for name in reversed(str(key).split(".")):
            inner = {name: inner}
        table = merge(table, inner)
    return table


def seconds_of(budget: str | float | None) -> float | None:
    """A time budget in seconds."""
    if budget is None or isinstance(budget, str):
        return None if budget is None else parse_budget(budget)
    if not budget > 0:
        raise UsageError(f'time_budget = {budget} should be more than 0 seconds, or text such as "10m"')
    return float(budget)


def source_of(images: Any, labels: Any) -> tuple[Source, Any]:
    """What to train on, and its classes; None for those of a folder, which are known when it is read."""
    if not isinstance(images, str | os.PathLike):
        if labels is None:
            raise UsageError(NO_LABELS)
        pictures = as_images(images)
        classes, positions = encoded(labels, len(pictures))
        return InMemory(pictures, positions, classes), classes
    spec = str(os.fspath(images))
    if labels is not None:
        raise UsageError(f"{spec} has its own labels; leave out y, or give a list of paths")
    if parse_spec(spec)[0] != OWN:
        raise UsageError(
            f'{spec} is no folder; open it with tailcloud.data.open_dataset("{spec}"), and fit its train.images and '
            "train.labels"
        )
    return AtPath(spec), None


def command_of(name: str, parameters: Mapping[str, Any], usual: Mapping[str, Any]) -> str:
    """The call that a run came from, in one line, for its recipe."""
    said = [f"{key}={value!r}" for key, value in parameters.items() if repr(value) != repr(usual[key])]
    return " ".join(f"{name}({', '.join(said)}).fit(...)".split())
