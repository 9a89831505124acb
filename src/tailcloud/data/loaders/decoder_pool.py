"""A pool of processes that decode image files in parallel, and the threads that wait for them."""

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
from tailcloud.data.image_io import Pixels
from tailcloud.data.loaders.decoder_process import Answer
from tailcloud.errors import TailcloudError

CHUNK = 16  # images per request to a process
START = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from tailcloud.data.loaders.decoder_process import main
main(*map(int, sys.argv[2:]))
"""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

Aspects = NDArray[np.float32]
Failures = dict[int, str]  # by position, why an image cannot be read


class Decoder:
    """One decoder process, a connection to it, and memory shared with it."""

    def __init__(self, size: int) -> None:
        """Start the process; ``size`` is the number of bytes of its largest answer."""
        ours, theirs = socket.socketpair()
        with theirs, _memory(size) as file:
            fds = theirs.fileno(), file.fileno()
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, json.dumps(sys.path), *map(str, (*fds, size))],
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
        try:
            self.connection.send(images)
            answer: Answer = self.connection.recv()
        except (EOFError, OSError):
            raise TailcloudError(
                f"a decoder process ended ({_exit_reason(self.process)}); memory may be short: try --set "
                "engine.workers=1, or a cache (data.cache), and continue with --resume"
            ) from None
        if answer is None:
            raise MemoryError
        aspects[:], failures = answer
        pixels[...] = self.pixels[: images.nbytes].reshape(images.shape)
        return failures


def _memory(size: int) -> IO[bytes]:
    """An unnamed file that several processes can map; in shared memory if there is enough of it."""
    place = Path("/dev/shm")
    fits = place.is_dir() and os.statvfs(place).f_bavail * os.statvfs(place).f_frsize > 2 * size
    file = tempfile.TemporaryFile(dir=place if fits else None)  # noqa: SIM115
    os.posix_fallocate(file.fileno(), 0, size) if hasattr(os, "posix_fallocate") else file.truncate(size)
    return file


def _end(connection: Connection, process: "subprocess.Popen[bytes]") -> None:
    connection.close()
    process.wait()


def _exit_reason(process: "subprocess.Popen[bytes]") -> str:
    code = process.wait()
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"exit code {code}"


class Decoders:
    """So many decoder processes, started when the first image is requested."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.size = 0
        self.idle: queue.SimpleQueue[Decoder | None] = queue.SimpleQueue()
        self.threads: ThreadPoolExecutor | None = None
        self.starting = Lock()

    def start(self, images: FileImages, pixels: Pixels, aspects: Aspects) -> "Future[Failures]":
        """Read up to ``CHUNK`` images into arrays, in the background; the result says which of them failed, and why."""
        with self.starting:
            if self.threads is None:
                self.threads = ThreadPoolExecutor(self.workers, "reading")
                weakref.finalize(self, self.threads.shutdown, wait=False, cancel_futures=True)
                for _ in range(self.workers):
                    self.idle.put(None)
        absolute = replace(images, root=images.root.absolute())
        return self.threads.submit(_read, self.idle, absolute, pixels, aspects)


def _read(idle: "queue.SimpleQueue[Decoder | None]", images: FileImages, pixels: Pixels, aspects: Aspects) -> Failures:
    size = CHUNK * images.nbytes // len(images)
    decoder = idle.get()
    try:
        if decoder is None or len(decoder.pixels) < size:  # not started yet, or for smaller images
            decoder = Decoder(size)
        return decoder.read(images, pixels, aspects)
    except BaseException:
        decoder = None  # it may still send an answer to this request
        raise
    finally:
        idle.put(decoder)
