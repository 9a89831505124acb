"""A process that reads image files for another one: it is told which, writes pixels into shared memory, and answers.

It knows no PyTorch and no device, hears no Ctrl-C, and ends when the other one does: then nobody is at the other end of
its line.
"""

import mmap
import signal
from multiprocessing.connection import Connection

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Unreadable

Answer = tuple[list[float], dict[int, str]] | None  # aspects, and why some cannot be read; None: no memory


def main(line: int, memory: int, size: int) -> None:
    """Serve the process at the other end of a socket; pixels go to the beginning of a shared file of that size."""
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, signal.SIG_IGN)
    with Connection(line) as connection, mmap.mmap(memory, size) as shared:
        pixels = np.frombuffer(shared, np.uint8)
        try:
            while True:
                connection.send(answer(connection.recv(), pixels))
        except (EOFError, OSError):
            pass
        del pixels  # or the memory could not be closed


def answer(images: FileImages, pixels: NDArray[np.uint8]) -> Answer:
    """Read all of these images, one behind the other; the place of one that cannot be read stays as it was."""
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
