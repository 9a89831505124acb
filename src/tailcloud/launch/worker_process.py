"""A process that runs tasks for its parent, one after the other, with a pipe of its own.

Workers share no queue and no lock, so a worker that is killed at any moment leaves the parent and the others as they
were: the parent reads the end of its pipe.
"""

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from tailcloud.training import signals

Task = Callable[["Messages"], object]  # gets the way to the parent, returns the outcome; must be picklable

ENDED = "ended"  # the message that carries the outcome of a task
STOP, QUIT = b"stop", b""  # what a parent sends besides pickled tasks


class Messages:
    """The way from a worker to its parent, for all threads of the worker."""

    def __init__(self, connection: "Connection[Any, Any]") -> None:
        self.connection, self.lock = connection, Lock()

    def put(self, message: Any) -> None:
        """Send a message."""
        with self.lock:
            self.connection.send(message)


class WorkerProcess:
    """The parent's side of a worker. ``setup`` is called once in the worker, before the first task.

    The worker ignores Ctrl-C and SIGTERM, and ends when its parent does. It imports no module of the working directory
    while it starts.
    """

    def __init__(self, setup: Callable[[], None]) -> None:
        context = get_context("spawn")
        self.connection, other_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(other_end, setup))
        with _child_environment():
            self.process.start()
        other_end.close()  # the worker has the only one: its death is the end of the pipe
        self.task: int | None = None  # the number of the task that it works on
        self.told_to_stop = False

    def start(self, number: int, task: Task) -> bool:
        """Give it a task, which the parent calls by a number; False if the worker is dead."""
        sent = self._send(pickle.dumps(task))
        self.task = number if sent else None
        return sent

    def stop(self) -> None:
        """Tell it that the parent received SIGTERM: ``signals.stop_requested()`` is true in the worker from now on."""
        if not self.told_to_stop:
            self.told_to_stop = True
            self._send(STOP)

    def messages(self) -> Iterator[Any]:
        """The messages that have arrived.

        Raises:
            EOFError: the worker is dead; what it had sent before comes first.
        """
        with _as_end_of_pipe():
            alive = self.process.is_alive()  # asked first: what a dead worker has sent is there by now
            while self.connection.poll():
                yield self.connection.recv()
            if not alive:
                raise EOFError

    def quit(self) -> None:
        """Let it end; it has no task."""
        self._send(QUIT)

    def kill(self, grace: float = 0.0) -> None:
        """End it now, or after so many seconds in which it may end by itself."""
        self.process.join(grace)
        self.process.kill()
        self.process.join()
        self.connection.close()

    def _send(self, data: bytes) -> bool:
        with suppress(OSError):
            self.connection.send_bytes(data)
            return True
        return False


@contextmanager
def _child_environment() -> Iterator[None]:
    """For a child that starts inside: no modules of the working directory, where "json.py" may lie, and no Ctrl-C."""
    interrupt, safe_path = signal.signal(signal.SIGINT, signal.SIG_IGN), os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
        if safe_path is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = safe_path


@contextmanager
def _as_end_of_pipe() -> Iterator[None]:
    try:
        yield
    except OSError:  # the worker was killed within a message
        raise EOFError from None


def _serve(connection: "Connection[Any, Any]", setup: Callable[[], None]) -> None:
    """The worker: run tasks until the parent has no more."""
    stop, tasks, messages = Event(), SimpleQueue[bytes](), Messages(connection)
    signals.follow_parent(stop.is_set)
    setup()
    Thread(target=_receive, args=(connection, tasks, stop), daemon=True).start()
    while task := tasks.get():
        messages.put((ENDED, _outcome(task, messages)))


def _receive(connection: "Connection[Any, Any]", tasks: SimpleQueue[bytes], stop: Event) -> None:
    """Receive while a task runs. If the parent is dead, end the worker, so that its run folder is released."""
    with suppress(EOFError, OSError):
        while True:
            data = connection.recv_bytes()
            if data == STOP:
                stop.set()
            else:
                tasks.put(data)
    os._exit(1)


def _outcome(task: bytes, messages: Messages) -> object:
    """What a task returns, or the exception that ended it, as something that can be sent."""
    try:
        outcome = pickle.loads(task)(messages)
    except BaseException as error:
        outcome = error
    try:
        pickle.loads(pickle.dumps(outcome))
    except Exception:
        return RuntimeError(f"{type(outcome).__name__}: {outcome}")
    return outcome
