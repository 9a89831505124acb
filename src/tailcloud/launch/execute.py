"""Every run is trained by ``execute``.

The command line, ``torchrun``, ``bench``, Ray workers, fleets, ``tailcloud.train`` and ``LongTailClassifier.fit`` all
call it with a planned run, a device, an observer and, if several processes share the run, their world.
"""

import errno
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

import torch

from tailcloud.data import Dataset
from tailcloud.data.loaders.batch import WHOLE_BATCH
from tailcloud.errors import TailcloudError, disk_full, explained
from tailcloud.freed_memory import freed_memory_kept
from tailcloud.launch.command_line import command_line
from tailcloud.launch.fleet import After, Job, Outcome, train_on_streams, train_side_by_side
from tailcloud.launch.run_data import open_data
from tailcloud.launch.run_plan import PlannedRun, check_machine
from tailcloud.losses import LOSSES
from tailcloud.recipe import Recipe
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.observer import Observer
from tailcloud.runs.result import Result
from tailcloud.training.devices import pick_device, resumed_device
from tailcloud.training.distributed.world import SINGLE_PROCESS, World, rank_device
from tailcloud.training.signals import Terminated

NOTHING_WRITTEN = "stopped before training started; nothing was written"


class Stopped(TailcloudError):
    """Ctrl-C: the run can be resumed from its last checkpoint."""

    exit_code = 130


def execute(
    run: PlannedRun, device: str, observer: Observer, *, world: World = SINGLE_PROCESS, report: bool = True
) -> Result:
    """Train a run to its end: device, checks, data, run folder, training, report.

    A run folder that exists is continued; a finished run is not trained again. SIGTERM saves a checkpoint first.

    Args:
        run: recipe, data and run folder.
        device: "auto", "cpu", "cuda" or "mps"; "auto" continues a run on the device it was started on.
        observer: receives stages, epochs and notes.
        world: the processes that share this run; all of them call ``execute``. Rank 0 alone reads and writes the
            run folder.
        report: write ``report.html`` into the run folder.

    Returns:
        What ``result.json`` holds, in every process.

    Raises:
        TailcloudError: the run cannot start, failed, or was stopped by SIGTERM (``Terminated``).
    """
    # A process that only distributes runs does not need these.
    from tailcloud.kernels.preparation import prepare
    from tailcloud.reporting import write_report
    from tailcloud.training import loop, signals

    with ExitStack() as lock, full_disk_advice(run.folder):
        chosen = world.from_rank0(partial(checked_device, run, device))
        chosen = world.on_all_ranks(partial(rank_device, world, chosen))
        dataset = None
        if not world.from_rank0(lambda: run.folder.finished):
            prepare(chosen)
            dataset = world.on_all_ranks(partial(open_data, run.recipe, run.source))
            world.on_all_ranks(partial(check_same_data, dataset, world.gather(dataset.fingerprint)[0]))
            taught = world.from_rank0(partial(needs_teachers, run))
            run = world.from_rank0(partial(with_teacher_digests, run, check=taught))
            world.on_all_ranks(partial(check_parts, run.recipe, dataset, world, teachers=taught))
        result: Result | None = world.from_rank0(partial(claim_folder, run, lock))
        if result is not None:
            observer.note(f"{run.folder.path} is finished already.")
        elif dataset is None:  # the folder was finished at first, and is not any more
            raise TailcloudError(f"{run.folder.path} was changed by another process; start the run again")
        else:
            for remark in run_remarks(run.recipe, dataset):
                observer.note(remark)
            with signals.handle_sigterm(), freed_memory_kept(on_cpu=chosen.type == "cpu"):
                loop.train(run.recipe, dataset, run.folder, chosen, observer, world, run.limit)
            result = world.from_rank0(run.folder.result)
        if report and world.rank0 and (dataset or not run.folder.report_file.is_file()):
            write_report([run.folder.path])
    return result


