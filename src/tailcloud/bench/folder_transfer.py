"""Copies of run folders, to send between machines without a shared file system."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tailcloud.files import is_temporary, write_atomically
from tailcloud.runs.folder import LOCK, RunFolder


@dataclass(frozen=True)
class FolderCopy:
    """The files of a run folder by name; of the checkpoints, the last one of each stage."""

    folder: Path
    files: dict[str, bytes]

    def unpack(self) -> None:
        """Write the files to the same path on this machine; result.json last, because it marks a finished run."""
        last = RunFolder(self.folder).result_file.name
        for name in sorted(self.files, key=lambda name: (name == last, name)):
            write_atomically(self.folder / name, self.files[name])


def folder_copy(folder: RunFolder) -> FolderCopy | None:
    """A copy of a run folder as it is now; None if no run was started in it."""
    if not folder.exists:
        return None
    files = {str(file.relative_to(folder.path)): file.read_bytes() for file in files_to_send(folder)}
    return FolderCopy(folder.path, files)


def files_to_send(folder: RunFolder) -> Iterator[Path]:
    """All files except locks, temporary files and older checkpoints of a stage."""
    newest = {file.name.partition("-")[0]: file for file in sorted(folder.checkpoints.glob("*.safetensors"))}
    for file in sorted(folder.path.rglob("*")):
        if not file.is_file() or file.name == LOCK or is_temporary(file):
            continue
        if file.parent != folder.checkpoints or file in newest.values():
            yield file
