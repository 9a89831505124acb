"""The class prior that a user names: ``uniform``, ``train``, or a file with a share for each class."""

import csv
import json
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tailcloud.calibration.priors import Prior, normalised, train_prior, uniform_prior
from tailcloud.errors import UsageError
from tailcloud.formatting import composed

LARGEST_FILE = 1 << 26  # bytes
LISTED = 5  # missing classes that an error lists


def read_prior(text: str | None, class_names: list[str], frequencies: list[int]) -> Prior | None:
    """The prior that ``uniform``, ``train`` or the path of a file stands for, in the order of ``class_names``.

    ``frequencies`` are the training images per class. None stays None.
    """
    match text:
        case None:
            return None
        case "uniform":
            return uniform_prior(len(class_names))
        case "train":
            return train_prior(frequencies)
        case _:
            return _from_file(Path(text), class_names)


def _from_file(path: Path, class_names: list[str]) -> Prior:
    shares: dict[str, float] = {}
    known = {composed(name): name for name in class_names}
    for written, text in _rows(path):
        name = known.get(composed(written), written)
        if name not in class_names:
            close = get_close_matches(name, class_names, n=1)
            hint = f'did you mean "{close[0]}"?' if close else f"its classes are {class_names[0]} … {class_names[-1]}"
            raise UsageError(f'{path} has the class "{name}", which the model does not have; {hint}')
        if name in shares:
            raise UsageError(f'{path} has the class "{name}" twice')
        shares[name] = _share(path, name, text)
    missing = [name for name in class_names if name not in shares]
    if missing:
        listed = ", ".join(missing[:LISTED]) + (", …" if len(missing) > LISTED else "")
        raise UsageError(
            f"{path} has no share for {len(missing)} of {len(class_names)} classes ({listed}); write 0 for a class "
            "that does not occur"
        )
    try:
        return normalised([shares[name] for name in class_names])
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None


def _rows(path: Path) -> list[tuple[str, Any]]:
    """(class, share) pairs: a JSON object, or lines of class and share with or without a header."""
    if not path.is_file():
        raise UsageError(f'the prior "{path}" is neither uniform nor train nor a file with lines of class,share')
    if path.stat().st_size > LARGEST_FILE:
        raise UsageError(f"{path} has {path.stat().st_size:,} bytes, more than a share per class needs; it is not read")
    try:
        text = path.read_text(encoding="utf-8-sig")
        pairs = _json(text) if path.suffix.lower() == ".json" else _csv(text)
    except (ValueError, RecursionError, csv.Error):
        pairs = []
    if not pairs:
        raise UsageError(f'{path} is not a prior; write lines of class,share, or JSON {{"class": share}}')
    return pairs


def _json(text: str) -> list[tuple[str, Any]]:
    content = json.loads(text, object_pairs_hook=tuple)  # pairs, because a dict would hide a class that is there twice
    return list(content) if isinstance(content, tuple) else []


def _csv(text: str) -> list[tuple[str, Any]]:
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if row]
    if any(len(row) != 2 for row in rows):
        return []
    return [(name.strip(), share.strip()) for name, share in rows[1 if rows and not _is_number(rows[0][1]) else 0 :]]


def _share(path: Path, name: str, text: object) -> float:
    if not _is_number(text) or not 0 <= float(str(text)) < float("inf"):
        raise UsageError(f'{path}: the share of "{name}" must be a number of at least 0, not {text!r}')
    return float(str(text))


def _is_number(text: object) -> bool:
    try:
        float(str(text))
    except ValueError:
        return False
    return True
