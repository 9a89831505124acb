"""Arrays from an ``.npz`` file of a stranger: nothing is unpickled, and nothing too large is unpacked."""

from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tailcloud.data.memory import available_memory
from tailcloud.errors import TailcloudError
from tailcloud.formatting import magnitude

ENDING = ".npy"
LONGEST_HEADER = 10_000  # bytes; NumPy has the same bound, but looks only when all of a header is in memory


class Kind(NamedTuple):
    """What an array is, before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """How much memory it takes."""
        return prod(self.shape) * self.dtype.itemsize


def names(path: Path) -> list[str]:
    """The arrays of a file, by name.

    Other kinds of packing than NumPy's are refused: of those, Python unpacks more at once than it is asked for.
    """
    try:
        with ZipFile(path) as archive:
            if any(entry.compress_type not in {ZIP_STORED, ZIP_DEFLATED} for entry in archive.infolist()):
                raise ValueError("it is packed in a way that NumPy does not use")
            return [name.removesuffix(ENDING) for name in archive.namelist() if name.endswith(ENDING)]
    except Exception as error:
        raise _damaged(path, error) from None


def kind(path: Path, name: str) -> Kind:
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
    return Kind(shape, dtype)


def _check_header(archive: ZipFile, name: str, digits: int) -> None:
    """A few bytes of an archive can stand for gigabytes of header."""
    with archive.open(name + ENDING) as file:
        length = int.from_bytes(file.read(npy.MAGIC_LEN + digits)[npy.MAGIC_LEN :], "little")
    if length > LONGEST_HEADER:
        raise ValueError(f"the header of {name} has {length:,} bytes")


def check_memory(path: Path, kinds: Iterable[Kind], copies: int) -> None:
    """Refuse arrays that would not fit into memory ``copies`` times."""
    needed, free = copies * sum(kind.bytes for kind in kinds), available_memory()
    if free is not None and needed > free:
        raise TailcloudError(
            f"{path} unpacks to arrays that take {magnitude(needed)}B with a copy, and {magnitude(free)}B of memory "
            "are free; save fewer or smaller images, as uint8"
        )


def read(path: Path, name: str) -> NDArray[Any]:
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
    said = (str(error) or type(error).__name__).splitlines()[0]
    return TailcloudError(f"{path} is damaged, or not an .npz file of arrays ({said}); save it again with numpy.savez")
