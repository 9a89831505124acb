"""Looking at data, good or bad: what training would refuse is named, and the rest is looked at all the same."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tailcloud.data import OWN, open_dataset, parse_spec
from tailcloud.data.dataset import Dataset
from tailcloud.data.decoding import read_headers, read_pictures, unreadable_remark
from tailcloud.data.duplicates import SIDE
from tailcloud.data.memory import check_fits, shortage
from tailcloud.data.own.arranging import PART_NAMES, Arrangement, arrange, in_order, part_numbers
from tailcloud.data.own.arrays import read_labels
from tailcloud.data.own.assembling import assemble, order_of
from tailcloud.data.own.filing import Filed, streamed
from tailcloud.data.own.listing import Listing, group_keys
from tailcloud.data.own.opening import list_images, long_list, staying
from tailcloud.data.own.sizing import chosen_size
from tailcloud.data.pictures import Header, Unreadable
from tailcloud.data.reading import Reading
from tailcloud.data.sources.editions import EDITIONS
from tailcloud.data.sources.published import listed
from tailcloud.data.surveying.surveyed import Survey, Vector
from tailcloud.errors import TailcloudError


def survey(spec: str, root: str | Path = "data", reading: Reading = Reading()) -> Survey:  # noqa: B008
    """Look at everything that ``spec`` names; arguments are those of ``open_dataset``.

    Raises:
        TailcloudError: there is nothing to look at: no files, no classes, a list that cannot be read.
    """
    if (name := parse_spec(spec)[0]) in EDITIONS and reading.plane != "resident":
        return _survey_published(name, Path(root), reading)
    if name != OWN:
        return survey_dataset(open_dataset(spec, root, reading))
    path = Path(spec).expanduser()
    if path.suffix.lower() == ".npz" and path.is_file():
        return _survey_arrays(spec, path, reading)
    if reading.plane == "stream" or long_list(path, reading):
        return survey_dataset(open_dataset(spec, root, reading))
    return survey_files(spec, list_images(path, Path(root), reading.group), reading)


def survey_dataset(dataset: Dataset) -> Survey:
    """A data set that is whole."""
    found = Survey(dataset.spec)
    found.hold(dataset)
    return found


def _survey_published(name: str, root: Path, reading: Reading) -> Survey:
    """A large benchmark by its lists, and whether its images are there."""
    found = survey_dataset(listed(name, root, reading))
    with found.minding():
        found.dataset = open_dataset(name, root, reading)
    return found


def _survey_arrays(spec: str, path: Path, reading: Reading) -> Survey:
    """An ``.npz`` file; where training would refuse it, its classes are counted and its images stay unread."""
    try:
        return survey_dataset(open_dataset(spec, reading=reading))
    except TailcloudError as refusal:
        labels, parts = read_labels(path)
        if not labels:
            raise
        class_names = in_order(set(labels))
        numbers, parts = _numbered(labels, class_names), [part or "train" for part in parts]
        return Survey(spec, class_names, numbers, parts, refusals=[str(refusal)])


def survey_files(spec: str, listing: Listing, reading: Reading) -> Survey:
    """Image files, read as training would read them: once, at the size that it would take.

    Raises:
        TailcloudError: not one of them can be read.
    """
    headers = read_headers(listing.paths)
    broken = {at: header for at, header in enumerate(headers) if isinstance(header, Unreadable)}
    whole = [at for at in range(len(listing)) if at not in broken]
    found = Survey(spec, headers=[header for header in headers if isinstance(header, Header)], remarks=listing.remarks)
    if whole:
        broken |= {whole[at]: error for at, error in _read(found, listing.take(whole), reading).items()}
    with found.minding():
        unreadable_remark(spec, listing.names, broken)
    if not len(found.labels):
        raise TailcloudError(found.refusals[-1])
    found.broken = {listing.names[at]: error.why for at, error in sorted(broken.items())}
    if found.refusals:
        found.dataset = None
    return found


def _read(found: Survey, sound: Listing, reading: Reading) -> dict[int, Unreadable]:
    """Put the images of sound files into a survey; those (by position) whose pixels cannot be read are left out."""
    arranged = _arranged(found, sound, reading)
    order = order_of(arranged)
    size, sizing = chosen_size([(header.height, header.width) for header in found.headers], reading)
    channels = 1 if all(header.grey for header in found.headers) else 3
    short = shortage(len(order), size, channels)
    if short and reading.plane == "resident":
        with found.minding():
            check_fits(found.spec, len(order), size, channels)
    side = min(size, SIDE) if short else size
    images, damaged = read_pictures(sound.take(order.tolist()).paths, channels, side, reading.fit)
    found.remarks = [*found.remarks, *arranged.remarks, *sizing]
    if not found.refusals:
        with found.minding():
            if short:
                remarks = [*found.remarks, *staying(short)]
                found.dataset = streamed(
                    Filed(found.spec, sound.root, sound.packed()), arranged, size, reading, remarks
                )
                found.remarks = found.dataset.remarks
            else:
                found.hold(assemble(arranged, images, sound.names, reading.fit, found.remarks, left_out=damaged))
    if not found.images:
        kept = np.setdiff1d(np.arange(len(order)), list(damaged))
        found.class_names, found.labels = arranged.class_names, arranged.labels[order][kept]
        found.parts = [PART_NAMES[part] for part in arranged.parts[order][kept].tolist()]
        found.names, found.images = [sound.names[order[row]] for row in kept], [images[kept] if damaged else images]
    return {int(order[row]): error for row, error in damaged.items()}


def _arranged(found: Survey, sound: Listing, reading: Reading) -> Arrangement:
    """Classes and parts as training would have them, or as the data name them where it would refuse."""
    with found.minding():
        keys, remarks = group_keys(sound, reading.group)
        arranged = arrange(found.spec, sound.labels, sound.parts, keys, reading)
        arranged.remarks[:0] = remarks
        return arranged
    class_names = in_order(set(sound.labels))
    parts = part_numbers(part or "train" for part in sound.parts)
    return Arrangement(found.spec, class_names, _numbered(sound.labels, class_names), parts)


def _numbered(labels: Sequence[str], class_names: Sequence[str]) -> Vector:
    place = {name: position for position, name in enumerate(class_names)}
    return np.array([place[label] for label in labels], np.int64)
