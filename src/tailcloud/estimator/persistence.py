"""Save a fitted classifier as a run folder and load it: data only, nothing in the folder is executed."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors.torch import save

from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import FORMAT, read_json, write_atomically, write_json
from tailcloud.runs.folder import RunFolder
from tailcloud.runs.model_file import LARGEST_FILE
from tailcloud.serving import TrainedClassifier

FILE_NAME = "estimator.json"
NOT_SAVED = ("out",)  # a folder of unknown origin must not decide where files are written
TEXTS = ("recipe.toml", "log.jsonl", "model.json", "result.json")
Kind = Literal[
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "str"
]


class SavedEstimator(BaseModel):
    """The content of estimator.json: the parameters, and the classes with their NumPy type."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    parameters: dict[str, Any]
    kind: Kind
    classes: Annotated[list[bool | int | float | str], Field(min_length=1)]


def plain(value: Any) -> Any:
    """A parameter for JSON and TOML: NumPy numbers as Python numbers, tuples as lists, paths as text."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value


def kind_of(classes: NDArray[Any]) -> str:
    """The NumPy type of the classes by name; an object array of text is "str"."""
    if classes.dtype.kind in "UO" and all(isinstance(each, str) for each in classes):
        return "str"
    if classes.dtype.name in get_args(Kind):
        return classes.dtype.name
    raise UsageError(f"classes of the type {classes.dtype} cannot be saved; make labels text or numbers")


def texts_of(folder: RunFolder) -> dict[str, str]:
    """The small files of a finished run, by name."""
    files = [file for name in TEXTS if (file := folder.path / name).is_file()]
    for file in files:
        _check_small(file)
    return {file.name: file.read_text(encoding="utf-8", errors="replace") for file in files}


def result_of(folder: RunFolder) -> dict[str, Any]:
    """The result of a run; empty if the folder has no result, as that of an exported model."""
    if not folder.result_file.is_file():
        return {}
    _check_small(folder.result_file)
    return read_json(folder.result_file)


def _check_small(file: Path) -> None:
    if file.stat().st_size > LARGEST_FILE:
        raise TailcloudError(f"{file} is larger than any such file of tailcloud; it is not read")


def check_new(path: Path) -> None:
    """Refuse a path that exists, unless it is an empty folder."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"{path} exists already and is not overwritten; choose another folder")


def write_folder(
    path: Path, model: TrainedClassifier, texts: dict[str, str], parameters: dict[str, Any], classes: NDArray[Any]
) -> None:
    """Write a run folder with the classes as the caller knows them; result.json last, as in every run."""
    check_new(path)
    content = {"parameters": plain(parameters), "kind": kind_of(classes), "classes": classes.tolist()}
    _check_json(content)
    weights = {name: value.contiguous() for name, value in model.classifier.state_dict().items()}
    write_atomically(RunFolder(path).weights_file, save(weights, {"format": str(FORMAT)}))
    write_json(path / FILE_NAME, content)
    for name in (name for name in TEXTS if name in texts):
        write_atomically(path / name, texts[name])


def _check_json(content: dict[str, Any]) -> None:
    try:
        json.dumps(content)
    except TypeError as error:
        raise UsageError(
            f"the parameters cannot be saved: {error}; settings may hold numbers, text, lists and tables"
        ) from None


def read_saved(path: Path, model: TrainedClassifier) -> tuple[dict[str, Any], NDArray[Any]]:
    """Parameters and classes from a folder; for an ordinary run, no parameters and its class names."""
    file = path / FILE_NAME
    if not file.is_file():
        return {}, np.array(model.class_names)
    damaged = f"{file} is damaged or was not written by tailcloud; save the classifier again"
    _check_small(file)
    try:
        saved = SavedEstimator.model_validate({key: value for key, value in read_json(file).items() if key != "format"})
        classes = np.array(saved.classes, dtype=saved.kind)
    except (ValidationError, ValueError, OverflowError, TypeError):
        raise TailcloudError(damaged) from None
    if len(np.unique(classes)) != len(model.class_names) or len(classes) != len(model.class_names):
        raise TailcloudError(damaged)
    return {key: value for key, value in saved.parameters.items() if key not in NOT_SAVED}, classes
