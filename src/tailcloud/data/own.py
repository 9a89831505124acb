"""Images of one's own: a folder, a CSV or list file, or arrays."""

from pathlib import Path

from tailcloud.data.dataset import Dataset
from tailcloud.data.reading import Reading
from tailcloud.errors import UsageError


def open_own(path: Path, reading: Reading) -> Dataset:  # noqa: ARG001
    """The data set at a path."""
    raise UsageError(f"{path} is a path, and this version of tailcloud reads no images of your own yet")
