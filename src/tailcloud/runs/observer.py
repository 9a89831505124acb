"""Who watches a run."""

from typing import Any, Protocol

from tailcloud.recipe import Stage


class Observer(Protocol):
    """Somebody who watches a run: a progress bar, a test."""

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins, or goes on after ``done`` epochs."""

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is trained, logged and saved."""

    def note(self, text: str) -> None:
        """A sentence that the person at the keyboard should read."""
