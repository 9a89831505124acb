"""Pools that read image files in parallel: processes, with threads that wait for them; or threads for a few files."""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from mmap import mmap
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import IO, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Pixels
from tailcloud.data.loaders.decoder_process import Answer, Failures, Headers, Request, file_headers, file_pixels
from tailcloud.data.memory import available_memory
from tailcloud.errors import TailcloudError

CHUNK = 16  # images per request to a process
LEAST_BYTES = CHUNK * 256 * 256 * 3  # of an answer: enough for the sizes that are read one after the other
MANY_FILES = 8192  # times further cores; from here on, processes save more time than they take to start
FILES_PER_PROCESS = 64  # at least
THREADS = 8
PROCESS_BYTES = 1 << 30  # an image of the largest allowed size takes about that much while it is decoded
START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from tailcloud.data.loaders.decoder_process import main
main(*map(int, sys.argv[2:]))
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

Aspects = NDArray[np.float32]


class DecoderEnded(TailcloudError):
    """A decoder process ended; ``reason`` is a signal or an exit code."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"a decoder process ended ({reason}); memory may be short: try --set engine.workers=1, or a cache "
            "(data.cache), and continue with --resume"
        )
        self.reason = reason


class Decoder:
    """One decoder process, a connection to it, and memory shared with it."""

    def __init__(self, size: int) -> None:
        """Start the process; ``size`` is the number of bytes of its largest answer."""
        ours, theirs = socket.socketpair()
        with theirs, _memory(size) as file:
            fds = theirs.fileno(), file.fileno()
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", START, json.dumps(sys.path), *map(str, (*fds, size))],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that Ctrl-C in a terminal does not reach it
                env=os.environ | ONE_THREAD,
            )
            self.pixels = np.frombuffer(mmap(file.fileno(), size), np.uint8)
        self.connection = Connection(ours.detach())
        weakref.finalize(self, _end, self.connection, self.process)

    def read(self, images: FileImages, pixels: Pixels, aspects: Aspects) -> Failures:
        """Read images into ``pixels`` [n, side, side, channels] and ``aspects`` [n]; returns which failed, and why."""
        answer = self.ask(("pixels", images))
        assert isinstance(answer, tuple)
        aspects[:], failures = answer
        pixels[...] = self.pixels[: images.nbytes].reshape(images.shape)
        for row in failures:
            pixels[row] = 0
        return failures

    def read_headers(self, images: FileImages) -> Headers:
        """Size and mode of each file, or why it cannot be read."""
        answer = self.ask(("headers", images))
        assert isinstance(answer, list)
        return answer

    def ask(self, request: Request) -> Answer:
        """Send a request and wait for its answer.

        Raises:
            DecoderEnded: the process was killed.
        """
        try:
            self.connection.send(request)
            answer: Answer = self.connection.recv()
        except (EOFError, OSError):
            raise DecoderEnded(_exit_reason(self.process)) from None
        if answer is None:
            raise MemoryError
        return answer


def _memory(size: int) -> IO[bytes]:
    """An unnamed file that several processes can map; in shared memory if there is enough of it."""
    place = Path("/dev/shm")
    fits = place.is_dir() and os.statvfs(place).f_bavail * os.statvfs(place).f_frsize > 2 * size
    file = tempfile.TemporaryFile(dir=place if fits else None)  # noqa: SIM115
    os.posix_fallocate(file.fileno(), 0, size) if hasattr(os, "posix_fallocate") else file.truncate(size)
    return file


def _end(connection: Connection, process: "subprocess.Popen[bytes]") -> None:
    connection.close()
    process.kill()  # it keeps nothing, and would take a second to end by itself
    process.wait()


def _exit_reason(process: "subprocess.Popen[bytes]") -> str:
    code = process.wait()
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"exit code {code}"


class FilePool(Protocol):
    """Reads image files in the background; leaving its context ends what it has started."""

    workers: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def start(self, images: FileImages, pixels: Pixels, aspects: Aspects) -> "Future[Failures]":
        """Read up to ``CHUNK`` images into arrays; the result says which of them failed, and why."""

    def start_headers(self, images: FileImages) -> "Future[Headers]":
        """Read the headers of some files."""


def pool_for(files: int) -> FilePool:
    """Processes for many files and several cores, threads for others: processes take a moment to start."""
    workers = automatic_workers()
    if files * (workers - 1) < MANY_FILES:
        return ThreadPool(min(THREADS, os.cpu_count() or 1))
    free = available_memory() or workers * PROCESS_BYTES
    return Decoders(max(1, min(workers, files // FILES_PER_PROCESS, free // PROCESS_BYTES)))


def automatic_workers() -> int:
    """The default number of decoder processes: one per core, divided among the ranks on this machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


