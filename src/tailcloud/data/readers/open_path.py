"""Opens your own images by their path: a folder, a CSV or text list, or an ``.npz`` file."""

from dataclasses import replace
from pathlib import Path

from tailcloud.data.dataset import Dataset
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers import csv_list
from tailcloud.data.readers.build_dataset import OpenedFiles, UnopenedFiles, build_dataset, build_streamed
from tailcloud.data.readers.file_list import FileList
from tailcloud.data.readers.image_folder import read_folder
from tailcloud.data.readers.large_list import LargeList, UnexpectedLine, read_large_list
from tailcloud.data.readers.npz import open_npz
from tailcloud.data.readers.split_assignment import complete_assignment
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import expand_home
from tailcloud.formatting import readable

LIST_SUFFIXES = {".csv", ".tsv", ".txt"}
LARGE_LIST = 2**25  # bytes of a list, about half a million images
DEFAULT_ROOT = "data"
KINDS = "give a folder of images, a .csv, .tsv or .txt list, or an .npz file"


def open_path(spec: str, root: str | Path, options: ReadOptions) -> Dataset:
    """The data set at a path; its images are in memory, or in their files if ``options`` or their number say so."""
    path = expand_home(spec)
    if spec.encode(errors="replace").decode() != spec:
        raise UsageError(f"{readable(spec)} is not a valid text name, so a recipe could not store it; rename it")
    if path.suffix.lower() == ".npz" and path.is_file():
        if options.loader == "stream":
            raise UsageError(f'data.loader = "stream" is for image files, and {spec} has arrays; leave it out')
        return open_npz(spec, path, options)
    large = read_if_large(path, options)
    if large is None:
        return build_dataset(spec, list_files(path, root, options.group), options)
    unopened = UnopenedFiles(spec, list_root(path, root, large.names[0]), large.names)
    reason = unopened.shortage(options) if options.loader == "auto" else None
    if options.loader == "auto" and not reason and path.stat().st_size <= csv_list.MAX_BYTES:
        return build_dataset(spec, list_files(path, root), options)
    assignment = complete_assignment(large.assignment(spec), options)
    dataset = build_streamed(unopened, assignment, options, large.remarks, reason).dataset
    assert dataset is not None  # problems are raised
    return dataset


def open_headers(spec: str, root: str | Path, options: ReadOptions) -> OpenedFiles | None:
    """The image files at a path with their headers read; None if they are arrays, a large list, or stay in files."""
    path = expand_home(spec)
    if path.suffix.lower() == ".npz" or options.loader == "stream" or read_if_large(path, options):
        return None
    files = list_files(path, root, options.group)
    if options.loader == "auto" and UnopenedFiles(spec, files.root, files.packed_names()).shortage(options):
        return None
    return OpenedFiles(spec, files)


def read_if_large(path: Path, options: ReadOptions) -> LargeList | None:
    """A ``.txt`` list of paths and whole numbers that is large, or whose images are to stay in their files; else None.

    Raises:
        UsageError: the list is too large for ``csv_list``, and has a line that is not a path and a whole number.
    """
    if path.suffix.lower() != ".txt" or not path.is_file() or options.group is not None or options.loader == "resident":
        return None
    size = path.stat().st_size
    if options.loader == "auto" and size < LARGE_LIST:
        return None
    try:
        return read_large_list(path)
    except UnexpectedLine as error:
        if size <= csv_list.MAX_BYTES:
            return None
        raise UsageError(f"{error}; a list of more than {csv_list.MAX_BYTES:,} bytes needs such lines only") from None


def named_root(root: str | None, otherwise: str = DEFAULT_ROOT) -> str:
    """The root that a user named, or ``otherwise``. "data" is the default, so who names that folder gets "./data"."""
    if root is None:
        return otherwise
    return f"./{root}" if root == DEFAULT_ROOT else root


def list_root(file: Path, root: str | Path, first: str) -> Path:
    """The folder that the paths of a list start from: ``root`` if a user named it, else the folder of the list.

    The default root is taken only if the ``first`` path leads to a file from there, and not from the list.
    """
    place = Path(root)
    if str(root) != DEFAULT_ROOT or ((place / first).exists() and not (file.parent / first).exists()):
        return place
    return file.parent


def list_files(
    path: Path, root: str | Path = DEFAULT_ROOT, group: str | None = None, *, needs_training: bool = True
) -> FileList:
    """The image files of a folder or list, none of them opened; for lists ``list_root`` says what ``root`` means.

    ``needs_training`` is that of ``read_folder``.
    """
    if path.is_dir():
        return read_folder(path, needs_training=needs_training)
    if not path.exists():
        gone = "is a link that leads nowhere" if path.is_symlink() else "does not exist"
        raise TailcloudError(f"{path} {gone}; {KINDS}")
    if path.suffix.lower() not in LIST_SUFFIXES or not path.is_file():
        raise UsageError(f"{path} is not a data set; {KINDS} (unpack archives first)")
    files = csv_list.read_list(path, group)
    return replace(files, root=list_root(path, root, files.files[0]))
