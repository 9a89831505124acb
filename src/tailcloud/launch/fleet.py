"""Several runs at the same time: processes on the CPU, threads with a stream each on a GPU.

A small model cannot keep a processor busy, but several small models can. Each run has its own folder, generators and
checkpoints, and gives the same bits as a run alone with as many threads; if one fails, the others continue.
"""

import gc
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait as wait_for_workers
from threading import Event
from typing import Any, Protocol

import torch

from tailcloud import plugins
from tailcloud.errors import TailcloudError, explained, unexpected
from tailcloud.launch.admission import Admission, room_on_gpu
from tailcloud.launch.worker_process import ENDED, Messages, WorkerProcess
from tailcloud.recipe import Stage
from tailcloud.runs.observer import Observer
from tailcloud.runs.result import Result
from tailcloud.training import signals
from tailcloud.training.devices import cores
from tailcloud.training.stages.cost import BACKWARD, FORWARD, passes

Job = Callable[[Observer], Result]  # trains one run; must be picklable
Outcome = Result | TailcloudError
Message = tuple[int, str, tuple[Any, ...]]  # run, name of an observer's method, arguments
EVALUATED = {"top1", "val_top1"}  # one of them is in the line of an epoch with an evaluation
SWITCH_SECONDS = 0.0005  # for which a thread keeps the interpreter while others wait
QUIT_SECONDS = 5.0  # for a worker to end by itself
POLL_SECONDS = 0.1  # between checks of signals, and of what jobs wait for


class Killed(TailcloudError):
    """The operating system killed a worker, and with it its run."""


@dataclass(frozen=True)
class After:
    """What a job waits for: ``ready()``, for example a file of another job, or at the latest the end of these jobs."""

    jobs: Collection[int]
    ready: Callable[[], bool]


class WaitingJobs:
    """The jobs that have not started, in their order; ``after`` has what each waits for, None for nothing."""

    def __init__(self, jobs: Sequence[Job], after: Sequence[After | None] | None) -> None:
        self.after = after or [None] * len(jobs)
        self.numbers = list(range(len(jobs)))

    def take(self, ended: Collection[int], most: int) -> list[int]:
        """The jobs that start now, ``most`` at the most, given those that have ended."""
        taken = [number for number in self.numbers if self.may_start(number, ended)][:most]
        self.numbers = [number for number in self.numbers if number not in taken]
        return taken

    def may_start(self, number: int, ended: Collection[int]) -> bool:
        """Whether a job has what it needs."""
        after = self.after[number]
        return after is None or all(job in ended for job in after.jobs) or after.ready()


class MessageQueue(Protocol):
    """Sends messages to another process."""

    def put(self, message: Message, /) -> None:
        """Send a message."""


class QueueObserver:
    """An observer that passes everything on to an observer in another process."""

    def __init__(self, run: int, events: MessageQueue) -> None:
        self.run, self.events = run, events

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins."""
        self.events.put((self.run, "stage_started", (name, stage, done)))

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is over."""
        self.events.put((self.run, "epoch_done", (line,)))

    def note(self, text: str) -> None:
        """A sentence that the user should read."""
        self.events.put((self.run, "note", (text,)))


def train_side_by_side(
    jobs: Sequence[Job], observers: Sequence[Observer], after: Sequence[After | None] | None = None
) -> list[Outcome]:
    """Run all jobs, as many at a time as there are cores; the result of each, or the error that ended it.

    Ctrl-C kills the workers: a run can be killed at any moment, and is resumed from its last checkpoint. SIGTERM lets
    them save a checkpoint first. If the operating system kills a worker, its run is tried again when the others have
    ended: alone, it has the memory of all.
    """
    with signals.handle_sigterm():
        return ProcessFleet(jobs, observers, after).run()


