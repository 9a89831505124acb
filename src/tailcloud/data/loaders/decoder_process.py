"""A process that decodes image files for a training process and writes the pixels into shared memory.

It does not import PyTorch. It ignores SIGINT and SIGTERM, and exits when the parent closes the connection.
"""

import mmap
import signal
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Unreadable

Answer = tuple[list[float], dict[int, str]] | None  # aspects, and why some cannot be read; None: out of memory


def main(socket: int, memory: int, size: int) -> None:
    """Answer requests from a socket; pixels are written to the start of a shared file of ``size`` bytes."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    with Connection(socket) as connection, mmap.mmap(memory, size) as shared:
        pixels = np.frombuffer(shared, np.uint8)
        try:
            while True:
                connection.send(answer(connection.recv(), pixels))
        except (EOFError, OSError):
            pass
        del pixels  # the memory cannot be closed while it is referenced


def answer(images: FileImages, pixels: NDArray[np.uint8]) -> Answer:
    """Read all of these images, one after the other; the pixels of an unreadable one are left as they are."""
    places = pixels[: images.nbytes].reshape(images.shape)
    aspects, failures = [1.0] * len(images), {}
    for row in range(len(images)):
        try:
            places[row], aspects[row] = images.read(row)
        except Unreadable as error:
            failures[row] = error.why
        except MemoryError:
            return None
    return aspects, failures
