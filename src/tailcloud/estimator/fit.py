"""Training behind ``fit``: the same planning and driver as ``tailcloud train``."""

from typing import Any

from tailcloud.formatting import counted
from tailcloud.launch.execute import execute
from tailcloud.launch.run_plan import TrainRequest
from tailcloud.launch.train import plan_run, process_state_restored
from tailcloud.recipe import Stage
from tailcloud.runs.observer import epoch_text
from tailcloud.training.signals import Terminated


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


def fit_run(request: TrainRequest, *, verbose: int, report: bool) -> None:
    """Plan a run and train it in ``request.out``.

    Ctrl-C stays a ``KeyboardInterrupt`` and SIGTERM ends the process, as in any Python code: scikit-learn's searches
    catch every ``Exception`` of a fit and would go on with the next one.
    """
    observer = PrintObserver(verbose)
    with process_state_restored():
        try:
            execute(plan_run(request, observer), request.device, observer, report=report)
        except Terminated as stop:
            raise SystemExit(stop.exit_code) from None
