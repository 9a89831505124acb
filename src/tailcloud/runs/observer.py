"""Observers of a run: what training reports, an observer that ignores it, and one that logs it."""

import logging
from typing import Any, Protocol

from tailcloud.formatting import counted
from tailcloud.recipe import Stage


class Observer(Protocol):
    """Receives the progress of a run: a progress bar, a log, a test."""

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins, or continues after ``done`` epochs."""

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is trained, logged and saved; ``line`` is its line of log.jsonl."""

    def note(self, text: str) -> None:
        """A sentence that the user should read."""


class SilentObserver:
    """Ignores everything: for the processes of a shared run that do not print."""

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins."""

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is trained."""

    def note(self, text: str) -> None:
        """A sentence that another process prints."""


class LoggingObserver:
    """Logs at level INFO, to the logger ``tailcloud.train``: nothing is printed unless logging is configured."""

    def __init__(self) -> None:
        self.logger = logging.getLogger("tailcloud.train")

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins."""
        self.logger.info("%s: %s", name, counted(stage.epochs - done, "epoch"))

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is trained."""
        self.logger.info("%s", epoch_text(line))

    def note(self, text: str) -> None:
        """A sentence that the user should read."""
        self.logger.info("%s", text)


def epoch_text(line: dict[str, Any]) -> str:
    """A line of log.jsonl as text; top-1 and balanced accuracy if the epoch was evaluated."""
    accuracy = f", top-1 {line['top1']:.1f} %, balanced {line['balanced_accuracy']:.1f} %" if "top1" in line else ""
    return f"{line['stage']} epoch {line['epoch']}: loss {line['loss']:.4f}{accuracy}"
