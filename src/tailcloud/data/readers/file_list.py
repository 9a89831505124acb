"""What a folder or a list names: files, their classes, parts and groups, before any of them is opened."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tailcloud.data.packed_names import Names
from tailcloud.errors import UsageError

PARTS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}


@dataclass(frozen=True)
class Listing:
    """Image files in a fixed order, and what is said about each of them.

    ``root`` is the folder, or the one that the list is in; ``files`` are below it, or elsewhere with their whole path,
    and ``names`` are the same as they can be shown. ``parts`` are "train", "val", "test", or "" where nothing is said;
    ``groups`` are the keys of a column, where one was asked for.
    """

    files: Sequence[str]
    names: Sequence[str]
    labels: Sequence[str]
    parts: Sequence[str]
    groups: Sequence[str] | None = None
    remarks: tuple[str, ...] = ()
    root: Path = Path()

    def __len__(self) -> int:
        return len(self.files)

    @property
    def paths(self) -> list[Path]:
        """Where the files are."""
        return [self.root / file for file in self.files]

    def take(self, positions: Sequence[int]) -> "Listing":
        """The files at these positions."""
        return Listing(
            files=[self.files[position] for position in positions],
            names=[self.names[position] for position in positions],
            labels=[self.labels[position] for position in positions],
            parts=[self.parts[position] for position in positions],
            groups=None if self.groups is None else [self.groups[position] for position in positions],
            remarks=self.remarks,
            root=self.root,
        )

    def packed(self) -> Names:
        """The files below ``root``; those that lie elsewhere with their whole path."""
        above = f"{self.root}{os.sep}"
        return Names.of(file.removeprefix(above) for file in self.files)


def group_keys(listing: Listing, pattern: str | None) -> tuple[Sequence[str] | None, list[str]]:
    """What keeps the files together, and remarks; None where no group was asked for.

    The key is the column that the listing brings, or the first group of ``pattern`` in the name of the file. A file
    without a key is a group of its own.
    """
    if pattern is None:
        return None, []
    keys = listing.groups if listing.groups is not None else _matched(listing.names, pattern)
    alone = sum(not key for key in keys)
    if alone == len(keys):
        raise UsageError(
            f'data.group = "{pattern}" is no column and matches no file name, for example not "{listing.names[0]}"; '
            'give a column of the CSV, or a regular expression such as "(patient[0-9]+)"'
        )
    remark = f"{alone:,} of {len(keys):,} images have no group by data.group, and each of them stands alone."
    # a control character is in no name, so that no key of a group is met by accident
    return [key or f"\n{number}" for number, key in enumerate(keys)], [remark] if alone else []


def _matched(names: Sequence[str], pattern: str) -> list[str]:
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise UsageError(f'data.group = "{pattern}" is no regular expression: {error}') from None
    if not expression.groups:
        raise UsageError(
            f'data.group = "{pattern}" has no (…) around the part of the file name that is the key, '
            'as in "(patient[0-9]+)_"'
        )
    return [(found.group(1) or "") if (found := expression.search(name)) else "" for name in names]