class ThreadPool:
    """Threads that read files in this process."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.threads = ThreadPoolExecutor(workers, "reading")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the threads; what they have not begun is not read."""
        self.threads.shutdown(cancel_futures=True)

    def start(self, images: FileImages, pixels: Pixels, aspects: Aspects) -> "Future[Failures]":
        """As ``FilePool`` says."""

        def read() -> Failures:
            aspects[:], failures = file_pixels(images, pixels)
            return failures

        return self.threads.submit(read)

    def start_headers(self, images: FileImages) -> "Future[Headers]":
        """As ``FilePool`` says."""
        return self.threads.submit(file_headers, images)


_spare: list[Decoder] = []  # that a pool gave back: the next one saves the time to start them


def end_spare_decoders() -> None:
    """End the processes that no pool uses."""
    _spare.clear()  # a decoder that nobody refers to ends


class Decoders:
    """So many decoder processes, started when the first image is requested."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.idle: queue.SimpleQueue[Decoder | None] = queue.SimpleQueue()
        self.threads: ThreadPoolExecutor | None = None
        self.starting = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        """Give the processes back, or end them after a failure. Requests that wait are not read."""
        if self.threads is not None:
            self.threads.shutdown(cancel_futures=True)
        while not self.idle.empty():
            decoder = self.idle.get()
            if decoder and not any(failure):
                _spare.append(decoder)

    def start(self, images: FileImages, pixels: Pixels, aspects: Aspects) -> "Future[Failures]":
        """Read up to ``CHUNK`` images into arrays, in the background; the result says which of them failed, and why."""
        return self._threads().submit(_read, self.idle, _absolute(images), pixels, aspects)

    def start_headers(self, images: FileImages) -> "Future[Headers]":
        """Read the headers of some files, in the background."""
        return self._threads().submit(_read_headers, self.idle, _absolute(images))

    def _threads(self) -> ThreadPoolExecutor:
        with self.starting:
            if self.threads is None:
                self.threads = ThreadPoolExecutor(self.workers, "reading")
                weakref.finalize(self, self.threads.shutdown, wait=False, cancel_futures=True)
                for _ in range(self.workers):
                    self.idle.put(None)
            return self.threads


def _absolute(images: FileImages) -> FileImages:
    return replace(images, root=images.root.absolute())


def _read(idle: "queue.SimpleQueue[Decoder | None]", images: FileImages, pixels: Pixels, aspects: Aspects) -> Failures:
    with _decoder(idle, CHUNK * images.nbytes // len(images)) as decoder:
        return decoder.read(images, pixels, aspects)


def _read_headers(idle: "queue.SimpleQueue[Decoder | None]", images: FileImages) -> Headers:
    with _decoder(idle, CHUNK * images.nbytes // len(images)) as decoder:
        return decoder.read_headers(images)


def _take_spare() -> Decoder | None:
    with suppress(IndexError):
        return _spare.pop()
    return None


@contextmanager
def _decoder(idle: "queue.SimpleQueue[Decoder | None]", size: int) -> Iterator[Decoder]:
    """An idle decoder whose answers may have ``size`` bytes."""
    decoder = idle.get() or _take_spare()
    try:
        if decoder is None or len(decoder.pixels) < size:  # not started yet, or for smaller images
            decoder = Decoder(max(size, LEAST_BYTES))
        yield decoder
    except BaseException:
        decoder = None  # it may still send an answer to this request
        raise
    finally:
        idle.put(decoder)
