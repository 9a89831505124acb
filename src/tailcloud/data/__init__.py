"""Data sets by name: ``open_dataset("cifar10-lt:100", root="data")``."""

from collections.abc import Callable
from pathlib import Path

from tailcloud.data.cifar import open_cifar, open_cifar_for_tuning
from tailcloud.data.dataset import Dataset, Split, hold_out
from tailcloud.data.digits import open_digits
from tailcloud.errors import UsageError, unknown

__all__ = ["SOURCES", "Dataset", "Split", "hold_out", "open_dataset", "parse_spec"]

Opener = Callable[[float | None, Path], Dataset]

SOURCES: dict[str, Opener] = {
    "digits-lt": lambda ratio, _: open_digits(ratio),
    "cifar10": lambda _, root: open_cifar("cifar10", None, root),
    "cifar100": lambda _, root: open_cifar("cifar100", None, root),
    "cifar10-lt": lambda ratio, root: open_cifar("cifar10", ratio, root),
    "cifar100-lt": lambda ratio, root: open_cifar("cifar100", ratio, root),
    "cifar10-lt-tune": lambda ratio, root: open_cifar_for_tuning("cifar10", ratio, root),
    "cifar100-lt-tune": lambda ratio, root: open_cifar_for_tuning("cifar100", ratio, root),
}


def parse_spec(spec: str) -> tuple[str, float | None]:
    """The source and imbalance ratio that a SPEC such as ``cifar10-lt:100`` names, checked without opening anything."""
    name, colon, text = spec.partition(":")
    if name not in SOURCES:
        if Path(spec).exists():
            raise UsageError(
                f"{spec} is a path, and this version of tailcloud reads no images of your own yet, only its data sets "
                f"{', '.join(SOURCES)}"
            )
        raise unknown("data set", name, SOURCES)
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


def open_dataset(spec: str = "digits-lt", root: str | Path = "data") -> Dataset:
    """The data set that ``spec`` names; files are looked for under ``root``.

    ``digits-lt[:γ]`` needs no files. ``cifar10``, ``cifar100``, ``cifar10-lt:γ`` and ``cifar100-lt:γ`` read the
    official python or binary layout. ``cifar10-lt-tune:γ`` and ``cifar100-lt-tune:γ`` are for choosing settings: they
    judge on training images, and keep clear of the test set.
    """
    name, ratio = parse_spec(spec)
    return SOURCES[name](ratio, Path(root))
