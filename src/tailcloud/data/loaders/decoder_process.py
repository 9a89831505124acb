"""A process that decodes image files for another process and writes the pixels into shared memory.

It does not import PyTorch. It ignores SIGINT and SIGTERM, and exits when the parent closes the connection.
"""

import mmap
import signal
from multiprocessing.connection import Connection
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.file_images import FileImages
from tailcloud.data.image_io import Header, Unreadable, read_header

Aspects = list[float]  # of each image, width / height
Failures = dict[int, str]  # by position, why an image cannot be read
Headers = list[Header | str]  # a text says why a header cannot be read
Request = tuple[Literal["pixels", "headers"], FileImages]
Answer = tuple[Aspects, Failures] | Headers | None  # None: out of memory


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


def answer(request: Request, pixels: NDArray[np.uint8]) -> Answer:
    """Read all images of a request, one after the other."""
    what, images = request
    try:
        if what == "headers":
            return file_headers(images)
        return file_pixels(images, pixels[: images.nbytes].reshape(images.shape))
    except MemoryError:
        return None


def file_pixels(images: FileImages, places: NDArray[np.uint8]) -> tuple[Aspects, Failures]:
    """Read images into ``places``; the pixels of an unreadable one are left as they are."""
    aspects, failures = [1.0] * len(images), {}
    for row in range(len(images)):
        try:
            places[row], aspects[row] = images.read(row)
        except Unreadable as error:
            failures[row] = error.why
    return aspects, failures


def file_headers(images: FileImages) -> Headers:
    """Size and mode of each file."""
    return [_file_header(images, row) for row in range(len(images))]


def _file_header(images: FileImages, row: int) -> Header | str:
    try:
        return read_header(images.path(row))
    except Unreadable as error:
        return error.why
