"""Reads untrusted pickles. A pickle is a program; this reader does not run it.

It reads dictionaries, lists, numbers, text and plain NumPy arrays. Every function that a file may call is replaced by
one of this module, so that not even NumPy's own loader gets the content of the file; every other name is refused.
"""

import io
import pickle
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tailcloud.errors import TailcloudError

MAX_BYTES = 2**30  # the largest file of CIFAR has 155 million


class _DType:
    """Replaces numpy.dtype: an integer or floating-point type, in either byte order."""

    def __init__(self, code: str | bytes, *_: object) -> None:
        self.code, self.order = _text(code), "|"
        if not re.fullmatch("[biuf][1248]", self.code):
            raise ValueError(f"arrays of type {self.code}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = _text(state[1])


class _Array:
    """Replaces numpy.ndarray until the file has been read."""

    def __init__(self, *_: object) -> None:
        self.values: NDArray[Any] = np.empty(0, np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, content = state
        self.fill(content, dtype, shape, "F" if fortran else "C")

    def fill(self, content: bytes, dtype: _DType, shape: tuple[int, ...], order: Any) -> None:
        """NumPy checks that the shape matches the number of bytes."""
        if min(shape, default=0) < 0:
            raise ValueError("a negative size")
        values = np.frombuffer(content, np.dtype(dtype.order + dtype.code))
        self.values = values.reshape(shape, order=order)


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _from_buffer(content: bytes, dtype: _DType, shape: tuple[int, ...], order: str) -> _Array:
    array = _Array()
    array.fill(content, dtype, shape, order)
    return array


def _latin1(text: str, _: str) -> bytes:
    """Python 3 writes bytes like this into pickles that Python 2 can read."""
    return text.encode("latin1")


def _no_bytes() -> bytes:
    return b""


def _text(value: str | bytes) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value


ALLOWED: dict[str, Callable[..., Any]] = {
    "_codecs.encode": _latin1,
    "__builtin__.bytes": _no_bytes,
    "builtins.bytes": _no_bytes,
    "numpy.ndarray": _Array,
    "numpy.dtype": _DType,
    "numpy.core.multiarray._reconstruct": _reconstruct,
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "numpy.core.numeric._frombuffer": _from_buffer,
    "numpy._core.numeric._frombuffer": _from_buffer,
}


class _Content(io.BytesIO):
    """The bytes of a file; raises EOFError if they end too early, which the unpickler in Python does not check."""

    def read(self, size: int | None = -1) -> bytes:
        content = super().read(size)
        if len(content) < (size or 0):
            raise EOFError
        return content

    def readline(self, size: int | None = -1) -> bytes:
        line = super().readline(size)
        if not line.endswith(b"\n"):
            raise EOFError
        return line


def _load_bytearray(reader: Any) -> None:
    """Allocates the bytes that exist; Python's own function allocates whatever length the file claims."""
    (length,) = struct.unpack("<Q", reader.read(8))
    reader.append(bytearray(reader.read(length)))


class _Reader(pickle._Unpickler):
    """The unpickler in Python, because the one in C allocates a table as long as the largest index in the file."""

    dispatch: ClassVar = {**pickle._Unpickler.dispatch, pickle.BYTEARRAY8[0]: _load_bytearray}

    def __init__(self, path: Path, remedy: str) -> None:
        super().__init__(_Content(_read(path)), encoding="bytes")
        self.path, self.remedy = path, remedy

    def find_class(self, module: str, name: str) -> Any:
        try:
            return ALLOWED[f"{module}.{name}"]
        except KeyError:
            raise TailcloudError(
                f"{self.path} refers to {module}.{name}, which plain data do not need; it may be malicious, "
                f"and was not run; {self.remedy}"
            ) from None


def load_pickle(path: Path, *, remedy: str = "get the file again") -> dict[str, Any]:
    """The dictionary in a pickle, with NumPy arrays for its arrays; nothing of the pickle is run.

    Keys are text, even if Python 2 wrote bytes; other strings of Python 2 stay bytes. ``remedy`` ends the error
    message if the file cannot be read.
    """
    try:
        content = _Reader(path, remedy).load()
    except TailcloudError:
        raise
    except Exception:  # a damaged pickle can raise any error that Python knows
        raise TailcloudError(f"{path} is truncated, damaged, or not a pickle; {remedy}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str | bytes) for key in content):
        raise TailcloudError(f"{path} does not have a dictionary with text keys; {remedy}")
    return {
        key if isinstance(key, str) else key.decode("latin1"): value.values if isinstance(value, _Array) else value
        for key, value in content.items()
    }


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise TailcloudError(f"{path} has {size:,} bytes, more than the {MAX_BYTES:,} allowed")
        return path.read_bytes()
    except FileNotFoundError:
        raise TailcloudError(f"{path} is missing") from None
    except OSError as error:
        raise TailcloudError(f"{path} cannot be read: {error.strerror}") from None