@contextmanager
def full_disk_advice(folder: RunFolder) -> Iterator[None]:
    """If the disk is full after a run has started, the error says that the run can be resumed."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC and folder.exists:
            raise disk_full(error, then="continue with --resume") from None
        raise


def checked_device(run: PlannedRun, device: str) -> torch.device:
    """The device of a run. Raises if the run is not finished and this machine lacks something that it needs."""
    from tailcloud.runs.checkpoint import read_latest_state

    state = read_latest_state(run.folder.checkpoints) or {}
    chosen = resumed_device(device, state.get("environment", {}).get("device"))
    if not run.folder.finished:
        check_machine(run.recipe, chosen)
    return chosen


def check_same_data(dataset: Dataset, fingerprint: str) -> None:
    """Refuse data that differ from those of rank 0: the processes would draw different epochs."""
    if dataset.fingerprint != fingerprint:
        raise TailcloudError(
            f"{dataset.spec} differs from the data of rank 0 (fingerprint {dataset.fingerprint}, rank 0 has "
            f"{fingerprint}); give all processes the same data"
        )


def needs_teachers(run: PlannedRun) -> bool:
    """Whether a run has teachers, and its first stage, the only one that learns from them, is not trained yet."""
    from tailcloud.runs.checkpoint import read_latest_state

    if run.recipe.distill is None:
        return False
    state = read_latest_state(run.folder.checkpoints) or {}
    ended = state.get("ended") or state.get("epoch") == run.recipe.stage1.epochs
    return state.get("stage", "stage1") == "stage1" and not ended


def with_teacher_digests(run: PlannedRun, *, check: bool) -> PlannedRun:
    """The run with the digests of its teachers in its recipe: those that its folder records, or those of the files."""
    from tailcloud.training.teachers import check_digests

    distill = run.recipe.distill
    if distill is None:
        return run
    recorded = run.folder.recipe().distill if run.folder.exists else None
    if recorded and recorded.teachers == distill.teachers:
        distill = distill.model_copy(update={"sha256": recorded.sha256})
    digests = check_digests(distill) if check else distill.sha256
    updated = distill.model_copy(update={"sha256": digests})
    return replace(run, recipe=run.recipe.model_copy(update={"distill": updated}))


def check_parts(recipe: Recipe, dataset: Dataset, world: World, *, teachers: bool) -> None:
    """Refuse what cannot be trained before the run folder is written.

    That is weights of another network, a width that the network does not have, losses of micro-batches, and teachers of
    other classes.
    """
    from tailcloud.classifier import meta_backbone
    from tailcloud.training.engine import check_losses
    from tailcloud.training.model import first_model, normalised_for
    from tailcloud.training.teachers import load_teachers

    if recipe.model.pretrained:
        dataset = normalised_for(first_model(recipe, dataset)[1], dataset)
    elif recipe.model.width != 1:
        meta_backbone(recipe.model.backbone, recipe.model.width)
    if world.share(recipe.engine.accumulate) != WHOLE_BATCH:
        check_losses(recipe, dataset.profile.counts.tolist())
    if recipe.distill and teachers:
        load_teachers(recipe.distill, dataset)


def claim_folder(run: PlannedRun, lock: ExitStack) -> Result | None:
    """Lock the run folder and start the run in it, or check that it holds this run; the result of a finished run."""
    lock.enter_context(run.folder.locked())
    run.folder.claim(run.recipe, run.command)
    return run.folder.result() if run.folder.finished else None


def run_remarks(recipe: Recipe, dataset: Dataset) -> list[str]:
    """What the user should know about a recipe and its data before training."""
    from tailcloud.recipe.parameter_names import frozen_remarks

    clouds = any(getattr(LOSSES[stage.loss.name], "clouds", False) for stage in recipe.stages.values())
    sizeless = ["All clouds of the loss have size 0, so they change nothing."]
    return [
        *frozen_remarks(recipe),
        *dataset.count_remarks,
        *(sizeless if clouds and dataset.profile.is_balanced else []),
        *dataset.remarks,
    ]


def execute_all(runs: Sequence[PlannedRun], device: str, observers: Sequence[Observer]) -> list[Outcome]:
    """Execute several runs, at the same time on the CPU or a GPU; the result of each, or the error that ended it.

    Raises:
        Stopped: Ctrl-C.
        Terminated: SIGTERM. Both say how to resume.
    """
    with resume_advice(lambda: f'"{resume_command(runs)}"', [run.folder for run in runs]):
        return run_jobs([partial(execute, run, device) for run in runs], observers, device)


@contextmanager
def resume_advice(command: Callable[[], str], folders: Sequence[RunFolder]) -> Iterator[None]:
    """If training in these folders is stopped inside, the error says how to resume: with this ``command``.

    Raises:
        Stopped: Ctrl-C.
        Terminated: SIGTERM.
    """
    try:
        yield
    except KeyboardInterrupt:
        if not any(folder.exists for folder in folders):
            raise Stopped(NOTHING_WRITTEN) from None
        if not any(folder.checkpoints.is_dir() and any(folder.checkpoints.iterdir()) for folder in folders):
            raise Stopped(f"stopped before the first checkpoint; start again with {command()}") from None
        raise Stopped(f"stopped; training is saved up to its last checkpoint; continue with {command()}") from None
    except Terminated:
        if not any(folder.exists for folder in folders):
            raise Terminated(f"{NOTHING_WRITTEN} (SIGTERM)") from None
        raise Terminated(f"stopped by SIGTERM; continue with {command()}") from None


def resume_command(runs: Sequence[PlannedRun]) -> str:
    """The command that resumes runs of this process."""
    if len(runs) > 1:
        words = sys.argv[1:] if "--resume" in sys.argv else [*sys.argv[1:], "--resume"]
        seeds = {run.recipe.seed for run in runs}
        if len(seeds) == len(runs) and not any(word.partition("=")[0] == "--out" for word in words):
            words = [*words, "--out", str(runs[0].folder.path.parent)]  # a chosen method is a part of this path
        return shlex.join(["tailcloud", *words])
    return command_line("train", ["--resume"], {"--out": str(runs[0].folder.path)})


def run_jobs(
    jobs: Sequence[Job], observers: Sequence[Observer], device: str, after: Sequence[After | None] | None = None
) -> list[Outcome]:
    """Run all jobs, at the same time if there are several and the device allows it; SIGTERM ends all.

    ``after`` has what each job waits for. A job must come after those that it waits for.
    """
    kind = pick_device(device).type
    if len(jobs) > 1 and kind == "cpu":
        outcomes = train_side_by_side(jobs, observers, after)
    elif len(jobs) > 1 and kind == "cuda":
        outcomes = train_on_streams(jobs, observers, after=after)
    else:
        outcomes = [run_job(job, observer) for job, observer in zip(jobs, observers, strict=True)]
    for outcome in outcomes:
        if isinstance(outcome, Terminated):
            raise outcome
    return outcomes


def run_job(job: Job, observer: Observer) -> Outcome:
    """Run one job in this thread; an error with an explanation is its outcome."""
    try:
        return job(observer)
    except Terminated:
        raise
    except Exception as error:
        explanation = explained(error)
        if explanation is None:
            raise
        return explanation
