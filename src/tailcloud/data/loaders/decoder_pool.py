"""Processes that read image files side by side, and the threads that wait for them."""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from mmap import mmap
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import IO

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.loaders.decoder_process import Answer
from tailcloud.errors import TailcloudError

CHUNK = 16  # images that a process reads at a time
START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from tailcloud.data.planes.decoder import main
main(*map(int, sys.argv[2:]))
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

Pixels = NDArray[np.uint8]
Aspects = NDArray[np.float32]
Failures = dict[int, str]  # by position: why an image cannot be read


class Decoder:
    """One process: a line to it, and memory that it shares with us."""

    def __init__(self, size: int) -> None:
        """Start it; ``size`` is the number of bytes that its largest answer takes."""
        ours, theirs = socket.socketpair()
        with theirs, _memory(size) as file:
            fds = theirs.fileno(), file.fileno()
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, json.dumps(sys.path), *map(str, (*fds, size))],
                pass_fds=fds,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C in a terminal is for its foreground group
                env=os.environ | ONE_THREAD,
            )
            self.pixels = np.frombuffer(mmap(file.fileno(), size), np.uint8)
        self.line = Connection(ours.detach())
        weakref.finalize(self, _end, self.line, self.process)

    def read(self, images: FileImages, pixels: Pixels, aspects: Aspects) -> Failures:
        """Read some images into ``pixels`` [n, side, side, channels] and ``aspects`` [n]; which of them failed, why."""
        try:
            self.line.send(images)
            answer: Answer = self.line.recv()
        except (EOFError, OSError):
            raise TailcloudError(
                f"a process that reads images ended ({_how(self.process)}); memory may be short: try --set "
                "engine.workers=1, or a cache (data.cache), and go on with --resume"
            ) from None
        if answer is None:
            raise MemoryError
        aspects[:], failures = answer
        pixels[...] = self.pixels[: images.nbytes].reshape(images.shape)
        return failures


def _memory(size: int) -> IO[bytes]:
    """A file without a name that several processes can map; in memory, where the system has room for it there."""
    place = Path("/dev/shm")
    roomy = place.is_dir() and os.statvfs(place).f_bavail * os.statvfs(place).f_frsize > 2 * size
    file = tempfile.TemporaryFile(dir=place if roomy else None)  # noqa: SIM115
    os.posix_fallocate(file.fileno(), 0, size) if hasattr(os, "posix_fallocate") else file.truncate(size)
    return file


def _end(line: Connection, process: "subprocess.Popen[bytes]") -> None:
    line.close()
    process.wait()


def _how(process: "subprocess.Popen[bytes]") -> str:
    code = process.wait()
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"exit code {code}"


class Decoders:
    """As many such processes as are asked for, started when the first image is wanted."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.size = 0
        self.idle: queue.SimpleQueue[Decoder | None] = queue.SimpleQueue()
        self.threads: ThreadPoolExecutor | None = None
        self.starting = Lock()

    def start(self, images: FileImages, pixels: Pixels, aspects: Aspects) -> "Future[Failures]":
        """Have up to ``CHUNK`` images read into arrays; what is to come says which of them failed, and why."""
        with self.starting:
            if self.threads is None:
                self.threads = ThreadPoolExecutor(self.workers, "reading")
                weakref.finalize(self, self.threads.shutdown, wait=False, cancel_futures=True)
                for _ in range(self.workers):
                    self.idle.put(None)
        there = replace(images, root=images.root.absolute())
        return self.threads.submit(_read, self.idle, there, pixels, aspects)


def _read(idle: "queue.SimpleQueue[Decoder | None]", images: FileImages, pixels: Pixels, aspects: Aspects) -> Failures:
    size = CHUNK * images.nbytes // len(images)
    decoder = idle.get()
    try:
        if decoder is None or len(decoder.pixels) < size:  # not started yet, or for smaller images
            decoder = Decoder(size)
        return decoder.read(images, pixels, aspects)
    except BaseException:
        decoder = None  # it may still answer what nobody waits for
        raise
    finally:
        idle.put(decoder)
