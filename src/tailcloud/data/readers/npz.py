"""Images and labels in an ``.npz`` file, by the names that Keras and MedMNIST give to the arrays.

Files are not trusted: names, shapes and types are read and checked before any array is, and pickles are refused.
"""

import sys
from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from tailcloud.data.dataset import Dataset
from tailcloud.data.image_io import Pixels, resize_image
from tailcloud.data.memory import check_images_fit, shortage
from tailcloud.data.read_options import Fit, ReadOptions
from tailcloud.data.readers.build_dataset import assemble
from tailcloud.data.readers.file_list import printable_labels
from tailcloud.data.readers.image_size import choose_size
from tailcloud.data.readers.split_assignment import assign_splits
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.formatting import readable, some_of

ENDING = ".npy"
MAX_HEADER = 10_000  # bytes; NumPy has the same limit, but checks it only after the header is in memory
BY_SPLIT = [("x_{}", "y_{}"), ("{}_images", "{}_labels")]
WITHOUT_SPLITS = [("x", "y"), ("images", "labels")]


class ArrayHeader(NamedTuple):
    """Shape and type of an array, which are known before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def bytes(self) -> int:
        """The memory that the array needs."""
        return prod(self.shape) * self.dtype.itemsize


def array_names(path: Path) -> list[str]:
    """The names of the arrays in a file.

    Compression that NumPy does not use is refused: Python may unpack more of it at once than was requested.
    """
    try:
        with ZipFile(path) as archive:
            if any(entry.compress_type not in {ZIP_STORED, ZIP_DEFLATED} for entry in archive.infolist()):
                raise ValueError("it is compressed in a way that NumPy does not use")
            return [name.removesuffix(ENDING) for name in archive.namelist() if name.endswith(ENDING)]
    except Exception as error:
        raise _damaged(path, error) from None


def array_header(path: Path, name: str) -> ArrayHeader:
    """Shape and type of an array, from its first bytes."""
    try:
        with ZipFile(path) as archive, archive.open(name + ENDING) as file:
            version = npy.read_magic(file)
            _check_header(archive, name, 2 if version == (1, 0) else 4)
            header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = header(file)
    except Exception as error:  # damaged archives, headers and streams raise anything
        raise _damaged(path, error) from None
    if dtype.hasobject:
        raise TailcloudError(f"{path}: {name} holds Python objects, which are never unpickled; save plain numbers")
    return ArrayHeader(shape, dtype)


def _check_header(archive: ZipFile, name: str, digits: int) -> None:
    """A few compressed bytes can unpack to gigabytes of header."""
    with archive.open(name + ENDING) as file:
        length = int.from_bytes(file.read(npy.MAGIC_LEN + digits)[npy.MAGIC_LEN :], "little")
    if length > MAX_HEADER:
        raise ValueError(f"the header of {name} has {length:,} bytes")


def read_array(path: Path, name: str) -> NDArray[Any]:
    """An array of a file."""
    try:
        with ZipFile(path) as archive, archive.open(name + ENDING) as file:
            array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
        _check_characters(array)
        return array
    except MemoryError:
        raise
    except Exception as error:
        raise _damaged(path, error) from None


def _check_characters(array: NDArray[Any]) -> None:
    """NumPy makes text of any numbers, and Python fails on those that are no characters."""
    if array.dtype.kind == "U" and array.dtype.itemsize and array.size:
        numbers = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if int(numbers.max()) > sys.maxunicode:
            raise ValueError("it has text with a character that does not exist")


def _damaged(path: Path, error: Exception) -> TailcloudError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return TailcloudError(
        f"{path} is damaged, or not an .npz file of arrays ({reason}); save it again with numpy.savez"
    )


def open_npz(spec: str, path: Path, options: ReadOptions) -> Dataset:
    """The data set in an ``.npz`` file.

    The arrays are ``x_train, y_train, x_test, y_test`` (and optionally ``x_val, y_val``), ``train_images,
    train_labels, val_images, …``, or ``x, y`` without splits. Images [N, H, W] or [N, H, W, 1 or 3] are uint8, uint16
    (divided by 257) or floats from 0 to 1; labels [N] or [N, 1] are whole numbers or text.
    """
    if options.group is not None:
        raise UsageError(f'data.group = "{options.group}" needs file names or a CSV column, and {spec} has arrays')
    pairs = _pairs(path)
    headers = {name: array_header(path, name) for pair in pairs.values() for name in pair}
    sides = [_checked_sides(path, pair, headers) for pair in pairs.values()]
    size, remarks = choose_size(sides, options)
    _check_memory(path, headers.values())
    channels = _check_channels(path, pairs, headers)
    check_images_fit(spec, sum(headers[images].shape[0] for images, _ in pairs.values()), size, *channels)
    labels, splits = read_labels(path)
    assignment = assign_splits(spec, labels, splits, None, options)
    pixels = np.concatenate([_resized(path, images, size, options.fit) for images, _ in pairs.values()])
    order = assignment.order()
    in_order = len(order) == len(pixels) and bool((np.diff(order) == 1).all())
    known = [*assignment.remarks, *remarks]
    return assemble(assignment, pixels if in_order else pixels[order], None, options.fit, known, sides)


def read_labels(path: Path, *, needs_training: bool = True) -> tuple[list[str], list[str]]:
    """The label of every image in an ``.npz`` file, and its split ("" if the file has no splits).

    A file with arrays of other splits but training is refused if ``needs_training``.
    """
    pairs = _pairs(path, needs_training)
    headers = {name: array_header(path, name) for _, name in pairs.values()}
    for name, header in headers.items():
        _check_labels(path, name, header)
    _check_memory(path, headers.values())
    labels = {split: _as_text(read_array(path, name)) for split, (_, name) in pairs.items()}
    return (
        printable_labels(path, [label for each in labels.values() for label in each]),
        [split for split, each in labels.items() for _ in each],
    )


def read_resized(path: Path, size: int, fit: Fit) -> Pixels:
    """Every image in an ``.npz`` file, in the order of ``read_labels``, as uint8 [N, size, size, channels]."""
    pairs = _pairs(path, needs_training=False)
    headers = {name: array_header(path, name) for pair in pairs.values() for name in pair}
    for pair in pairs.values():
        _checked_sides(path, pair, headers)
    _check_memory(path, headers.values())
    _check_channels(path, pairs, headers)
    return np.concatenate([_resized(path, images, size, fit) for images, _ in pairs.values()])


def _check_channels(path: Path, pairs: dict[str, tuple[str, str]], headers: dict[str, ArrayHeader]) -> tuple[int, ...]:
    """The channels that the images of all splits have, as the end of their shape."""
    channels = {headers[images].shape[3:] or (1,) for images, _ in pairs.values()}
    if len(channels) > 1:
        raise UsageError(f"{path}: the splits have different channels; save all of them grey, or all in color")
    return channels.pop()


def _check_memory(path: Path, headers: Iterable[ArrayHeader]) -> None:
    """A small file can unpack to arrays that are too large."""
    if reason := shortage(sum(header.bytes for header in headers), "its unpacked arrays"):
        raise TailcloudError(f"{path}: {reason}; save fewer or smaller images, as uint8")


def _pairs(path: Path, needs_training: bool = True) -> dict[str, tuple[str, str]]:
    """The names of images and labels by split; the split is "" if the file has no splits."""
    names = array_names(path)
    for images, labels in BY_SPLIT:
        pairs = {split: (images.format(split), labels.format(split)) for split in ("train", "val", "test")}
        present = {split: pair for split, pair in pairs.items() if set(pair) <= set(names)}
        if "train" in present or (present and not needs_training):
            return present
    for pair in WITHOUT_SPLITS:
        if set(pair) <= set(names):
            return {"": pair}
    raise UsageError(
        f"{path} has the arrays {readable(some_of(names, 8)) or '(none)'}; it needs x_train, y_train, x_test, y_test, "
        "or train_images, train_labels, test_images, test_labels, or x and y"
    )


def _checked_sides(path: Path, pair: tuple[str, str], headers: dict[str, ArrayHeader]) -> tuple[int, int]:
    """Height and width of the images; images and labels are checked by their headers."""
    (images, labels), (shape, dtype), of_labels = pair, headers[pair[0]], headers[pair[1]]
    if len(shape) not in {3, 4} or shape[3:] not in {(), (1,), (3,)} or 0 in shape:
        raise UsageError(f"{path}: {images} has the shape {shape}; images are [N, H, W] or [N, H, W, 1 or 3]")
    if dtype.kind != "f" and dtype not in {np.dtype(np.uint8), np.dtype(np.uint16)}:
        raise UsageError(f"{path}: {images} has the type {dtype}; images are uint8, uint16, or floats from 0 to 1")
    _check_labels(path, labels, of_labels)
    if of_labels.shape[0] != shape[0]:
        raise UsageError(f"{path}: {images} has {shape[0]:,} images, and {labels} has {of_labels.shape[0]:,} labels")
    return shape[1], shape[2]


def _check_labels(path: Path, name: str, header: ArrayHeader) -> None:
    if len(header.shape) not in {1, 2} or header.shape[1:] not in {(), (1,)} or header.dtype.kind not in "iubUS":
        raise UsageError(
            f"{path}: {name} has the shape {header.shape} and the type {header.dtype}; it should have one whole number "
            "or text per image (for one-hot rows, save labels.argmax(axis=1))"
        )


def _as_text(values: NDArray[Any]) -> list[str]:
    flat = values.reshape(-1)
    text = np.char.decode(flat, "utf-8", "surrogateescape") if flat.dtype.kind == "S" else flat
    return list(map(str, text.tolist()))


def _resized(path: Path, name: str, size: int, fit: Fit) -> Pixels:
    """The images of an array as uint8 [N, size, size, channels]."""
    values = read_array(path, name)
    images = to_uint8(f"{path}: {name}", values).reshape(*values.shape[:3], -1)
    return resize_images(images, (size, size), fit)


def resize_images(images: Pixels, size: tuple[int, int], fit: Fit) -> Pixels:
    """Images [N, H, W, C] resized to a size (height, width), each as by ``resize_image``."""
    if images.shape[1:3] == size:
        return images
    result = np.empty((len(images), *size, images.shape[3]), np.uint8)
    for row, image in enumerate(images):
        result[row] = resize_image(image, size, fit)
    return result


def to_uint8(what: str, values: NDArray[Any]) -> Pixels:
    """Images of type uint8, uint16 (divided by 257) or float (from 0 to 1) as uint8; errors call them ``what``."""
    if values.dtype == np.uint8:
        return np.asarray(values, np.uint8)
    if values.dtype == np.uint16:
        return np.asarray((values.astype(np.uint32) + 128) // 257, np.uint8)
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 1):
        raise UsageError(f"{what} has floats from {low:g} to {high:g}; give them from 0 to 1, or as uint8")
    return np.asarray(np.rint(values * 255), np.uint8)