class ProcessFleet:
    """Runs jobs in worker processes, and passes on what the workers say."""

    def __init__(
        self, jobs: Sequence[Job], observers: Sequence[Observer], after: Sequence[After | None] | None
    ) -> None:
        self.jobs, self.observers = jobs, observers
        self.waiting = WaitingJobs(jobs, after)
        self.size = min(len(jobs), cores())
        self.workers: list[WorkerProcess] = []
        self.outcomes: dict[int, Result | BaseException] = {}
        self.killed: list[int] = []  # jobs that are tried again, one by one
        self.tried_again: set[int] = set()

    def run(self) -> list[Outcome]:
        """Run all jobs to their ends."""
        grace = 0.0  # after Ctrl-C, for example
        try:
            while len(self.outcomes) < len(self.jobs):
                if signals.stop_requested():
                    self.stop()
                self.start_jobs()
                self.listen()
            for worker in self.workers:
                worker.quit()
            grace = QUIT_SECONDS
        finally:
            for worker in self.workers:
                worker.kill(grace)
        return [_outcome(self.outcomes[number]) for number in range(len(self.jobs))]

    @property
    def busy(self) -> int:
        """How many workers have a task."""
        return sum(worker.task is not None for worker in self.workers)

    def stop(self) -> None:
        """SIGTERM: what trains is saved and ends, and nothing else starts."""
        for worker in self.workers:
            worker.stop()
        for number in (*self.waiting.numbers, *self.killed):
            self.outcomes[number] = signals.Terminated("stopped by SIGTERM")
        self.waiting.numbers, self.killed = [], []

    def start_jobs(self) -> None:
        """Start as many jobs as there are free workers, or one that was killed if nothing else can run."""
        for number in self.waiting.take(self.outcomes.keys(), self.size - self.busy):
            self.start(number)
        if self.killed and not self.busy:
            self.start(self.killed.pop(0))

    def start(self, number: int) -> None:
        """Start a job, in an idle worker or in a new one."""
        task = partial(_work, number, self.jobs[number], self.threads(number))
        for worker in [worker for worker in self.workers if worker.task is None]:
            if worker.start(number, task):
                return
            self.remove(worker)  # somebody killed it
        worker = WorkerProcess(partial(_load_plugins, plugins.loaded_files()))
        self.workers.append(worker)
        if not worker.start(number, task):
            self.lose(number)

    def threads(self, number: int) -> int:
        """An equal share of the cores among the jobs that start at once, or among those that wait for others."""
        waits = self.waiting.after[number] is not None
        alike = sum((after is not None) == waits for after in self.waiting.after)
        return cores() // min(alike, cores())

    def listen(self) -> None:
        """Wait for messages, for the death of a worker, or for a moment; pass messages on to the observers."""
        wait_for_workers([end for one in self.workers for end in (one.connection, one.process.sentinel)], POLL_SECONDS)
        for worker in [*self.workers]:
            try:
                for message in worker.messages():
                    self.receive(worker, message)
            except EOFError:
                self.remove(worker)

    def receive(self, worker: WorkerProcess, message: Any) -> None:
        """A message of a worker: the end of its task, or a call of an observer."""
        if message[0] == ENDED:
            assert worker.task is not None
            self.outcomes[worker.task], worker.task = message[1], None
        else:
            run, what, details = message
            getattr(self.observers[run], what)(*details)

    def remove(self, worker: WorkerProcess) -> None:
        """A worker is dead."""
        self.workers.remove(worker)
        worker.kill()
        if worker.task is not None:
            self.lose(worker.task)

    def lose(self, number: int) -> None:
        """The worker of a job is dead: the job is tried again once."""
        if len(self.jobs) == 1 or number in self.tried_again or signals.stop_requested():
            self.outcomes[number] = Killed(
                "the worker process was killed, perhaps for lack of memory; continue with --resume"
            )
        else:
            self.tried_again.add(number)
            self.killed.append(number)


