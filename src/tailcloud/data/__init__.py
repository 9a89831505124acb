"""Data sets by name: ``open_dataset("cifar10-lt:100", root="data")``.

- ``dataset``: what a data set is, and how images are held out.
- ``splits``: which images are set aside for testing or validation.
- ``longtail``: long-tailed subsets of balanced data.
- ``read_options``: how images are read.
- ``image_io``: one image file as an array.
- ``parallel_io``: many image files at once.
- ``file_images``: images that stay in their files.
- ``packed_names``: the names of millions of files.
- ``memory``: whether data fit into memory.
- ``readers``: your own images, by their path.
- ``benchmarks``: data sets by their name.
- ``augment``: random changes of training images.
- ``loaders``: batches on the device.
- ``inspection``: checks of a data set before training.
"""

import os
from collections.abc import Callable
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path

from tailcloud.data.benchmarks.cifar import TUNE, open_cifar, open_cifar_for_tuning
from tailcloud.data.benchmarks.digits import open_digits
from tailcloud.data.benchmarks.editions import EDITIONS
from tailcloud.data.benchmarks.file_lists import open_published
from tailcloud.data.dataset import Dataset, Split, hold_out, limit_classes
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers.open_path import open_path
from tailcloud.errors import UsageError

__all__ = [
    "OWN",
    "SOURCES",
    "Dataset",
    "ReadOptions",
    "Split",
    "hold_out",
    "is_in_files",
    "is_path",
    "limit_classes",
    "open_dataset",
    "parse_spec",
]

OWN = "own"
FILE_SUFFIXES = {".csv", ".tsv", ".txt", ".npz"}

Opener = Callable[[float | None, Path, ReadOptions], Dataset]

SOURCES: dict[str, Opener] = {
    "digits-lt": lambda ratio, *_: open_digits(ratio),
    "cifar10": lambda _, root, __: open_cifar("cifar10", None, root),
    "cifar100": lambda _, root, __: open_cifar("cifar100", None, root),
    "cifar10-lt": lambda ratio, root, _: open_cifar("cifar10", ratio, root),
    "cifar100-lt": lambda ratio, root, _: open_cifar("cifar100", ratio, root),
    f"cifar10-lt{TUNE}": lambda ratio, root, _: open_cifar_for_tuning("cifar10", ratio, root),
    f"cifar100-lt{TUNE}": lambda ratio, root, _: open_cifar_for_tuning("cifar100", ratio, root),
    "imagenet-lt": lambda _, root, options: open_published("imagenet-lt", root, options),
    "places-lt": lambda _, root, options: open_published("places-lt", root, options),
    "inat2018": lambda _, root, options: open_published("inat2018", root, options),
}
FOR_EDITIONS = {"size", "loader"}  # the fields of ReadOptions that apply to the large benchmarks


def parse_spec(spec: str) -> tuple[str, float | None]:
    """The source and imbalance ratio of a SPEC such as ``cifar10-lt:100``, checked without opening anything.

    The source of a path to your own images is "own".
    """
    name, colon, text = spec.partition(":")
    if name not in SOURCES:
        if text.startswith("//") and not os.path.lexists(spec):
            raise UsageError(f"{spec} is an address, and data are read from this machine only; download them first")
        if is_path(spec):
            return OWN, None
        beside = (path.name for path in Path().iterdir())
        close = get_close_matches(name, [*SOURCES, *beside], n=1)
        hint = f'did you mean "{close[0]}"? Known' if close else "known"
        raise UsageError(
            f'there is no folder, file or data set "{name}"; {hint} data sets: {", ".join(sorted(SOURCES))}'
        )
    if name in EDITIONS:
        if colon:
            raise UsageError(f'{name} has a fixed imbalance and takes no ratio; write "{name}"')
        return name, None
    if "-lt" not in name:
        if colon:
            raise UsageError(f'{name} is complete and balanced; write "{name}-lt:{text}" for a long-tailed data set')
        return name, None
    if not colon and name != "digits-lt":
        raise UsageError(f'{name} needs an imbalance ratio, for example "{name}:100"')
    return name, _ratio(spec, text) if colon else None


def _ratio(spec: str, text: str) -> float:
    try:
        ratio = float(text)
    except ValueError:
        ratio = float("nan")
    if not 1 <= ratio < float("inf"):
        raise UsageError(f'"{spec}": the imbalance ratio after the colon must be a number of at least 1, not "{text}"')
    return ratio


def is_path(spec: str) -> bool:
    """Whether a SPEC is a path: one that exists, or text that looks like a path."""
    return os.path.lexists(spec) or "/" in spec or "\\" in spec or Path(spec).suffix.lower() in FILE_SUFFIXES


def is_in_files(spec: str) -> bool:
    """Whether the images of a SPEC are image files, not arrays."""
    return Path(spec).suffix.lower() != ".npz" if parse_spec(spec)[0] == OWN else spec in EDITIONS


def open_dataset(spec: str = "digits-lt", root: str | Path = "data", options: ReadOptions = ReadOptions()) -> Dataset:  # noqa: B008
    """The data set that ``spec`` names; the files of benchmarks are below ``root``.

    ``digits-lt[:γ]`` needs no files. ``cifar10``, ``cifar100``, ``cifar10-lt:γ`` and ``cifar100-lt:γ`` read the
    official python or binary layout. ``cifar10-lt-tune:γ`` and ``cifar100-lt-tune:γ`` are for choosing settings: their
    test split has training images, and the test set is not used. ``imagenet-lt``, ``places-lt`` and ``inat2018`` are
    read from their published lists, and their images stay in files. A path means your own images, read as ``options``
    say; the paths in a list start from the folder of the list, or from ``root`` if that is given (as text, "./data" for
    the folder of the default name).
    """
    name, ratio = parse_spec(spec)
    if name == OWN:
        return open_path(spec, root, options)
    allowed = FOR_EDITIONS if name in EDITIONS else set()
    for field in fields(ReadOptions):
        if field.name not in allowed and (value := getattr(options, field.name)) != field.default:
            raise UsageError(f"data.{field.name} = {value} is for your own images; leave it out for {spec}")
    return SOURCES[name](ratio, Path(root), options)
