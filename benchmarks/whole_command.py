"""Measure a whole command as somebody at a shell waits for it: from its start to its exit, everything included."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import gettempdir
from threading import Event, Thread
from typing import Any

from epoch_timing import shared_bytes

from tailcloud.errors import TailcloudError
from tailcloud.files import read_json

SOURCE = Path(__file__).resolve().parent.parent / "src"
SAMPLE_SECONDS = {"cuda": 2.0, "cpu": 0.5}  # between two looks at memory
LAST_LINES = 8  # of the output of a command that failed
USED = ("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits")  # MiB


@dataclass(frozen=True)
class Measured:
    """Wall clock of a command in seconds, and the most memory in bytes that was seen; None where nothing tells."""

    wall: float
    memory: int | None


@dataclass(frozen=True)
class LogSeconds:
    """What the logs of the runs in a folder add up to: all epochs, those of the longest run, and their number."""

    total: float
    longest: float
    epochs: int


def python(*words: str) -> list[str]:
    """A command of this Python."""
    return [sys.executable, *words]


def measure(words: Sequence[str], folder: Path, device: str, environment: Mapping[str, str] | None = None) -> Measured:
    """Run a command in a folder with this checkout of tailcloud; a failure is an error with its last lines."""
    paths = [str(SOURCE), os.environ.get("PYTHONPATH", "")]
    variables = {**os.environ, **bytecode_variables(), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    variables |= environment or {}
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "output.txt"
    before = used_on_device() if device == "cuda" else 0
    with output.open("w") as file:
        started = time.perf_counter()
        process = subprocess.Popen(words, cwd=folder, env=variables, stdout=file, stderr=subprocess.STDOUT)
        with killed_if_interrupted(process), Sampled(process.pid, device) as memory:
            code = process.wait()
            wall = time.perf_counter() - started
    if code:
        last = "\n".join(output.read_text(errors="replace").splitlines()[-LAST_LINES:])
        raise TailcloudError(f"{' '.join(words)} ended with status {code}:\n{last}")
    most = None if before is None or memory.most is None else max(0, memory.most - before)
    return Measured(wall, most)


def bytecode_variables() -> dict[str, str]:
    """Have Python keep its bytecode, as an ordinary installation does, on a machine where it is told not to.

    Without it, every command would compile the sources of PyTorch, which takes several seconds.
    """
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(Path(gettempdir()) / "tailcloud-bytecode")}


@contextmanager
def killed_if_interrupted(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """After Ctrl-C or an error here, the command does not go on alone."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


class Sampled:
    """The most memory of a command while it runs: of the GPU, or on a CPU of all its processes together."""

    def __init__(self, process: int, device: str) -> None:
        self.process, self.device = process, device
        self.most: int | None = None
        self.over = Event()
        self.thread = Thread(target=self.sample, daemon=True)

    def __enter__(self) -> "Sampled":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join()

    def sample(self) -> None:
        """Look now and then."""
        while not self.over.wait(SAMPLE_SECONDS[self.device]):
            found = used_on_device() if self.device == "cuda" else sum(map(shared_bytes, family(self.process)))
            if found is not None:
                self.most = max(found, self.most or 0)


def used_on_device() -> int | None:
    """Bytes in use on the first GPU, by all programs."""
    with suppress(OSError, ValueError, subprocess.CalledProcessError):
        found = subprocess.run(USED, capture_output=True, text=True, check=True).stdout
        return int(found.splitlines()[0]) << 20
    return None


def family(process: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield process
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # it has ended meanwhile
            for child in file.read_text().split():
                yield from family(int(child))


def log_seconds(folder: Path) -> LogSeconds:
    """Add up the logs of all runs below a folder.

    A run that began with the first stage of another one has that one's lines in its log: they count for the time of
    both, and once in the total.
    """
    logs = [file.read_text().splitlines() for file in sorted(folder.rglob("log.jsonl"))]
    seconds = {line: float(json.loads(line)["seconds"]) for log in logs for line in log}
    longest = max((sum(seconds[line] for line in log) for log in logs), default=0.0)
    return LogSeconds(sum(seconds.values()), longest, len(seconds))


def origin(folder: Path) -> dict[str, Any]:
    """Machine, versions and commit, as the runs below a folder have recorded them."""
    found = read_json(next(iter(sorted(folder.rglob("result.json")))))
    return {"machine": found["machine"], "commit": found["commit"]}


def figures(measured: Measured, folder: Path) -> dict[str, Any]:
    """A measured command for a record."""
    return {**asdict(measured), "log": asdict(log_seconds(folder))}
