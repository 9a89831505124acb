"""What must be true of the files of a run after every kill and at its end; for benchmarks/kills.py."""

import csv
import fcntl
import json
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import safe_open

from tailcloud.data.loaders.cache import ABOUT, open_cache
from tailcloud.files import TEMPORARY
from tailcloud.runs.checkpoint import load_checkpoint

SAME = ("model.safetensors", "suspects.csv", "model.json")  # bytes that kills must not change
SAME_TENSORS = ("portable.safetensors",)  # the order of its metadata is random
OF_THE_CLOCK = ("seconds",)


def broken_files(home: Path) -> Iterator[str]:
    """Files under a final name that are not whole: a sentence for each."""
    for file in sorted(home.rglob("*")):
        inside = file.relative_to(home)
        if not file.is_file() or file.name == "filler" or any(part.startswith(TEMPORARY) for part in inside.parts):
            continue
        check = _check_of(file)
        try:
            check(file)
        except Exception as error:
            yield f"{inside} is not whole: {type(error).__name__}: {error}"[:300]


def _check_of(file: Path) -> Callable[[Path], object]:
    if file.parent.name == "checkpoint":
        return load_checkpoint
    if file.name == ABOUT:
        return _check_cache
    return CHECKS.get(file.suffix, lambda _: None)


def _check_json(file: Path) -> None:
    json.loads(file.read_text())


def _check_lines(file: Path) -> None:
    """All lines but the last one, which a kill may have cut: readers leave it out."""
    for line in file.read_text().split("\n")[:-1]:
        json.loads(line)


def _check_toml(file: Path) -> None:
    tomllib.loads(file.read_text())


def _check_tensors(file: Path) -> None:
    with safe_open(file, framework="pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118
            tensors.get_tensor(name)


def _check_page(file: Path) -> None:
    if not file.read_text().rstrip().endswith("</html>"):
        raise ValueError("the page has no end")


def _check_table(file: Path) -> None:
    text = file.read_text()
    rows = list(csv.reader(text.splitlines()))
    if not text.endswith("\n") or len({len(row) for row in rows}) > 1:
        raise ValueError("the table is cut")


def _check_archive(file: Path) -> None:
    with zipfile.ZipFile(file) as archive:
        if bad := archive.testzip():
            raise ValueError(bad)


def _check_text(file: Path) -> None:
    if not file.read_text().endswith("\n"):
        raise ValueError("the text is cut")


def _check_network(file: Path) -> None:
    import onnx

    onnx.checker.check_model(onnx.load(file))


def _check_cache(file: Path) -> None:
    import numpy as np

    about = json.loads(file.read_text())
    cache = open_cache(file.parent, tuple(about["shape"]))
    cache.check(np.arange(len(cache.pixels)))


CHECKS: dict[str, Callable[[Path], object]] = {
    ".json": _check_json,
    ".jsonl": _check_lines,
    ".toml": _check_toml,
    ".safetensors": _check_tensors,
    ".html": _check_page,
    ".csv": _check_table,
    ".pt2": _check_archive,
    ".onnx": _check_network,
    ".md": _check_text,
}


def temporary_files(*folders: Path) -> list[str]:
    """What a process began to write and left there."""
    return [str(file) for folder in folders for file in sorted(folder.rglob(f"{TEMPORARY}*"))]


def held_locks(home: Path) -> list[str]:
    """Locks that somebody holds."""
    return [str(file) for file in home.rglob("*.lock") if _is_held(file)]


def _is_held(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def fingerprint(home: Path) -> dict[str, Any]:
    """What every chain of a scenario must end with: digests of files, logs without their times, and all names."""
    files = [file for file in sorted(home.rglob("*")) if file.is_file() and file.parent.name != "checkpoint"]
    names = {str(file.relative_to(home)): file for file in files if not _has_random_name(file)}
    return {
        "files": sorted(names),
        "sha256": {name: sha256(path.read_bytes()).hexdigest() for name, path in names.items() if path.name in SAME},
        "tensors": {name: _tensors(path) for name, path in names.items() if path.name in SAME_TENSORS},
        "logs": {name: _log(file) for name, file in names.items() if file.suffix == ".jsonl"},
    }


def _tensors(file: Path) -> dict[str, str]:
    """A digest of each tensor, and the metadata."""
    with safe_open(file, framework="np") as content:
        found = {name: sha256(content.get_tensor(name).tobytes()).hexdigest() for name in content.keys()}  # noqa: SIM118
        return found | (content.metadata() or {})


def _has_random_name(file: Path) -> bool:
    """A file of features: every session adds one."""
    return file.suffix == ".safetensors" and len(file.stem) == 32


def _log(file: Path) -> list[dict[str, Any]]:
    lines = map(json.loads, file.read_text().splitlines())
    return [{key: value for key, value in line.items() if key not in OF_THE_CLOCK} for line in lines]


def differences(found: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Where a chain ended otherwise than without kills."""
    said = [f"{what} is missing" for what in sorted({*expected["files"]} - {*found["files"]})]
    said += [f"{what} is one too many" for what in sorted({*found["files"]} - {*expected["files"]})]
    for what in ("sha256", "tensors", "logs"):
        both = found[what].keys() & expected[what].keys()
        said += [f"{name} differs ({what})" for name in sorted(both) if found[what][name] != expected[what][name]]
    return said
