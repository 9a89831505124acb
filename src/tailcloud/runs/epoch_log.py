"""The schema of ``log.jsonl``: one line for each epoch of a run. The file is untrusted."""

import json
from pathlib import Path

from pydantic import Field

from tailcloud.errors import TailcloudError
from tailcloud.files import check_format
from tailcloud.runs.record import FileRecord, Measured


class Epoch(FileRecord):
    """One line of log.jsonl; an accuracy is None if the epoch was not evaluated."""

    stage: str
    epoch: int
    lr: Measured = None
    loss: Measured = None
    top1: Measured = None
    balanced_accuracy: Measured = None
    val_top1: Measured = None
    val_balanced_accuracy: Measured = None
    many: Measured = None
    medium: Measured = None
    few: Measured = None
    seconds: Measured = None
    gradients: list[Measured] = Field(default_factory=list)


def parse_epoch(path: Path, number: int, line: str | bytes) -> Epoch:
    """The epoch in line ``number`` of the log at ``path``; an error that names both if it is damaged."""
    try:
        content = json.loads(line)
        check_format(path, content.get("format"))
        return Epoch.model_validate(content)
    except (AttributeError, ValueError, RecursionError):  # not JSON, not a table, or not an epoch
        raise damaged_line(path, number) from None


def damaged_line(path: Path, number: int) -> TailcloudError:
    """The error for a line that is not an epoch."""
    return TailcloudError(f"line {number} of {path} is damaged: it is not an epoch of a run")
