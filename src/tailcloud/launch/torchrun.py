"""``tailcloud train`` under ``torchrun``: several processes share one run, and rank 0 prints."""

import logging
import os
import shlex
from dataclasses import replace

from tailcloud.data.loaders import cache
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.launch.execute import Stopped, execute, resume_advice, resume_command
from tailcloud.launch.run_plan import PlannedRun, TrainRequest, plan_runs
from tailcloud.runs.observer import Observer
from tailcloud.runs.result import Result
from tailcloud.training.distributed.world import World, silent_exit
from tailcloud.training.signals import Terminated


def silence_notes() -> None:
    """Print no notes on this rank, except the progress of a cache: only the process that fills it knows it."""
    logging.getLogger("tailcloud").setLevel(logging.CRITICAL)
    logging.getLogger(cache.__name__).setLevel(logging.INFO)


def plan_shared_run(request: TrainRequest) -> PlannedRun:
    """The one run of a request. If ``torchrun`` restarts the processes after a failure, the run is resumed."""
    runs = None
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0" and not request.resume:
        try:
            runs = plan_runs(replace(request, resume=True))
        except TailcloudError:  # it failed before the run folder was created
            runs = None
    runs = runs or plan_runs(request)
    if len(runs) > 1:
        raise UsageError(
            f"torchrun lets several processes share one run, and this command has {len(runs)}; start them one by "
            'one, or train many runs with "tailcloud bench"'
        )
    return runs[0]


def execute_shared(run: PlannedRun, device: str, observer: Observer, world: World) -> Result:
    """Execute a run in this process of a world; if it is stopped, rank 0 alone says how to resume."""
    try:
        with resume_advice(lambda: f'"{torchrun_resume_command(run)}"', [run.folder]):
            return execute(run, device, observer, world=world)
    except (Stopped, Terminated) as stop:
        if world.rank0:
            raise
        raise silent_exit(stop.exit_code) from None


def torchrun_resume_command(run: PlannedRun) -> str:
    """The command that resumes a shared run; with several machines, the options of torchrun are left out."""
    one_machine = os.environ.get("GROUP_WORLD_SIZE", "1") == "1"
    processes = ["--nproc-per-node", os.environ.get("LOCAL_WORLD_SIZE", "1")] if one_machine else ["…"]
    return " ".join(["torchrun", *processes, "-m", shlex.join(shlex.split(resume_command([run])))])
