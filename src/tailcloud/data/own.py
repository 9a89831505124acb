"""Images of one's own: a folder, a CSV or list file, or arrays."""

from pathlib import Path

from tailcloud.data.arranging import arrange
from tailcloud.data.arrays import open_arrays
from tailcloud.data.assembling import assemble, order_of
from tailcloud.data.dataset import Dataset
from tailcloud.data.decoding import read_headers, read_pictures, unreadable_remark
from tailcloud.data.folder import read_folder
from tailcloud.data.listing import Listing, group_keys
from tailcloud.data.lists import read_list
from tailcloud.data.memory import check_fits
from tailcloud.data.pictures import Header, Unreadable
from tailcloud.data.reading import Reading
from tailcloud.data.sizing import chosen_size
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.wording import readable

LISTS = {".csv", ".tsv", ".txt"}


def open_own(spec: str, reading: Reading) -> Dataset:
    """The data set at a path, its images in memory."""
    path = Path(spec).expanduser()
    if spec.encode(errors="replace").decode() != spec:
        raise UsageError(f"the name of {readable(spec)} is no text, and a recipe could not name it; rename it")
    if path.suffix.lower() == ".npz" and path.is_file():
        return open_arrays(spec, path, reading)
    return open_files(spec, list_images(path, reading.group), reading)


def list_images(path: Path, group: str | None = None) -> Listing:
    """The image files of a folder or list, before any of them is opened."""
    if path.is_dir():
        return read_folder(path)
    if not path.exists():
        raise TailcloudError(f"there is no {path}; give a folder of images, a .csv, .tsv or .txt list, or an .npz file")
    if path.suffix.lower() not in LISTS or not path.is_file():
        raise UsageError(
            f"{path} is no data set; give a folder of images, a .csv, .tsv or .txt list, or an .npz file "
            "(archives have to be unpacked first)"
        )
    return read_list(path, group)


def open_files(spec: str, listing: Listing, reading: Reading) -> Dataset:
    """Read the files of a listing: headers first, so that size, colours and memory are known before any pixel is."""
    headers = read_headers(listing.paths)
    broken = {at: header for at, header in enumerate(headers) if isinstance(header, Unreadable)}
    unreadable_remark(spec, listing.names, broken)
    whole = [at for at in range(len(listing)) if at not in broken]
    sound, good = listing.take(whole), [header for header in headers if isinstance(header, Header)]
    keys, grouping = group_keys(sound, reading.group)
    arranged = arrange(spec, sound.labels, sound.parts, keys, reading)
    size, sizing = chosen_size([min(header.height, header.width) for header in good], reading)
    channels, order = 1 if all(header.grey for header in good) else 3, order_of(arranged)
    check_fits(spec, len(order), size, channels)
    images, damaged = read_pictures([sound.paths[at] for at in order], channels, size, reading.fit)
    broken |= {whole[order[row]]: error for row, error in damaged.items()}
    unread = unreadable_remark(spec, listing.names, broken)
    remarks = [*listing.remarks, *unread, *grouping, *arranged.remarks, *sizing]
    return assemble(arranged, images, sound.names, reading.fit, remarks, left_out=damaged)
