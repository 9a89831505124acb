"""A log that is read while somebody else writes it."""

import json
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
from tailcloud.reporting.run_record import Epoch

LONGEST_LINE = 1 << 24  # bytes of a log that are read at a time; no line is longer


@dataclass
class LogTail:
    """A log that grows. A resumed run writes it anew, and then it is read from its start again."""

    path: Path
    lines: list[Epoch] = field(default_factory=list)
    file: int = 0
    place: int = 0

    def look(self) -> None:
        """Take in the whole lines that were written since the last look."""
        if not self.path.is_file():  # not there yet; a pipe could keep a reader waiting for ever
            return
        with self.path.open("rb") as log:
            log.seek(self._start(log.fileno()))
            content = log.read(LONGEST_LINE)
        whole = content.rfind(b"\n") + 1
        if not whole and len(content) == LONGEST_LINE:
            raise self._damaged()
        self.lines += [self._epoch(line) for line in content[:whole].splitlines() if line.strip()]
        self.place += whole

    def _start(self, handle: int) -> int:
        now = os.fstat(handle)
        if now.st_ino != self.file or now.st_size < self.place:
            self.file, self.place, self.lines = now.st_ino, 0, []
        return self.place

    def _epoch(self, line: bytes) -> Epoch:
        try:
            content = json.loads(line)
            check_format(self.path, content.get("format"))
            return Epoch.model_validate(content)
        except (AttributeError, ValueError, RecursionError):
            raise self._damaged() from None

    def _damaged(self) -> TailcloudError:
        return TailcloudError(f"{self.path} is damaged: line {len(self.lines) + 1} or a later one is no epoch of a run")


STAGES = {"stage1", "stage2", "stage3"}
DEPTH = 3  # how far below a folder its runs may be
LONGEST_LINE = 1 << 20  # bytes of a recipe
RECENT = 20  # epochs that tell how long the next ones take
SILENCE = 60.0  # seconds without a line after which a run may have been stopped
PATIENCE = 10  # epochs without a line after which it may


class Followed:
    """A run as its folder tells it. ``trouble`` is a sentence once there is nothing more to wait for."""

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, LogTail(path / "log.jsonl")
        self.stages: dict[str, int] = {}
        self.finished, self.trouble = False, ""

    @property
    def name(self) -> str:
        """Its path as it can be shown."""
        return readable(str(self.path))

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to follow."""
        return self.finished or bool(self.trouble)

    @property
    def last(self) -> Epoch | None:
        """The newest epoch."""
        return self.log.lines[-1] if self.log.lines else None

    def look(self) -> None:
        """Take in what is new."""
        finished = (self.path / "result.json").is_file()  # before the log: then that is whole
        try:
            self.stages = self.stages or stages_of(self.path / "recipe.toml")
            self.log.look()
            strange = {line.stage for line in self.log.lines} - set(self.stages)
            if strange:
                self.log.lines.clear()
                raise TailcloudError(f"{self.log.path} is damaged: its recipe has no {min(strange)!r}")
        except TailcloudError as error:
            self.trouble = str(error)
            return
        self.finished = finished
        if not finished and self.silent_for > max(SILENCE, PATIENCE * (self.pace or 0.0)) and not self.is_held():
            self.trouble = (
                f"{self.path} was stopped {duration(self.silent_for)} ago and is not finished; "
                f"go on with tailcloud train --resume --out {self.path}"
            )

    @property
    def silent_for(self) -> float:
        """Seconds since the folder last said anything."""
        files = (self.log.path, self.path / "recipe.toml", self.path / ".lock")
        return time.time() - max(file.stat().st_mtime for file in files if file.exists())

    def is_held(self) -> bool:
        """Whether a process trains here."""
        from tailcloud.runs.folder import RunFolder

        return RunFolder(self.path).is_locked

    @property
    def pace(self) -> float | None:
        """Seconds an epoch, of late and in the stage that is under way."""
        stage = self.last.stage if self.last else ""
        seconds = [
            line.seconds for line in self.log.lines[-RECENT:] if line.stage == stage and line.seconds is not None
        ]
        return fmean(seconds) if seconds else None

    @property
    def left(self) -> float | None:
        """Seconds to go, if all epochs take as long as the last ones did."""
        if self.last is None or self.pace is None:
            return None
        names = list(self.stages)
        later = sum(self.stages[name] for name in names[names.index(self.last.stage) + 1 :])
        return self.pace * (max(0, self.stages[self.last.stage] - self.last.epoch) + later)


def stages_of(recipe: Path) -> dict[str, int]:
    """The epochs of each stage. Nothing else of a recipe is read: its parts may come from plugins."""
    stages: dict[str, int] = {}
    try:
        with recipe.open("rb") as file:
            content = tomllib.loads(file.read(LONGEST_LINE).decode())
        check_format(recipe, content.get("format"))
        stages = {name: content[name]["epochs"] for name in content if name in STAGES}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        stages.clear()
    if not stages or not all(isinstance(epochs, int) for epochs in stages.values()):
        raise TailcloudError(f"{recipe} is damaged: it does not say how many epochs the run has")
    return stages


def runs_in(paths: Sequence[Path]) -> list[Path]:
    """The run folders among these folders and below them, each once."""
    found = {folder.resolve(): folder for path in paths for folder in _below(path)}
    return list(found.values())


def check_runs(paths: Sequence[Path]) -> None:
    """Each path is a run, or a folder with runs in it."""
    for path in paths:
        if not path.exists():
            raise UsageError(f"there is no run in {path} yet; start it, and then watch it")
        if not any(_below(path)):
            raise UsageError(f"{path} holds no run: there is no recipe.toml in it or in the folders below")


def _below(path: Path) -> Iterable[Path]:
    if (path / "recipe.toml").is_file():
        return [path]
    patterns = ("*/" * depth + "recipe.toml" for depth in range(1, DEPTH + 1))
    return sorted(file.parent for pattern in patterns for file in path.glob(pattern))
