"""The files of a run folder, to be sent between machines that share no file system."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tailcloud.files import TEMPORARY, write_atomically
from tailcloud.runs.folder import LOCK, RunFolder


@dataclass(frozen=True)
class Parcel:
    """Everything that a run folder holds, by name; of the checkpoints the last one of each stage."""

    folder: Path
    files: dict[str, bytes]

    def unpack(self) -> None:
        """Write the folder here, under the path that it has everywhere. The result comes last: it says "finished"."""
        last = RunFolder(self.folder).result_file.name
        for name in sorted(self.files, key=lambda name: (name == last, name)):
            write_atomically(self.folder / name, self.files[name])


def parcel_of(folder: RunFolder) -> Parcel | None:
    """A run folder as it is now; none where no run was started."""
    if not folder.exists:
        return None
    files = {str(file.relative_to(folder.path)): file.read_bytes() for file in worth_sending(folder)}
    return Parcel(folder.path, files)


def worth_sending(folder: RunFolder) -> Iterator[Path]:
    """All files but locks, what is not whole, and checkpoints that have a successor."""
    newest = {file.name.partition("-")[0]: file for file in sorted(folder.checkpoints.glob("*.safetensors"))}
    for file in sorted(folder.path.rglob("*")):
        if not file.is_file() or file.name == LOCK or file.name.startswith(TEMPORARY):
            continue
        if file.parent != folder.checkpoints or file in newest.values():
            yield file
