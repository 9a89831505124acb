"""Runs as tasks of a Ray cluster.

A run that needs the first stage of another one, or teachers, starts when these are finished. A run that loses its
worker or machine is tried again, from its checkpoint if the new machine sees it, otherwise from the beginning.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

from tailcloud import plugins
from tailcloud.bench.folder_transfer import folder_copy
from tailcloud.bench.plan import BenchStep, in_order, needed_folders
from tailcloud.bench.ray_cluster import RunResources
from tailcloud.bench.ray_worker import Mailbox, WorkerSetup, work
from tailcloud.errors import TailcloudError, explained
from tailcloud.files import TEMPORARY, named_in_errors, write_atomically
from tailcloud.launch.fleet import Job, Killed, Outcome
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.observer import Observer

RETRIES = 3  # of a run that loses its worker
POLL_SECONDS = 0.2  # between checks of the cluster


@dataclass(frozen=True)
class RayTask:
    """A step of a bench, the function that trains it, and its observer."""

    step: BenchStep
    job: Job
    observer: Observer


def train_on_ray(
    ray: Any, tasks: Sequence[RayTask], out: Path, resources: RunResources
) -> Iterator[tuple[BenchStep, Outcome]]:
    """Train all runs, as many at a time as the cluster holds; yields each outcome when the run ends.

    ``out`` is the parent of the run folders, an absolute path. A machine that shares it trains in it; any other
    machine trains under the same path of its own disk, and the files are copied here when the run ends. Closing the
    iterator, for example after Ctrl-C, cancels all tasks; finished runs stay.
    """
    by_run = {task.step.run.title: task for task in tasks}
    ordered = [by_run[step.run.title] for step in in_order([task.step for task in tasks])]
    with token_in(out) as token:
        setup = WorkerSetup(token, Path.cwd(), resources.cores, tuple(plugins.loaded_files()))
        submitted = SubmittedTasks(ray, setup, resources, ray.remote(num_cpus=0, max_restarts=-1)(Mailbox).remote())
        pending = {submitted.submit(number, task): task.step for number, task in enumerate(ordered)}
        try:
            while pending:
                done, _ = ray.wait(list(pending), timeout=POLL_SECONDS)
                for number, what, details in submitted.messages():
                    getattr(ordered[number].observer, what)(*details)
                for reference in done:
                    step = pending.pop(reference)
                    yield step, submitted.outcome(step, reference)
        finally:
            for reference in pending:
                ray.cancel(reference, force=True)


@contextmanager
def token_in(folder: Path) -> Iterator[Path]:
    """A file that only machines with the same file system see."""
    token = folder / f"{TEMPORARY}token-{uuid4().hex}"  # not the name of a file that was left behind
    with named_in_errors(folder):
        write_atomically(token, "A machine that can read this file shares the folder.\n")
    try:
        yield token
    finally:
        token.unlink(missing_ok=True)


@dataclass
class SubmittedTasks:
    """The submitted runs of a bench. The files of a run are a Ray object of their own, which other tasks may need."""

    ray: Any
    setup: WorkerSetup
    resources: RunResources
    mailbox: Any
    files: dict[Path, Any] = field(default_factory=dict)  # by run folder: the reference to its files

    def submit(self, number: int, task: RayTask) -> Any:
        """Submit a run; it starts after the runs that it needs."""
        step = task.step
        copies = [self.files_of(folder) for folder in (step.run.folder, *needed_folders(step))]
        needs = {"num_cpus": self.resources.cores, "num_gpus": self.resources.gpus}
        remote = self.ray.remote(**needs, max_retries=RETRIES, num_returns=2)(work)
        outcome, files = remote.remote(number, task.job, step.run.folder, self.setup, self.mailbox, *copies)
        self.files[step.run.folder.path] = files
        return outcome

    def files_of(self, folder: RunFolder) -> Any:
        """The reference to the files of a run: those that its task returns, or a copy of the folder here."""
        if folder.path not in self.files:
            self.files[folder.path] = self.ray.put(None if self.single_machine else folder_copy(folder))
        return self.files[folder.path]

    @property
    def single_machine(self) -> bool:
        """Whether all workers are on this machine and see its files."""
        remote_client = self.ray.util.client.ray.is_connected()
        return not remote_client and sum(node["Alive"] for node in self.ray.nodes()) == 1

    def messages(self) -> list[Any]:
        """New messages of the workers; none if the mailbox was lost with its machine: Ray starts it again elsewhere."""
        lost = self.ray.exceptions.RayActorError, self.ray.exceptions.GetTimeoutError
        try:
            return list(self.ray.get(self.mailbox.take.remote(), timeout=10))
        except lost:
            return []

    def outcome(self, step: BenchStep, reference: Any) -> Outcome:
        """The outcome of a task that ended, after its files were written to their folder."""
        try:
            outcome: Outcome
            outcome, copy = self.ray.get([reference, self.files[step.run.folder.path]])
            if copy:
                copy.unpack()
        except self.ray.exceptions.RayError as error:
            return lost_run(error)
        except OSError as error:
            return explained(error) or TailcloudError(str(error))
        return outcome


def lost_run(error: Exception) -> TailcloudError:
    """Why Ray has no outcome of a run."""
    lines = [line.strip() for line in chain(str(error).splitlines(), str(getattr(error, "cause", "")).splitlines())]
    missing = next((line for line in lines if "No module named" in line), None)
    if missing:
        return TailcloudError(
            f"a machine of the Ray cluster cannot run tailcloud ({missing}); install the same version on every machine"
        )
    kind = type(getattr(error, "cause", None) or error).__name__
    return Killed(
        f"the run's worker was lost {RETRIES + 1} times ({kind}), perhaps for lack of memory; "
        "run the same command to continue"
    )
