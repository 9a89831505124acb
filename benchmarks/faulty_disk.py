"""A disk that fails: the n-th call with which this process writes below a folder raises an error of the system.

``FaultyDisk.installed`` replaces ``open`` and the functions of ``os`` that write. All of tailcloud's files are written
by these; ``broken_writes.py`` checks that no file appears that they have not seen.
"""

import builtins
import contextlib
import io
import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

PATHS = {  # functions of os with a path → the position of the path that is written
    "rename": 1,
    "replace": 1,
    "link": 1,
    "symlink": 1,
    "mkdir": 0,
    "rmdir": 0,
    "unlink": 0,
    "remove": 0,
    "truncate": 0,
    "utime": 0,
    "chmod": 0,
}
HANDLES = {  # the same for functions with a handle
    "fsync": 0,
    "fdatasync": 0,
    "ftruncate": 0,
    "posix_fallocate": 0,
    "write": 0,
    "pwrite": 0,
    "sendfile": 0,
    "copy_file_range": 1,
}
FREES_SPACE = {"rename", "replace", "rmdir", "unlink", "remove", "utime", "chmod"}  # work on a full disk
NAMES_A_FILE = {"rename", "replace", "link"}
OPENS_FOR_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
HEX_NAME = re.compile(r"[0-9a-f]{32}")  # a random or content-dependent part of a name


@dataclass(frozen=True)
class Fault:
    """How a disk fails.

    Args:
        error: a number of ``errno``; 0 for a process that is killed by SIGKILL.
        lasts: later calls fail too. A full disk still renames and deletes.
    """

    error: int
    lasts: bool = False

    def spares(self, kind: str) -> bool:
        """Whether a later call of a kind works although the fault lasts."""
        return not self.lasts or (self.error == 28 and kind in FREES_SPACE)


