"""Images of one's own: a folder, a CSV or list file, or arrays."""

from dataclasses import replace
from pathlib import Path

from tailcloud.data.dataset import Dataset
from tailcloud.data.image_io import Header, Unreadable
from tailcloud.data.memory import check_fits, shortage
from tailcloud.data.parallel_io import read_headers, read_pictures, unreadable_remark
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers import csv_list
from tailcloud.data.readers.build_dataset import assemble, order_of
from tailcloud.data.readers.build_streamed import Filed, streamed
from tailcloud.data.readers.file_list import Listing, group_keys
from tailcloud.data.readers.folder import read_folder
from tailcloud.data.readers.image_size import chosen_size
from tailcloud.data.readers.large_list import LongList, NotPlain, read_long_list
from tailcloud.data.readers.npz import open_arrays
from tailcloud.data.readers.split_assignment import Arrangement, arrange, settled
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.formatting import readable

LISTS = {".csv", ".tsv", ".txt"}
LONG = 2**25  # bytes of a list, about half a million images
USUAL_ROOT = Path("data")


def open_own(spec: str, root: Path, reading: ReadOptions) -> Dataset:
    """The data set at a path: its images in memory, or in their files if ``reading.loader`` or their number says so."""
    path = Path(spec).expanduser()
    if spec.encode(errors="replace").decode() != spec:
        raise UsageError(f"the name of {readable(spec)} is no text, and a recipe could not name it; rename it")
    if path.suffix.lower() == ".npz" and path.is_file():
        if reading.loader == "stream":
            raise UsageError(f'data.loader = "stream" is for images in files, and {spec} has arrays; leave it out')
        return open_arrays(spec, path, reading)
    long = long_list(path, reading)
    if long is None:
        return open_files(spec, list_images(path, root, reading.group), reading)
    filed = Filed(spec, start_of(path, root, long.names[0]), long.names)
    reason = filed.shortage(reading) if reading.loader == "auto" else None
    if reading.loader == "auto" and not reason and path.stat().st_size <= csv_list.LARGEST:
        return open_files(spec, list_images(path, root), reading)
    return _stream(filed, settled(long.arranged(spec), reading), reading, [*long.remarks, *staying(reason)])


def long_list(path: Path, reading: ReadOptions) -> LongList | None:
    """What a list of paths and whole numbers says, where it is long or its images stay in files; else None."""
    if path.suffix.lower() != ".txt" or not path.is_file() or reading.group is not None or reading.loader == "resident":
        return None
    size = path.stat().st_size
    if reading.loader == "auto" and size < LONG:
        return None
    try:
        return read_long_list(path)
    except NotPlain as line:
        if size <= csv_list.LARGEST:
            return None
        raise UsageError(f"{line}, as in a list of more than {csv_list.LARGEST:,} bytes it has to be") from None


def start_of(file: Path, root: Path, first: str) -> Path:
    """The folder that the paths of a list start from: ``root`` where somebody named one, else that of the list.

    The usual root need not be meant. It is taken if the ``first`` path leads to a file from there, and not from the
    list.
    """
    if root != USUAL_ROOT:
        return root
    return root if (root / first).exists() and not (file.parent / first).exists() else file.parent


def list_images(path: Path, root: Path = USUAL_ROOT, group: str | None = None) -> Listing:
    """The image files of a folder or list, before any of them is opened; ``start_of`` says what ``root`` is for."""
    if path.is_dir():
        return read_folder(path)
    if not path.exists():
        raise TailcloudError(f"there is no {path}; give a folder of images, a .csv, .tsv or .txt list, or an .npz file")
    if path.suffix.lower() not in LISTS or not path.is_file():
        raise UsageError(
            f"{path} is no data set; give a folder of images, a .csv, .tsv or .txt list, or an .npz file "
            "(archives have to be unpacked first)"
        )
    listing = csv_list.read_list(path, group)
    return replace(listing, root=start_of(path, root, listing.files[0]))


def open_files(spec: str, listing: Listing, reading: ReadOptions) -> Dataset:
    """The files of a listing, read now or left where they are."""
    if reading.loader == "resident":
        return _read_files(spec, listing, reading)
    filed = Filed(spec, listing.root, listing.packed())
    reason = filed.shortage(reading) if reading.loader == "auto" else None
    if reading.loader == "auto" and not reason:
        return _read_files(spec, listing, reading)
    keys, grouping = group_keys(listing, reading.group)
    arranged = arrange(spec, listing.labels, listing.parts, keys, reading)
    return _stream(filed, arranged, reading, [*listing.remarks, *grouping, *staying(reason)])


def staying(reason: str | None) -> list[str]:
    """The remark on images that stay in their files for a reason; none where somebody asked for that."""
    if reason is None:
        return []
    return [f"There are {reason}: they stay in their files, and each is read when it is shown (data.loader)."]


def _stream(filed: Filed, arranged: Arrangement, reading: ReadOptions, remarks: list[str]) -> Dataset:
    size, sizing = filed.size(reading)
    return streamed(filed, arranged, size, reading, [*remarks, *arranged.remarks, *sizing])


def _read_files(spec: str, listing: Listing, reading: ReadOptions) -> Dataset:
    """Read the files of a listing: headers first, so that size, colours and memory are known before any pixel is."""
    headers = read_headers(listing.paths)
    broken = {at: header for at, header in enumerate(headers) if isinstance(header, Unreadable)}
    unreadable_remark(spec, listing.names, broken)
    whole = [at for at in range(len(listing)) if at not in broken]
    sound, good = listing.take(whole), [header for header in headers if isinstance(header, Header)]
    keys, grouping = group_keys(sound, reading.group)
    arranged = arrange(spec, sound.labels, sound.parts, keys, reading)
    size, sizing = chosen_size([(header.height, header.width) for header in good], reading)
    channels, order = 1 if all(header.grey for header in good) else 3, order_of(arranged)
    if reading.loader == "auto" and shortage(len(order), size, channels):
        return open_files(spec, listing, replace(reading, loader="stream"))  # a sample of them had looked smaller
    check_fits(spec, len(order), size, channels)
    images, damaged = read_pictures(sound.take(order.tolist()).paths, channels, size, reading.fit)
    broken |= {whole[order[row]]: error for row, error in damaged.items()}
    unread = unreadable_remark(spec, listing.names, broken)
    remarks = [*listing.remarks, *unread, *grouping, *arranged.remarks, *sizing]
    return assemble(arranged, images, sound.names, reading.fit, remarks, left_out=damaged)
