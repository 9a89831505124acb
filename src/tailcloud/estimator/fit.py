"""``LongTailClassifier.fit``: its arguments as a training request, which is planned and trained like any other."""

import os
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tailcloud.data import OWN, parse_spec
from tailcloud.errors import UsageError
from tailcloud.estimator.inputs import InMemory, as_images, encoded
from tailcloud.estimator.persistence import plain
from tailcloud.formatting import counted
from tailcloud.launch.execute import execute
from tailcloud.launch.run_data import CachedSource, DataSource
from tailcloud.launch.run_plan import TrainRequest
from tailcloud.launch.train import plan_run, process_state_restored, setting_words
from tailcloud.recipe import Stage
from tailcloud.runs.observer import epoch_text
from tailcloud.training.signals import Terminated

FIELDS = {  # parameter of the classifier → field of the recipe
    "method": "method",
    "seed": "seed",
    "epochs": "stage1.epochs",
    "size": "data.size",
    "backbone": "model.backbone",
    "weights": "model.weights",
    "validation_fraction": "selection.split",
}
# scikit-learn's checks look for "requires y to be passed, but the target y is None"
NO_LABELS = "fit requires y to be passed, but the target y is None: every image of arrays or paths needs a label"


def data_of(images: Any, labels: Any) -> tuple[str | DataSource, NDArray[Any] | None]:
    """The data to train on, and their classes; None for a folder: its classes are known once it is read."""
    if not isinstance(images, str | os.PathLike):
        if labels is None:
            raise UsageError(NO_LABELS)
        inputs = as_images(images)
        classes, positions = encoded(labels, len(inputs))
        return CachedSource(InMemory(inputs, positions, classes)), classes
    spec = str(os.fspath(images))
    if labels is not None:
        raise UsageError(f"{spec} has its own labels; leave out y, or give a list of paths")
    if parse_spec(spec)[0] != OWN:
        raise UsageError(
            f'{spec} is not a folder or file; open it with tailcloud.data.open_dataset("{spec}"), and fit its '
            "train.images and train.labels"
        )
    return spec, None


def settings_of(parameters: Mapping[str, Any]) -> list[str]:
    """A classifier's parameters as settings of a recipe; later ones, those of ``settings``, win."""
    fields = {field: plain(parameters[name]) for name, field in FIELDS.items() if parameters[name] is not None}
    settings = plain(parameters["settings"])
    if settings is not None and not isinstance(settings, dict):
        raise UsageError(f'settings is {settings!r}; it should be a dictionary such as {{"stage1.lr": 0.05}}')
    return [*setting_words(fields), *setting_words(settings)]


def call_text(name: str, parameters: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """The call that a run came from, in one line, for its run folder."""
    given = [f"{key}={value!r}" for key, value in parameters.items() if repr(value) != repr(defaults[key])]
    return " ".join(f"{name}({', '.join(given)}).fit(...)".split())


def fit_run(request: TrainRequest, *, verbose: int, report: bool) -> None:
    """Plan a run and train it in ``request.out``.

    Ctrl-C stays a ``KeyboardInterrupt`` and SIGTERM ends the process, as in any Python code: scikit-learn's searches
    catch every ``Exception`` of a fit and would continue with the next one.
    """
    observer = PrintObserver(verbose)
    with process_state_restored():
        try:
            execute(plan_run(request, observer), request.device, observer, report=report)
        except Terminated as stop:
            raise SystemExit(stop.exit_code) from None


class PrintObserver:
    """Prints progress: with ``verbose`` 0 nothing, with 1 notes and stages, with 2 each evaluated epoch too."""

    def __init__(self, verbose: int) -> None:
        self.verbose = verbose

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins."""
        if self.verbose:
            print(f"{name}: {counted(stage.epochs - done, 'epoch')}")

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is trained."""
        if self.verbose > 1 and "top1" in line:
            print(epoch_text(line))

    def note(self, text: str) -> None:
        """A sentence that the user should read."""
        if self.verbose:
            print(f"- {text}")