@dataclass
class FaultyDisk:
    """Counts the calls that write below ``home``, and breaks the one with the number ``breaks`` (None: none).

    ``calls`` has the kind and the file of each call, and ``states`` the digests of each file whenever it got its name.
    """

    home: Path
    fault: Fault | None = None
    breaks: int | None = None
    calls: list[tuple[str, str]] = field(default_factory=list)
    states: dict[str, set[str]] = field(default_factory=dict)
    broken: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.roots = (str(self.home.resolve()) + os.sep, "/dev/shm/")
        self.real_open, self.real_readlink = io.open, os.readlink

    @contextmanager
    def installed(self) -> Iterator[None]:
        """This process writes to the disk inside."""
        with ExitStack() as stack:
            for name, position in PATHS.items():
                stack.enter_context(mock.patch.object(os, name, self._of_path(name, position)))
            for name, position in HANDLES.items():
                stack.enter_context(mock.patch.object(os, name, self._of_handle(name, position)))
            stack.enter_context(mock.patch.object(os, "open", self._os_open(os.open)))
            for module in (io, builtins):
                stack.enter_context(mock.patch.object(module, "open", self.open))
            yield

    def call(self, kind: str, path: str, torn: Callable[[], object] = lambda: None) -> None:
        """A call that is about to write; raises if it fails, after ``torn`` has written a part."""
        with self.lock:
            number = len(self.calls)
            self.calls.append((kind, self.name(path)))
            if self.fault is None or self.breaks is None or number < self.breaks:
                return
            if number > self.breaks and self.fault.spares(kind):
                return
            self.broken = self.broken or self.calls[-1]
            torn()
            if not self.fault.error:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(self.fault.error, os.strerror(self.fault.error), *([] if kind in HANDLES else [path]))

    def name(self, path: str) -> str:
        """A file's name below home, without what differs from run to run."""
        return canonical(path.removeprefix(self.roots[0]))

    def watched(self, path: object, folder: int | None = None) -> str | None:
        """The full path of a file that belongs to this disk; None for others."""
        if isinstance(path, int):
            return self.of_handle(path)
        place = os.path.join(self._folder(folder), os.fsdecode(path))  # type: ignore[arg-type]  # noqa: PTH118
        full = os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))  # noqa: PTH118, PTH119, PTH120
        return full if full.startswith(self.roots) else None

    def _folder(self, folder: int | None) -> str:
        return os.getcwd() if folder is None else self.real_readlink(f"/proc/self/fd/{folder}")  # noqa: PTH109

    def of_handle(self, handle: int) -> str | None:
        """The full path of an open file of this disk."""
        try:
            path = self.real_readlink(f"/proc/self/fd/{handle}")
        except OSError:
            return None
        return path if path.startswith(self.roots) else None

    def _of_path(self, name: str, position: int) -> Callable[..., Any]:
        real = getattr(os, name)

        def function(*words: Any, **options: Any) -> Any:
            folder = options.get("dst_dir_fd") if position else options.get("dir_fd")
            path = self.watched(words[position], folder)
            if path:
                self.call(name, path)
            answer = real(*words, **options)
            if path and name in NAMES_A_FILE:
                self.note_state(path)
            return answer

        return function

    def _of_handle(self, name: str, position: int) -> Callable[..., Any]:
        real = getattr(os, name)

        def function(*words: Any, **options: Any) -> Any:
            handle = words[position]
            path = self.of_handle(handle if isinstance(handle, int) else handle.fileno())
            if path:
                self.call(name, path)
            return real(*words, **options)

        return function

    def _os_open(self, real: Callable[..., int]) -> Callable[..., int]:
        def function(path: Any, flags: int, *words: Any, **options: Any) -> int:
            place = self.watched(path, options.get("dir_fd")) if flags & OPENS_FOR_WRITING else None
            if place:
                self.call("open", place)
            return real(path, flags, *words, **options)

        return function

    def open(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        """As ``open``; a file for writing is one of this disk."""
        path = self.watched(file) if set(mode) & set("wax+") else None
        if path is None:
            return self.real_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        if opener is None and not isinstance(file, int):
            self.call("open", path)
        raw = FaultyFile(self, path, file, mode.replace("b", "").replace("t", ""), closefd, opener)
        size = io.DEFAULT_BUFFER_SIZE if buffering <= 1 else buffering
        buffer: Any = raw
        if buffering:
            buffer = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw, size)
        if "b" in mode:
            return buffer
        return io.TextIOWrapper(buffer, encoding, errors, newline, line_buffering=buffering == 1)

    def note_state(self, path: str) -> None:
        """A file has just got its name."""
        if os.path.isfile(path):  # noqa: PTH113
            with self.real_open(path, "rb") as file:
                self.states.setdefault(self.name(path), set()).add(digest(file.read()))


class FaultyFile(io.FileIO):
    """An open file of a faulty disk. A write that fails has written half of its bytes."""

    def __init__(self, disk: FaultyDisk, path: str, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        super().__init__(file, mode, closefd, opener)
        self.disk, self.path = disk, path

    def write(self, data: Any) -> int:
        """Write bytes."""
        content = memoryview(data).cast("B")
        self.disk.call("write", self.path, lambda: super(FaultyFile, self).write(content[: len(content) // 2]))
        return super().write(content)

    def truncate(self, size: int | None = None) -> int:
        """Cut the file."""
        self.disk.call("ftruncate", self.path)
        return super().truncate(size)


def canonical(text: str) -> str:
    """A name without its random part."""
    return HEX_NAME.sub("HEX", text)


def digest(content: bytes) -> str:
    """A digest of a file, without the number of the process that wrote it.

    The metadata of a safetensors file are in random order; they are compared in the order of their names.
    """
    with contextlib.suppress(ValueError):
        length = 8 + int.from_bytes(content[:8], "little")
        if length <= len(content) and content[8:9] == b"{":
            content = json.dumps(json.loads(content[8:length]), sort_keys=True).encode() + content[length:]
    return sha256(re.sub(rb'"process": \d+', b'"process": 0', content)).hexdigest()
