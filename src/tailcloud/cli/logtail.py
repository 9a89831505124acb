"""A log that is read while somebody else writes it."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from tailcloud.errors import TailcloudError
from tailcloud.files import check_format
from tailcloud.reporting.runs import Epoch

LONGEST = 1 << 24  # bytes of a log that are read at a time; no line is longer


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
            content = log.read(LONGEST)
        whole = content.rfind(b"\n") + 1
        if not whole and len(content) == LONGEST:
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
