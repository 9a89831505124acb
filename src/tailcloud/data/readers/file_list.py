"""``FileList``: image files with their labels, splits and groups, before any of them is opened."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tailcloud.data.packed_names import Names
from tailcloud.errors import UsageError
from tailcloud.formatting import composed, readable

SPLIT_WORDS = {  # names of folders, and values of a split column
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}


def printable_labels(spec: str | Path, labels: Sequence[str]) -> list[str]:
    """Class names as they can be printed. Names that are written alike are the same class (see ``composed``).

    Raises:
        UsageError: two classes would have the same name.
    """
    written = {label: composed(label) for label in set(labels)}
    printed = {label: readable(label) for label in written.values()}
    first: dict[str, str] = {}
    for label in sorted(printed):
        if (other := first.setdefault(printed[label], label)) != label:
            raise UsageError(
                f"{spec} has the classes {other!a} and {label!a}, whose names differ only in characters that "
                "cannot be printed or are not UTF-8; rename them"
            )
    return [printed[written[label]] for label in labels]


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
