"""A time limit: if the machine turns slower than planned, stages end earlier, each with its whole schedule.

The number of steps then depends on the clock. It is written into every checkpoint, so a resumed run keeps it.
"""

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from tailcloud.formatting import duration
from tailcloud.training.schedule import StageSchedule

TOLERANCE, TOLERATED_SECONDS = 0.05, 1.0  # a plan that is off by less is kept
WINDOW = 0.1  # of the stage's time: the pace is measured over so much of it
SHORTEST_WINDOW = 5.0  # seconds
SECONDS_BETWEEN_MARKS = 0.5
WHOLE_SCHEDULE = 0.9  # the share of the schedule that the last step must have reached


@dataclass(frozen=True)
class TimeLimit:
    """When a run should be finished, and what its parts were expected to take.

    Args:
        ends: by ``time.time``, which all processes of a machine share.
        stages: expected seconds of each stage, with its evaluations.
        finishing: expected seconds after the last stage: calibration, files, report.
        least: seconds that all stages together get even if there is no time left: without them there is no model.
    """

    ends: float
    stages: Mapping[str, float]
    finishing: float
    least: float = 0.0

    def seconds_for(self, stage: str, done: float) -> float:
        """What is left for a stage, if the share ``done`` of it is done.

        What is left until the end is divided as it was planned: if the machine is slower, every part gets less.
        """
        names = list(self.stages)
        here = self.stages[stage] * (1 - done)
        later = sum(self.stages[name] for name in names[names.index(stage) + 1 :]) + self.finishing
        left = self.ends - time.time()
        least = min(1.0, self.least / sum(self.stages.values())) if here else 0.0  # of what was planned
        return max(least * here, left * here / (here + later)) if here else 0.0


class StageClock:
    """The schedule of a stage, which ends earlier if the time limit asks for it.

    Args:
        schedule: the schedule so far.
        done: steps of the stage that are done.
        name: the stage.
        limit: None: the schedule stays as it is.
    """

    def __init__(self, schedule: StageSchedule, done: int, name: str, limit: TimeLimit | None) -> None:
        self.schedule, self.done, self.name, self.limit = schedule, done, name, limit
        self.marks = deque([(time.time(), done)])  # (when, steps done)

    def check(self, *, whole_epochs: bool = False) -> bool:
        """Compare the pace with the time that is left; returns whether the stage now has another end.

        ``whole_epochs`` ends a stage after an epoch if at least one more epoch fits. A stage that was shortened gets
        steps back if the machine is faster again.
        """
        now, done = time.time(), self.done
        if self.limit is None or now - self.marks[-1][0] < SECONDS_BETWEEN_MARKS or done <= self.marks[0][1]:
            return False
        self._mark(now, done)
        (start, before), schedule = self.marks[0], self.schedule
        pace = (now - start) / (done - before)
        left = self.limit.seconds_for(self.name, schedule.position(done) / schedule.planned)
        more, needed = min(left / pace, schedule.planned - done), schedule.end - done
        if abs(more - needed) * pace <= max(TOLERATED_SECONDS, TOLERANCE * needed * pace):
            return False
        steps = int(more)
        if whole_epochs and steps >= schedule.steps:
            steps -= (done + steps) % schedule.steps
        self.schedule = schedule.ending_after(done, steps)
        return True

    def _mark(self, now: float, done: int) -> None:
        assert self.limit is not None
        self.marks.append((now, done))
        window = max(SHORTEST_WINDOW, WINDOW * self.limit.stages[self.name])
        while now - self.marks[1][0] > window:  # ends at the last mark, which is of now
            self.marks.popleft()

    @property
    def early_end(self) -> tuple[int, float, int] | None:
        """The changed end of the schedule, for a checkpoint."""
        early = self.schedule.early_end
        return (early.start, early.position, early.end) if early else None

    def remark(self) -> str | None:
        """That the stage ended early, if it did."""
        schedule = self.schedule
        if schedule.end >= schedule.planned:
            return None
        epochs = f"{schedule.end / schedule.steps:.1f} of {schedule.stage.epochs} epochs"
        late = f" ({duration(-over)} too late)" if self.limit and (over := self.limit.ends - time.time()) < 0 else ""
        whole = schedule.position(schedule.end - 1) >= WHOLE_SCHEDULE * schedule.planned
        rate = "went through its whole schedule" if whole else "did not reach the end of its schedule"
        return (
            f"{self.name} ended after {epochs}{late}: the machine turned slower than it was when the time budget was "
            f"planned. The learning rate {rate}."
        )
