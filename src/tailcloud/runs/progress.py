"""Where a run stands: which epoch of which stage, what was measured so far. This is what a checkpoint remembers."""

from dataclasses import dataclass, field, fields
from typing import Any

from torch import Tensor


@dataclass
class Progress:
    """The state of a run between two epochs, or two steps."""

    stage: str = "stage1"
    epoch: int = 0  # epochs of this stage that are done
    seconds: float = 0.0  # spent on this stage, over all interruptions
    best: dict[str, Any] | None = None  # {"epoch", "top1", "on", "by"} of this stage
    finished: list[dict[str, Any]] = field(default_factory=list)  # the results of earlier stages
    best_weights: dict[str, Tensor] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)  # what is to be known of heads that were changed
    step: int = 0  # steps of the next epoch that are done
    spent: float = 0.0  # seconds, on these

    def state(self) -> dict[str, Any]:
        """Everything but tensors, as JSON."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "best_weights"}

    def note_best(self, epoch: int, by: float, top1: float, on: str) -> bool:
        """Remember an epoch that beats all before it on the split that decides; whether it did."""
        if self.best and by <= self.best["by"]:
            return False
        self.best = {"epoch": epoch, "top1": top1, "on": on, "by": by}
        return True

    def next_stage(self, name: str) -> None:
        """Go on to another stage, from its start."""
        self.stage, self.epoch, self.seconds, self.best, self.best_weights = name, 0, 0.0, None, {}
        self.begin_epoch(0)

    def begin_epoch(self, done: int) -> None:
        """So many epochs are done, and nothing of the next one."""
        self.epoch, self.step, self.spent = done, 0, 0.0
