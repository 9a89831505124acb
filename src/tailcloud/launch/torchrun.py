"""``tailcloud train`` under ``torchrun``: one run that several processes share, of which one speaks."""

import logging
import os
import shlex
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from tailcloud.cli import console
from tailcloud.cli.progress import Screen
from tailcloud.cli.train_summary import print_result
from tailcloud.data import Dataset
from tailcloud.data.loaders import cache_fill
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.launch.execute import Stopped, to_go_on, train_one
from tailcloud.launch.run_data import open_data
from tailcloud.launch.run_plan import Request, Run, plan_runs, print_plan
from tailcloud.recipe import Stage
from tailcloud.recipe.parameter_names import frozen_remarks
from tailcloud.reporting import write_report
from tailcloud.runs.checkpoint import read_latest_state
from tailcloud.runs.result import Result
from tailcloud.training import loop, signals
from tailcloud.training.devices import check_engine, pick_device, resumed_device
from tailcloud.training.distributed.world import World, process_group, rank_device, silent_exit
from tailcloud.training.tensorboard_log import check_logging


class Silent:
    """Watches a run and says nothing: the chief does."""

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins."""

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is over."""

    def note(self, text: str) -> None:
        """A sentence that the chief says too."""


def train_shared(request: Request, world: World) -> None:
    """Train the one run that a command asks for in all processes of a world."""
    if not world.rank0:
        hush()
    with process_group(world, pick_device(request.device)):
        run = world.from_rank0(partial(the_run, request))
        if request.dry_run:
            world.from_rank0(lambda: print_plan([run], pick_device(request.device)))
            return
        if world.from_rank0(lambda: run.folder.finished):
            result: Result | None = world.from_rank0(partial(look_at, run, request.device))
        else:
            result = train_together(run, request.device, world)
        if result and world.rank0:
            print_result(run, result)


def hush() -> None:
    """Leave notes to the chief, but for how far a cache is: only the process that fills it knows."""
    logging.getLogger("tailcloud").setLevel(logging.CRITICAL)
    logging.getLogger(cache_fill.__name__).setLevel(logging.INFO)


def look_at(run: Run, device: str) -> Result:
    """The result of a run that is finished."""
    console.say_note(f"{run.folder.path} is finished already.")
    return train_one(run, device, Silent())


def the_run(request: Request) -> Run:
    """The run that a command asks for; one that ``torchrun`` starts again after a failure goes on."""
    runs = None
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0" and not request.resume:
        try:
            runs = plan_runs(replace(request, resume=True))
        except TailcloudError:  # it failed before it began
            runs = None
    runs = runs or plan_runs(request)
    if len(runs) > 1:
        raise UsageError(
            f"torchrun lets several processes share one run, and this command asks for {len(runs)}; start them one by "
            'one, or train many runs with "tailcloud bench"'
        )
    return runs[0]


def train_together(run: Run, device: str, world: World) -> Result | None:
    """Train a run to its end; the chief holds its folder, writes its report and has its result."""
    console.speak_as(f"rank {world.rank}")
    with ExitStack() as held:
        kind = world.from_rank0(partial(fitting_device, run, device))
        chosen = world.on_all_ranks(partial(rank_device, world, torch.device(kind)))
        dataset = world.on_all_ranks(partial(open_data, run.recipe))
        world.on_all_ranks(partial(check_same_data, dataset, world.gather(dataset.fingerprint)[0]))
        world.from_rank0(partial(claim, run, held))
        screen = held.enter_context(Screen() if world.rank0 else nullcontext())
        observer = screen.watch(run.title) if screen else Silent()
        for remark in [*frozen_remarks(run.recipe), *dataset.profile.remarks(), *dataset.remarks]:
            observer.note(remark)
        try:
            with signals.handle_sigterm():
                result = loop.train(run.recipe, dataset, run.folder, chosen, observer, world)
        except signals.Terminated:
            if not world.rank0:
                raise silent_exit(signals.Terminated.exit_code) from None
            raise signals.Terminated(f'stopped by SIGTERM; go on with "{started_again(run)}"') from None
        except KeyboardInterrupt:
            if not world.rank0:
                raise silent_exit(Stopped.exit_code) from None
            raise Stopped(f'stopped; go on with "{started_again(run)}"') from None
        if world.rank0:
            write_report([run.folder.path])
        return result


def fitting_device(run: Run, device: str) -> str:
    """The kind of device that the run is for, which has all that its recipe asks for."""
    state = read_latest_state(run.folder.checkpoints) or {}
    chosen = resumed_device(device, state.get("environment", {}).get("device"))
    check_engine(run.recipe.engine, chosen)
    check_logging(run.recipe.logging)
    return chosen.type


def check_same_data(dataset: Dataset, fingerprint: str) -> None:
    """Refuse data that are not those of the chief: the processes would draw other epochs."""
    if dataset.fingerprint != fingerprint:
        raise TailcloudError(
            f"{dataset.spec} is not what rank 0 has under that name (fingerprint {dataset.fingerprint}, there "
            f"{fingerprint}); give all processes the same data"
        )


def claim(run: Run, held: ExitStack) -> None:
    """Take the run's folder for as long as it is ``held``."""
    held.enter_context(run.folder.locked())
    run.folder.claim(run.recipe, run.command)


def started_again(run: Run) -> str:
    """What to type to go on; only who typed them knows the words about other machines."""
    alone = os.environ.get("GROUP_WORLD_SIZE", "1") == "1"
    here = ["torchrun", "--nproc-per-node", os.environ.get("LOCAL_WORLD_SIZE", "1")] if alone else ["torchrun", "…"]
    words = shlex.split(to_go_on([run]))
    return " ".join([*here, "-m", shlex.join(words)])
