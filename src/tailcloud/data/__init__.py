"""Data sets by name: ``open_dataset("cifar10-lt:100", root="data")``.

The files beside this one are what the rooms in here need: what a ``dataset`` is and how it is parted (``parting``,
``longtail``), how images are to be read (``reading``), files that become images (``names``, ``pictures``, ``decoding``,
``file_images``), the ``memory`` that they take, and ``duplicates`` among them. The rooms are ``own`` and ``sources``
(where images come from), ``batches``, ``planes`` and ``surveying``; each says at its door what is in it.
"""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

from tailcloud.data.benchmarks.cifar import open_cifar, open_cifar_for_tuning
from tailcloud.data.benchmarks.digits import open_digits
from tailcloud.data.benchmarks.editions import EDITIONS
from tailcloud.data.benchmarks.file_lists import open_published
from tailcloud.data.dataset import Dataset, Split, hold_out
from tailcloud.data.read_options import ReadOptions
from tailcloud.data.readers.own_data import open_own
from tailcloud.errors import UsageError, unknown

__all__ = [
    "OWN",
    "SOURCES",
    "Dataset",
    "ReadOptions",
    "Split",
    "hold_out",
    "is_in_files",
    "is_path",
    "open_dataset",
    "parse_spec",
]

OWN = "own"
FILES = {".csv", ".tsv", ".txt", ".npz"}

Opener = Callable[[float | None, Path, ReadOptions], Dataset]

SOURCES: dict[str, Opener] = {
    "digits-lt": lambda ratio, *_: open_digits(ratio),
    "cifar10": lambda _, root, __: open_cifar("cifar10", None, root),
    "cifar100": lambda _, root, __: open_cifar("cifar100", None, root),
    "cifar10-lt": lambda ratio, root, _: open_cifar("cifar10", ratio, root),
    "cifar100-lt": lambda ratio, root, _: open_cifar("cifar100", ratio, root),
    "cifar10-lt-tune": lambda ratio, root, _: open_cifar_for_tuning("cifar10", ratio, root),
    "cifar100-lt-tune": lambda ratio, root, _: open_cifar_for_tuning("cifar100", ratio, root),
    "imagenet-lt": lambda _, root, reading: open_published("imagenet-lt", root, reading),
    "places-lt": lambda _, root, reading: open_published("places-lt", root, reading),
    "inat2018": lambda _, root, reading: open_published("inat2018", root, reading),
}
FOR_PUBLISHED = {"size", "loader"}  # what can be said of images in files that somebody else has listed


def parse_spec(spec: str) -> tuple[str, float | None]:
    """The source and imbalance ratio that a SPEC such as ``cifar10-lt:100`` names, checked without opening anything.

    A path to images of one's own is the source "own".
    """
    name, colon, text = spec.partition(":")
    if name not in SOURCES:
        if is_path(spec):
            return OWN, None
        raise UsageError(f"{unknown('data set', name, SOURCES)}; nor is there a folder or file of that name")
    if name in EDITIONS:
        if colon:
            raise UsageError(f'{name} is as its authors made it and takes no imbalance ratio; write "{name}"')
        return name, None
    if "-lt" not in name:
        if colon:
            raise UsageError(f'{name} is the whole, balanced data set; write "{name}-lt:{text}" for a long-tailed one')
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
    """Whether a SPEC means files: something that is there, or that looks like a place where something could be."""
    return Path(spec).exists() or "/" in spec or "\\" in spec or Path(spec).suffix.lower() in FILES


def is_in_files(spec: str) -> bool:
    """Whether each image of a SPEC is a file of its own."""
    return Path(spec).suffix.lower() != ".npz" if parse_spec(spec)[0] == OWN else spec in EDITIONS


def open_dataset(spec: str = "digits-lt", root: str | Path = "data", reading: ReadOptions = ReadOptions()) -> Dataset:  # noqa: B008
    """The data set that ``spec`` names; files of the benchmarks are looked for under ``root``.

    ``digits-lt[:γ]`` needs no files. ``cifar10``, ``cifar100``, ``cifar10-lt:γ`` and ``cifar100-lt:γ`` read the
    official python or binary layout. ``cifar10-lt-tune:γ`` and ``cifar100-lt-tune:γ`` are for choosing settings: they
    judge on training images, and keep clear of the test set. ``imagenet-lt``, ``places-lt`` and ``inat2018`` are read
    from their published lists, and their images stay in files. A path is images of one's own, read as ``reading`` says;
    the paths in a list start from the folder of the list, or from another ``root``.
    """
    name, ratio = parse_spec(spec)
    if name == OWN:
        return open_own(spec, Path(root), reading)
    allowed = FOR_PUBLISHED if name in EDITIONS else set()
    for field in fields(ReadOptions):
        if field.name not in allowed and (value := getattr(reading, field.name)) != field.default:
            raise UsageError(f"data.{field.name} = {value} is for images of your own; {spec} is as its authors made it")
    return SOURCES[name](ratio, Path(root), reading)