def _load_plugins(files: Sequence[str]) -> None:
    """Once in every worker: the plugins of the parent."""
    plugins.load_entry_points()
    for file in files:
        plugins.load_plugin(file)


def _work(number: int, job: Job, threads: int, messages: Messages) -> Result:
    """A job in a worker."""
    signals.raise_if_stopped()
    torch.set_num_threads(threads)  # the job before may have changed it
    try:
        return job(QueueObserver(number, messages))
    except Exception as error:  # explained here, because the traceback, which names a plugin's line, is not pickled
        raise explained(error) or error from None


def train_on_streams(
    jobs: Sequence[Job],
    observers: Sequence[Observer],
    in_flight: int | None = None,
    after: Sequence[After | None] | None = None,
) -> list[Outcome]:
    """Run all jobs on one GPU, each in a thread with its own stream.

    ``in_flight`` jobs run at a time; by default as many as increase throughput. A captured step of a small model leaves
    most of a GPU idle. Ctrl-C and SIGTERM stop every run at the end of its epoch.
    """
    with signals.handle_sigterm(), _quick_turns():
        return _in_threads(jobs, observers, in_flight, after)


@contextmanager
def _quick_turns() -> Iterator[None]:
    """Threads take turns sooner: otherwise a run that captures lets others launch one graph every five milliseconds."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def _in_threads(
    jobs: Sequence[Job], observers: Sequence[Observer], in_flight: int | None, after: Sequence[After | None] | None
) -> list[Outcome]:
    stop, admission, waiting = Event(), Admission(room_on_gpu, in_flight), WaitingJobs(jobs, after)

    def work(run: int) -> Outcome:
        admission.enter(run)
        try:
            if stop.is_set():
                raise TailcloudError("stopped")
            signals.raise_if_stopped()
            with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
                return jobs[run](FleetObserver(run, observers[run], admission, stop))
        except Exception as error:
            return _sentence(error)
        finally:
            gc.collect()  # PyTorch leaves reference cycles, and one of them holds the run's device memory
            admission.leave()

    with ThreadPoolExecutor(len(jobs)) as pool:
        threads: dict[int, Future[Outcome]] = {}
        try:
            while len(ended := [run for run, thread in threads.items() if thread.done()]) < len(jobs):
                for run in waiting.take(ended, len(jobs)):
                    threads[run] = pool.submit(work, run)
                wait([thread for thread in threads.values() if not thread.done()], POLL_SECONDS, FIRST_COMPLETED)
        except KeyboardInterrupt:
            stop.set()
            raise
    return [_outcome(threads[run].exception() or threads[run].result()) for run in range(len(jobs))]


class FleetObserver:
    """An observer of a run in a fleet: it reports epochs to the admission, and ends the run after Ctrl-C."""

    def __init__(self, run: int, observer: Observer, admission: Admission, stop: Event) -> None:
        self.run, self.observer, self.admission, self.stop = run, observer, admission, stop
        self.passes = FORWARD + BACKWARD

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins; an epoch that trains the head alone costs one pass instead of three."""
        self.passes = max(FORWARD, passes(stage))  # on features there is none
        self.observer.stage_started(name, stage, done)

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is over, and perhaps the run."""
        self.observer.epoch_done(line)
        self.admission.epoch(self.run, self.passes, evaluated=not line.keys().isdisjoint(EVALUATED))
        if self.stop.is_set():
            raise TailcloudError("stopped")

    def note(self, text: str) -> None:
        """A sentence that the user should read."""
        self.observer.note(text)


def _outcome(outcome: Result | BaseException) -> Outcome:
    if isinstance(outcome, Exception):
        return _sentence(outcome)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _sentence(error: Exception) -> TailcloudError:
    """The error that ended a run, without its traceback: the frames would keep the run's device memory alive."""
    sentence = explained(error) or unexpected(error)
    sentence.__cause__ = sentence.__context__ = None
    return sentence.with_traceback(None)
