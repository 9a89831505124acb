"""``FileList``: image files with their labels, splits and groups, before any of them is opened."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tailcloud.data.packed_names import Names
from tailcloud.errors import UsageError

SPLIT_WORDS = {  # names of folders, and values of a split column
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}


@dataclass(frozen=True)
class FileList:
    """Image files in a fixed order.

    Args:
        files: paths below ``root``, or absolute ones.
        names: the same paths as they can be printed.
        labels: the class of each file.
        splits: "train", "val", "test", or "" where the data do not say.
        groups: the values of the column that ``data.group`` names, if there is one.
        remarks: what a person should know about the list.
        root: the folder that ``files`` start from.
    """

    files: Sequence[str]
    names: Sequence[str]
    labels: Sequence[str]
    splits: Sequence[str]
    groups: Sequence[str] | None = None
    remarks: tuple[str, ...] = ()
    root: Path = Path()

    def __len__(self) -> int:
        return len(self.files)

    @property
    def paths(self) -> list[Path]:
        """Where the files are."""
        return [self.root / file for file in self.files]

    def take(self, positions: Sequence[int]) -> "FileList":
        """The files at these positions."""
        return FileList(
            files=[self.files[position] for position in positions],
            names=[self.names[position] for position in positions],
            labels=[self.labels[position] for position in positions],
            splits=[self.splits[position] for position in positions],
            groups=None if self.groups is None else [self.groups[position] for position in positions],
            remarks=self.remarks,
            root=self.root,
        )

    def packed_names(self) -> Names:
        """``files`` in little memory; a leading ``root`` is removed."""
        prefix = f"{self.root}{os.sep}"
        return Names.of(file.removeprefix(prefix) for file in self.files)


def group_keys(files: FileList, pattern: str | None) -> tuple[Sequence[str] | None, list[str]]:
    """The key of each file's group, and remarks; None without ``pattern``.

    The key is the group column of the list, or the first group of ``pattern`` in the name of the file. A file without a
    key is a group of its own.
    """
    if pattern is None:
        return None, []
    keys = files.groups if files.groups is not None else _matched(files.names, pattern)
    alone = sum(not key for key in keys)
    if alone == len(keys):
        raise UsageError(
            f'data.group = "{pattern}" is not a column and matches no file name, for example not "{files.names[0]}"; '
            'give a column of the CSV, or a regular expression such as "(patient[0-9]+)"'
        )
    remark = f"{alone:,} of {len(keys):,} images have no group by data.group; each of them is a group of its own."
    # no name has a control character, so these keys cannot be the key of a real group
    return [key or f"\n{number}" for number, key in enumerate(keys)], [remark] if alone else []


def _matched(names: Sequence[str], pattern: str) -> list[str]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(f'data.group = "{pattern}" is not a regular expression: {error}') from None
    if not expression.groups:
        raise UsageError(
            f'data.group = "{pattern}" has no (…) around the part of the file name that is the key, '
            'as in "(patient[0-9]+)_"'
        )
    return [(match.group(1) or "") if (match := expression.search(name)) else "" for name in names]
