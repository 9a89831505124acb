"""The log as TensorBoard events, in ``RUN/tensorboard``, if the recipe has ``logging.tensorboard = true``."""

import time
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tailcloud.errors import UsageError
from tailcloud.files import named_in_errors
from tailcloud.recipe import Recipe, Stage
from tailcloud.recipe.schema import Logging
from tailcloud.runs.folder import TENSORBOARD_FOLDER
from tailcloud.runs.observer import Observer

TAGS = {
    "loss": "loss/training",
    "lr": "learning rate",
    "top1": "accuracy/test",
    "val_top1": "accuracy/validation",
    "many": "accuracy by shot group/many",
    "medium": "accuracy by shot group/medium",
    "few": "accuracy by shot group/few",
    "seconds": "seconds/epoch",
}
Values = dict[str, float]


def check_logging(logging: Logging) -> None:
    """Refuse a recipe that needs TensorBoard if it is not installed."""
    if logging.tensorboard and find_spec("tensorboard") is None:
        raise UsageError(
            "logging.tensorboard = true needs the package tensorboard, which is not installed; "
            "install it with: pip install 'tailcloud[tensorboard]'"
        )


def with_tensorboard(recipe: Recipe, folder: Path, observer: Observer) -> Observer:
    """The observer, or one that also writes TensorBoard events if the recipe says so."""
    check_logging(recipe.logging)
    return TensorboardLog(recipe, folder / TENSORBOARD_FOLDER, observer) if recipe.logging.tensorboard else observer


class TensorboardLog:
    """An observer that writes every epoch as events and forwards all calls. Epochs of all stages are counted together.

    A resumed run starts a new file, which replaces the epochs that are trained again.
    """

    def __init__(self, recipe: Recipe, folder: Path, observer: Observer) -> None:
        self.epochs = {name: stage.epochs for name, stage in recipe.stages.items()}
        self.folder, self.observer = folder, observer
        self.file: Path | None = None

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage starts; the first one of this process starts the file."""
        if self.file is None:
            self.file = self.folder / f"events.out.tfevents.{time.time_ns()}.tailcloud"
            self.folder.mkdir(parents=True, exist_ok=True)
            self.append(_header(self.step(name, done) + 1))
        self.observer.stage_started(name, stage, done)

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is done."""
        values = {tag: float(line[key]) for key, tag in TAGS.items() if line.get(key) is not None}
        self.append([_event(self.step(line["stage"], line["epoch"]), values)])
        self.observer.epoch_done(line)

    def note(self, text: str) -> None:
        """Forward a note."""
        self.observer.note(text)

    def step(self, stage: str, epoch: int) -> int:
        """The epochs of all earlier stages and of this one."""
        names = list(self.epochs)
        return sum(self.epochs[name] for name in names[: names.index(stage)]) + epoch

    def append(self, events: Iterable[bytes]) -> None:
        """Append records to the file. It is closed in between, since many runs may train at the same time."""
        from tensorboard.summary.writer.record_writer import RecordWriter

        if self.file:
            with named_in_errors(self.file), self.file.open("ab") as file:
                writer = RecordWriter(file)
                for event in events:
                    writer.write(event)


def _header(step: int) -> Iterator[bytes]:
    """The start of a file: its version, and from which step on it replaces earlier files."""
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog

    yield Event(wall_time=time.time(), file_version="brain.Event:2").SerializeToString()
    start = SessionLog(status=SessionLog.START)
    yield Event(wall_time=time.time(), step=step, session_log=start).SerializeToString()


def _event(step: int, values: Values) -> bytes:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    summary = Summary(value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()])
    content: bytes = Event(wall_time=time.time(), step=step, summary=summary).SerializeToString()
    return content
