"""Arrays from an untrusted ``.npz`` file: nothing is unpickled, and nothing too large is unpacked."""

from math import prod
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tailcloud.errors import TailcloudError

ENDING = ".npy"
MAX_HEADER = 10_000  # bytes; NumPy has the same limit, but checks it only after the header is in memory


class ArrayHeader(NamedTuple):
    """Shape and type of an array, which are known before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """The memory that the array needs."""
        return prod(self.shape) * self.dtype.itemsize


def array_names(path: Path) -> list[str]:
    """The names of the arrays in a file.

    Compression that NumPy does not use is refused: Python may unpack more of it at once than it was asked for.
    """
    try:
        with ZipFile(path) as archive:
            if any(entry.compress_type not in {ZIP_STORED, ZIP_DEFLATED} for entry in archive.infolist()):
                raise ValueError("it is compressed in a way that NumPy does not use")
            return [name.removesuffix(ENDING) for name in archive.namelist() if name.endswith(ENDING)]
    except Exception as error:
        raise _damaged(path, error) from None


def array_header(path: Path, name: str) -> ArrayHeader:
    """Shape and type of an array, from its first bytes."""
    try:
        with ZipFile(path) as archive, archive.open(name + ENDING) as file:
            version = npy.read_magic(file)
            _check_header(archive, name, 2 if version == (1, 0) else 4)
            header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = header(file)
    except Exception as error:  # damaged archives, headers and streams raise anything
        raise _damaged(path, error) from None
    if dtype.hasobject:
        raise TailcloudError(f"{path}: {name} holds Python objects, which are never unpickled; save plain numbers")
    return ArrayHeader(shape, dtype)


def _check_header(archive: ZipFile, name: str, digits: int) -> None:
    """A few compressed bytes can unpack to gigabytes of header."""
    with archive.open(name + ENDING) as file:
        length = int.from_bytes(file.read(npy.MAGIC_LEN + digits)[npy.MAGIC_LEN :], "little")
    if length > MAX_HEADER:
        raise ValueError(f"the header of {name} has {length:,} bytes")


def read_array(path: Path, name: str) -> NDArray[Any]:
    """An array of a file."""
    try:
        with ZipFile(path) as archive, archive.open(name + ENDING) as file:
            array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
            return array
    except MemoryError:
        raise
    except Exception as error:
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> TailcloudError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return TailcloudError(
        f"{path} is damaged, or not an .npz file of arrays ({reason}); save it again with numpy.savez"
    )
