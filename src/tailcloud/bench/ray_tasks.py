"""Runs on a Ray cluster: every run is a task with its share of a machine.

A run that takes the first stage of another one starts when that one is done. A run whose worker or machine is lost is
tried again; it goes on from its checkpoint where that can be seen, and begins anew elsewhere.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

from tailcloud import plugins
from tailcloud.bench.folder_transfer import parcel_of
from tailcloud.bench.ray_cluster import Portion
from tailcloud.bench.ray_worker import Mailbox, Order, work
from tailcloud.bench.shared_stages import Step, waves
from tailcloud.errors import TailcloudError, explained
from tailcloud.files import TEMPORARY, named_in_errors, write_atomically
from tailcloud.launch.fleet import Job, Killed, Outcome
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.observer import Observer

RETRIES = 3  # of a run whose worker was lost
PATIENCE = 0.2  # seconds between looks at the cluster


@dataclass(frozen=True)
class Errand:
    """A step of a bench, how it is trained, and who watches."""

    step: Step
    job: Job
    observer: Observer


def train_on_ray(ray: Any, errands: Sequence[Errand], place: Path, share: Portion) -> Iterator[tuple[Step, Outcome]]:
    """Train everything, as much at a time as the cluster holds; each outcome as soon as it is there.

    ``place`` is the folder of the run folders, an absolute path. A machine that shares it trains in it; any other one
    trains under the same path of its own, and the files come here when the run ends. Whoever stops listening, by
    Ctrl-C for example, ends all tasks; what is finished stays.
    """
    by_run = {errand.step.run.title: errand for errand in errands}
    ordered = [by_run[step.run.title] for wave in waves([errand.step for errand in errands]) for step in wave]
    with token_in(place) as token:
        order = Order(token, Path.cwd(), share.cores, tuple(plugins.loaded_files()))
        tasks = Tasks(ray, order, share, ray.remote(num_cpus=0, max_restarts=-1)(Mailbox).remote())
        pending = {tasks.submit(number, errand): errand.step for number, errand in enumerate(ordered)}
        try:
            while pending:
                done, _ = ray.wait(list(pending), timeout=PATIENCE)
                for number, what, details in tasks.heard():
                    getattr(ordered[number].observer, what)(*details)
                for task in done:
                    step = pending.pop(task)
                    yield step, tasks.outcome(step, task)
        finally:
            for task in pending:
                ray.cancel(task, force=True)


@contextmanager
def token_in(place: Path) -> Iterator[Path]:
    """A file that only those machines see which share the folder."""
    token = place / f"{TEMPORARY}{uuid4().hex}"
    with named_in_errors(place):
        write_atomically(token, "Who can read this shares the folder.\n")
    try:
        yield token
    finally:
        token.unlink(missing_ok=True)


@dataclass
class Tasks:
    """The runs of a bench as Ray has them. The files of a run are an object of their own, which others may wait for."""

    ray: Any
    order: Order
    share: Portion
    mailbox: Any
    files: dict[Path, Any] = field(default_factory=dict)  # by run folder: where its files will be

    def submit(self, number: int, errand: Errand) -> Any:
        """Queue a run behind the one whose first stage it takes."""
        step = errand.step
        own = self.sent(step.run.folder)
        lent = self.sent(step.parent.folder) if step.parent else None
        asked = {"num_cpus": self.share.cores, "num_gpus": self.share.gpus, "max_retries": RETRIES, "num_returns": 2}
        task = self.ray.remote(**asked)(work)
        outcome, files = task.remote(number, errand.job, step.run.folder, self.order, self.mailbox, own, lent)
        self.files[step.run.folder.path] = files
        return outcome

    def sent(self, folder: RunFolder) -> Any:
        """The files of a run for another machine: those of its task, or as they are here."""
        if folder.path not in self.files:
            self.files[folder.path] = self.ray.put(None if self.alone else parcel_of(folder))
        return self.files[folder.path]

    @property
    def alone(self) -> bool:
        """Whether all workers are on this machine, and see what it sees."""
        at_a_distance = self.ray.util.client.ray.is_connected()
        return not at_a_distance and sum(node["Alive"] for node in self.ray.nodes()) == 1

    def heard(self) -> list[Any]:
        """What the workers said. Nothing where the mailbox was lost with its machine: it is set up again elsewhere."""
        lost = self.ray.exceptions.RayActorError, self.ray.exceptions.GetTimeoutError
        try:
            return list(self.ray.get(self.mailbox.take.remote(), timeout=10))
        except lost:
            return []

    def outcome(self, step: Step, task: Any) -> Outcome:
        """The outcome of a task that is over, when its files are in their folder."""
        try:
            outcome: Outcome
            outcome, parcel = self.ray.get([task, self.files[step.run.folder.path]])
            if parcel:
                parcel.unpack()
        except self.ray.exceptions.RayError as error:
            return lost_run(error)
        except OSError as error:
            return explained(error) or TailcloudError(str(error))
        return outcome


def lost_run(error: Exception) -> TailcloudError:
    """Why Ray has no outcome of a run, in a sentence."""
    said = [line.strip() for line in chain(str(error).splitlines(), str(getattr(error, "cause", "")).splitlines())]
    foreign = next((line for line in said if "No module named" in line), None)
    if foreign:
        return TailcloudError(
            f"a machine of the Ray cluster cannot run tailcloud ({foreign}); install the same version on every machine"
        )
    kind = type(getattr(error, "cause", None) or error).__name__
    return Killed(
        f"the run's worker was lost {RETRIES + 1} times ({kind}), perhaps for want of memory; "
        "the same command goes on where it was"
    )
