"""Arrays in an ``.npz`` file, by the names that Keras and MedMNIST give them."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcloud.data.dataset import Dataset, Images
from tailcloud.data.image_io import fitted
from tailcloud.data.memory import COPIES, check_fits
from tailcloud.data.read_options import Fit, ReadOptions
from tailcloud.data.readers import npz_file
from tailcloud.data.readers.build_dataset import assemble, order_of
from tailcloud.data.readers.image_size import chosen_size
from tailcloud.data.readers.split_assignment import arrange
from tailcloud.errors import UsageError
from tailcloud.formatting import readable, some_of

PARTED = [("x_{}", "y_{}"), ("{}_images", "{}_labels")]
WHOLE = [("x", "y"), ("images", "labels")]


def open_arrays(spec: str, path: Path, reading: ReadOptions) -> Dataset:
    """The data set in an ``.npz`` file.

    ``x_train, y_train, x_test, y_test`` (perhaps ``x_val, y_val``), ``train_images, train_labels, val_images, …``, or
    ``x, y`` without parts. Images [N, H, W] or [N, H, W, 1 or 3] are uint8, uint16 (divided by 257) or floats from
    0 to 1; labels [N] or [N, 1] are whole numbers or text.
    """
    if reading.group is not None:
        raise UsageError(f'data.group = "{reading.group}" needs file names or a CSV column, and {spec} has arrays')
    pairs = _pairs(path)
    kinds = {name: npz_file.kind(path, name) for pair in pairs.values() for name in pair}
    size, remarks = chosen_size([_sides(path, pair, kinds) for pair in pairs.values()], reading)
    npz_file.check_memory(path, kinds.values(), COPIES)
    channels = {kinds[images].shape[3:] or (1,) for images, _ in pairs.values()}
    if len(channels) > 1:
        raise UsageError(f"{path}: the parts have different channels; save all of them grey, or all in colour")
    check_fits(spec, sum(kinds[images].shape[0] for images, _ in pairs.values()), size, *channels.pop())
    labels, parts = read_labels(path)
    arranged = arrange(spec, labels, parts, None, reading)
    pixels = np.concatenate([_fitted(path, images, size, reading) for images, _ in pairs.values()])
    order = order_of(arranged)
    in_place = len(order) == len(pixels) and bool((np.diff(order) == 1).all())
    return assemble(arranged, pixels if in_place else pixels[order], None, reading.fit, [*arranged.remarks, *remarks])


def read_labels(path: Path) -> tuple[list[str], list[str]]:
    """The label of every image in an ``.npz`` file, and its part ("" where there are none)."""
    pairs = _pairs(path)
    kinds = {name: npz_file.kind(path, name) for _, name in pairs.values()}
    for name, kind in kinds.items():
        _check_labels(path, name, kind)
    npz_file.check_memory(path, kinds.values(), COPIES)
    found = {part: _labels(npz_file.read(path, name)) for part, (_, name) in pairs.items()}
    return (
        [label for labels in found.values() for label in labels],
        [part for part, labels in found.items() for _ in labels],
    )


def _pairs(path: Path) -> dict[str, tuple[str, str]]:
    """The names of images and labels, by part; the part is "" where the file has no parts."""
    there = npz_file.names(path)
    for images, labels in PARTED:
        pairs = {part: (images.format(part), labels.format(part)) for part in ("train", "val", "test")}
        found = {part: pair for part, pair in pairs.items() if set(pair) <= set(there)}
        if "train" in found:
            return found
    for pair in WHOLE:
        if set(pair) <= set(there):
            return {"": pair}
    raise UsageError(
        f"{path} has the arrays {readable(some_of(there, 8)) or '(none)'}; it needs x_train, y_train, x_test, y_test, "
        "or train_images, train_labels, test_images, test_labels, or x and y"
    )


def _sides(path: Path, pair: tuple[str, str], kinds: dict[str, npz_file.Kind]) -> tuple[int, int]:
    """Height and width of the images, which are checked with their labels by what the headers say."""
    (images, labels), (shape, dtype), said = pair, kinds[pair[0]], kinds[pair[1]]
    if len(shape) not in {3, 4} or shape[3:] not in {(), (1,), (3,)} or 0 in shape:
        raise UsageError(f"{path}: {images} has the shape {shape}; images are [N, H, W] or [N, H, W, 1 or 3]")
    if dtype.kind != "f" and dtype not in {np.dtype(np.uint8), np.dtype(np.uint16)}:
        raise UsageError(f"{path}: {images} has the type {dtype}; images are uint8, uint16, or floats from 0 to 1")
    _check_labels(path, labels, said)
    if said.shape[0] != shape[0]:
        raise UsageError(f"{path}: {images} has {shape[0]:,} images, and {labels} has {said.shape[0]:,} labels")
    return shape[1], shape[2]


def _check_labels(path: Path, name: str, kind: npz_file.Kind) -> None:
    if len(kind.shape) not in {1, 2} or kind.shape[1:] not in {(), (1,)} or kind.dtype.kind not in "iubUS":
        raise UsageError(
            f"{path}: {name} has the shape {kind.shape} and the type {kind.dtype}; it should be one whole number or "
            "text an image (of one-hot rows, save labels.argmax(axis=1))"
        )


def _labels(values: NDArray[Any]) -> list[str]:
    flat = values.reshape(-1)
    text = np.char.decode(flat, "utf-8", "replace") if flat.dtype.kind == "S" else flat
    return [readable(str(value)) for value in text.tolist()]


def _fitted(path: Path, name: str, size: int, reading: ReadOptions) -> Images:
    """The images of an array as uint8 [N, size, size, channels]."""
    values = npz_file.read(path, name)
    images = eight_bits(f"{path}: {name}", values).reshape(*values.shape[:3], -1)
    return all_fitted(images, (size, size), reading.fit)


def all_fitted(images: Images, size: tuple[int, int], fit: Fit) -> Images:
    """Images [N, H, W, C] brought to a size (height, width), each as ``fitted`` does it."""
    if images.shape[1:3] == size:
        return images
    result = np.empty((len(images), *size, images.shape[3]), np.uint8)
    for row, image in enumerate(images):
        result[row] = fitted(image, size, fit)
    return result


def eight_bits(what: str, values: NDArray[Any]) -> Images:
    """Images of type uint8, uint16 (divided by 257) or float (from 0 to 1) as uint8; errors call them ``what``."""
    if values.dtype == np.uint8:
        return np.asarray(values, np.uint8)
    if values.dtype == np.uint16:
        return np.asarray((values.astype(np.uint32) + 128) // 257, np.uint8)
    low, high = float(values.min()), float(values.max())
    if not (low >= 0 and high <= 1):
        raise UsageError(f"{what} has floats from {low:g} to {high:g}; give them from 0 to 1, or as uint8")
    return np.asarray(np.rint(values * 255), np.uint8)
