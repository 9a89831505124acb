"""The status of a run that another process trains, from its folder: stages, log, time left, whether it ended."""

import os
import time
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import check_format
from tailcloud.formatting import duration, readable
from tailcloud.runs.epoch_log import Epoch, damaged_line, parse_epoch

STAGES = {"stage1", "stage2", "stage3"}
FOLDER_DEPTH = 3  # levels below a folder that are searched for runs
LONGEST_LINE = 1 << 24  # bytes of a log that are read at a time; no line may be longer
LONGEST_RECIPE = 1 << 20  # bytes of a recipe that are read
RECENT_EPOCHS = 20  # their mean time predicts the time left
# a run may have been stopped if its log has no new line for so many seconds, and for the time of so many epochs
SILENT_SECONDS = 60.0
SILENT_EPOCHS = 10


class RunStatus:
    """A run as its folder shows it. ``problem`` is an error message once the run has stopped or is damaged."""

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, LogTail(path / "log.jsonl")
        self.stages: dict[str, int] = {}
        self.finished, self.problem = False, ""

    @property
    def name(self) -> str:
        """The path as it can be printed."""
        return readable(str(self.path))

    @property
    def ended(self) -> bool:
        """Whether the run is finished or has a problem."""
        return self.finished or bool(self.problem)

    @property
    def last(self) -> Epoch | None:
        """The newest epoch."""
        return self.log.lines[-1] if self.log.lines else None

    def update(self) -> None:
        """Read what is new in the folder."""
        finished = (self.path / "result.json").is_file()  # checked before the log is read: then the log is complete
        try:
            self.stages = self.stages or read_stages(self.path / "recipe.toml")
            self.log.update()
            unknown = {line.stage for line in self.log.lines} - set(self.stages)
            if unknown:
                self.log.lines.clear()
                raise TailcloudError(f"{self.log.path} is damaged: its recipe has no {min(unknown)!r}")
        except TailcloudError as error:
            self.problem = str(error)
            return
        self.finished = finished
        silence_allowed = max(SILENT_SECONDS, SILENT_EPOCHS * (self.seconds_per_epoch or 0.0))
        if not finished and self.silent_seconds > silence_allowed and not self.locked:
            self.problem = (
                f"{self.path} was stopped {duration(self.silent_seconds)} ago and is not finished; "
                f"continue it with tailcloud train --resume --out {self.path}"
            )

    @property
    def silent_seconds(self) -> float:
        """Seconds since a file of the run last changed."""
        files = (self.log.path, self.path / "recipe.toml", self.path / ".lock")
        return time.time() - max(file.stat().st_mtime for file in files if file.exists())

    @property
    def locked(self) -> bool:
        """Whether a process is training in this folder."""
        from tailcloud.runs.folder import RunFolder

        return RunFolder(self.path).is_locked

    @property
    def seconds_per_epoch(self) -> float | None:
        """Mean time of the recent epochs of the current stage."""
        stage = self.last.stage if self.last else ""
        recent = self.log.lines[-RECENT_EPOCHS:]
        seconds = [line.seconds for line in recent if line.stage == stage and line.seconds is not None]
        return fmean(seconds) if seconds else None

    @property
    def seconds_left(self) -> float | None:
        """Time left if every remaining epoch takes as long as the recent ones."""
        if self.last is None or self.seconds_per_epoch is None:
            return None
        names = list(self.stages)
        later = sum(self.stages[name] for name in names[names.index(self.last.stage) + 1 :])
        return self.seconds_per_epoch * (max(0, self.stages[self.last.stage] - self.last.epoch) + later)


@dataclass
class LogTail:
    """The epochs of a log that another process writes. After a resume the log is a new file, and is read again."""

    path: Path
    lines: list[Epoch] = field(default_factory=list)
    inode: int = 0
    offset: int = 0

    def update(self) -> None:
        """Read the complete lines that were added since the last call."""
        if not self.path.is_file():  # not there yet, or a pipe, which could block for ever
            return
        with self.path.open("rb") as log:
            log.seek(self._start(log.fileno()))
            content = log.read(LONGEST_LINE)
        complete = content.rfind(b"\n") + 1
        first = len(self.lines) + 1
        if not complete and len(content) == LONGEST_LINE:
            raise damaged_line(self.path, first)
        lines = [line for line in content[:complete].splitlines() if line.strip()]
        self.lines += [parse_epoch(self.path, number, line) for number, line in enumerate(lines, first)]
        self.offset += complete

    def _start(self, descriptor: int) -> int:
        now = os.fstat(descriptor)
        if now.st_ino != self.inode or now.st_size < self.offset:
            self.inode, self.offset, self.lines = now.st_ino, 0, []
        return self.offset


def read_stages(recipe: Path) -> dict[str, int]:
    """The epochs of each stage. Nothing else of the recipe is read: its parts may come from plugins."""
    stages: dict[str, int] = {}
    try:
        with recipe.open("rb") as file:
            content = tomllib.loads(file.read(LONGEST_RECIPE).decode())
        check_format(recipe, content.get("format"))
        stages = {name: content[name]["epochs"] for name in content if name in STAGES}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        stages.clear()
    if not stages or not all(isinstance(epochs, int) for epochs in stages.values()):
        raise TailcloudError(f"{recipe} is damaged: it does not give the epochs of each stage")
    return stages


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run folders among these folders and below them, each once."""
    folders = {folder.resolve(): folder for path in paths for folder in _runs_below(path)}
    return list(folders.values())


def check_runs(paths: Sequence[Path]) -> None:
    """Raise unless each path is a run folder or has one below it."""
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist; start the run first, then watch it")
        if not any(_runs_below(path)):
            raise UsageError(f"{path} holds no run: it has no recipe.toml, and neither have the folders below")


def _runs_below(path: Path) -> Iterable[Path]:
    if (path / "recipe.toml").is_file():
        return [path]
    patterns = ("*/" * depth + "recipe.toml" for depth in range(1, FOLDER_DEPTH + 1))
    return sorted(file.parent for pattern in patterns for file in path.glob(pattern))
