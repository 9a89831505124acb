"""The progress of a run: which epoch of which stage, and what was measured so far. Checkpoints contain it."""

from dataclasses import dataclass, field, fields
from typing import Any

from torch import Tensor


@dataclass
class TrainingProgress:
    """The progress of a run between two epochs, or two steps.

    Figures of stages are plain dicts here, because checkpoints contain them; ``runs.result`` has them typed.
    """

    stage: str = "stage1"
    epoch: int = 0  # epochs of this stage that are done
    seconds: float = 0.0  # spent on this stage, over all resumed parts
    best: dict[str, Any] | None = None  # {"epoch", "top1", "on", "by"} of this stage
    finished: list[dict[str, Any]] = field(default_factory=list)  # the figures of finished stages
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)  # remarks on heads that were changed
    step: int = 0  # steps of the next epoch that are done
    spent: float = 0.0  # seconds spent on these steps

    def state(self) -> dict[str, Any]:
        """Everything but the tensors, for JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "best_weights"}

    def note_best(self, epoch: int, by: float, top1: float, on: str) -> bool:
        """Record an epoch if it beats all before it on the deciding split (``by``); whether it did."""
        if self.best and by <= self.best["by"]:
            return False
        self.best = {"epoch": epoch, "top1": top1, "on": on, "by": by}
        return True

    def next_stage(self, name: str) -> None:
        """Start another stage."""
        self.stage, self.epoch, self.seconds, self.best, self.best_weights = name, 0, 0.0, None, {}
        self.begin_epoch(0)

    def begin_epoch(self, done: int) -> None:
        """Start the epoch after ``done`` epochs."""
        self.epoch, self.step, self.spent = done, 0, 0.0
