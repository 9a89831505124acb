"""Several runs at the same time: processes on the CPU, threads with a stream each on a GPU.

A small model cannot keep a processor busy, but several small models can. Each run has its own folder, generators and
checkpoints, and gives the same bits as a run alone with as many threads; if one fails, the others continue.
"""

import gc
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Event as StopEvent
from threading import Event, Thread
from typing import Any, Protocol

import torch

from tailcloud import plugins
from tailcloud.errors import TailcloudError, explained
from tailcloud.launch.admission import Admission, room_on_gpu
from tailcloud.recipe import Stage
from tailcloud.runs.observer import Observer
from tailcloud.runs.result import Result
from tailcloud.training import signals
from tailcloud.training.devices import cores
from tailcloud.training.stages.cost import passes

Job = Callable[[Observer], Result]  # trains one run; must be picklable
Outcome = Result | TailcloudError
Message = tuple[int, str, tuple[Any, ...]]  # run, name of an observer's method, arguments
POLL_SECONDS = 0.1  # between checks of the workers


class Killed(TailcloudError):
    """The operating system killed a worker, and with it every run in the process pool."""


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


def train_side_by_side(jobs: Sequence[Job], observers: Sequence[Observer]) -> list[Outcome]:
    """Run all jobs, as many at a time as there are cores; the result of each, or the error that ended it.

    Ctrl-C kills the workers: a run can be killed at any moment, and is resumed from its last checkpoint. SIGTERM lets
    them save a checkpoint first. If the operating system kills a worker, the runs that ended with it are tried again
    one by one, so that only the run that caused it fails.
    """
    with signals.handle_sigterm():
        return _with_retries(jobs, observers)


def _with_retries(jobs: Sequence[Job], observers: Sequence[Observer]) -> list[Outcome]:
    outcomes = _in_processes(jobs, observers, min(len(jobs), cores()))
    if len(jobs) > 1 and not signals.stop_requested():
        for number in [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Killed)]:
            outcomes[number] = _in_processes([jobs[number]], [observers[number]], 1)[0]
    return outcomes


def _in_processes(jobs: Sequence[Job], observers: Sequence[Observer], workers: int) -> list[Outcome]:
    context, other_children = get_context("spawn"), set(active_children())
    events: SimpleQueue[Message] = context.SimpleQueue()
    stop = context.Event()
    worker_setup = events, cores() // workers, plugins.loaded_files(), stop
    with ProcessPoolExecutor(workers, context, _prepare, worker_setup) as pool:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # workers inherit it: they ignore Ctrl-C
        futures = [pool.submit(_work, number, job) for number, job in enumerate(jobs)]
        signal.signal(signal.SIGINT, before)
        try:
            while not all(future.done() for future in futures):
                wait(futures, timeout=POLL_SECONDS)
                _pass_on(events, observers)
                if signals.stop_requested():
                    stop.set()
        except KeyboardInterrupt:
            for worker in set(active_children()) - other_children:
                worker.kill()
            raise
    return [_outcome(future) for future in futures]


_events: "SimpleQueue[Message]"


def _prepare(events: "SimpleQueue[Message]", threads: int, files: Sequence[str], stop: StopEvent) -> None:
    """Once in every worker: an equal share of the cores, the queue to the parent, and the parent's plugins."""
    global _events  # noqa: PLW0603
    _events = events
    signals.follow_parent(stop.is_set)
    torch.set_num_threads(threads)
    plugins.load_entry_points()
    for file in files:
        plugins.load_plugin(file)
    Thread(target=_follow_parent, daemon=True).start()


def _follow_parent() -> None:
    """End the worker when its parent is killed, so that its run folder is released."""
    parent = parent_process()
    if parent:
        parent.join()
        os._exit(1)


def _work(number: int, job: Job) -> Result:
    signals.raise_if_stopped()
    try:
        return job(QueueObserver(number, _events))
    except Exception as error:  # explained here, because the traceback, which names a plugin's line, is not pickled
        raise explained(error) or error from None


def _pass_on(events: "SimpleQueue[Message]", observers: Sequence[Observer]) -> None:
    """Pass the messages that have arrived on to the observers."""
    while not events.empty():
        run, what, details = events.get()
        getattr(observers[run], what)(*details)


def train_on_streams(jobs: Sequence[Job], observers: Sequence[Observer], in_flight: int | None = None) -> list[Outcome]:
    """Run all jobs on one GPU, each in a thread with its own stream.

    ``in_flight`` jobs run at a time; by default as many as increase throughput. A captured step of a small model leaves
    most of a GPU idle. Ctrl-C and SIGTERM stop every run at the end of its epoch.
    """
    with signals.handle_sigterm():
        return _in_threads(jobs, observers, in_flight)


def _in_threads(jobs: Sequence[Job], observers: Sequence[Observer], in_flight: int | None) -> list[Outcome]:
    stop, admission = Event(), Admission(room_on_gpu, in_flight)

    def work(run: int, job: Job) -> Outcome:
        admission.enter()
        try:
            if stop.is_set():
                raise TailcloudError("stopped")
            signals.raise_if_stopped()
            with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
                return job(FleetObserver(run, observers[run], admission, stop))
        except Exception as error:
            return _sentence(error)
        finally:
            gc.collect()  # PyTorch leaves reference cycles, and one of them holds the run's device memory
            admission.leave(run)

    with ThreadPoolExecutor(len(jobs)) as pool:
        try:
            futures = [pool.submit(work, run, job) for run, job in enumerate(jobs)]
            while not all(future.done() for future in futures):
                wait(futures, timeout=POLL_SECONDS)
        except KeyboardInterrupt:
            stop.set()
            raise
    return [_outcome(future) for future in futures]


class FleetObserver:
    """An observer of a run in a fleet: it reports epoch times to the admission, and ends the run after Ctrl-C."""

    def __init__(self, run: int, observer: Observer, admission: Admission, stop: Event) -> None:
        self.run, self.observer, self.admission, self.stop = run, observer, admission, stop
        self.passes = 3

    def stage_started(self, name: str, stage: Stage, done: int) -> None:
        """A stage begins; an epoch that trains the head alone costs one pass instead of three."""
        self.passes = passes(stage)
        self.observer.stage_started(name, stage, done)

    def epoch_done(self, line: dict[str, Any]) -> None:
        """An epoch is over, and perhaps the run."""
        self.observer.epoch_done(line)
        self.admission.epoch(self.run, line["seconds"] / self.passes)
        if self.stop.is_set():
            raise TailcloudError("stopped")

    def note(self, text: str) -> None:
        """A sentence that the user should read."""
        self.observer.note(text)


def _outcome(future: Future[Result] | Future[Outcome]) -> Outcome:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, BrokenProcessPool):
        return Killed("the worker process was killed, perhaps for lack of memory; continue with --resume")
    if not isinstance(error, Exception):
        raise error
    return _sentence(error)


def _sentence(error: Exception) -> TailcloudError:
    """The error that ended a run, without its traceback: the frames would keep the run's device memory alive."""
    sentence = explained(error)
    if sentence is None:
        raise error
    sentence.__cause__ = sentence.__context__ = None
    return sentence.with_traceback(None)
