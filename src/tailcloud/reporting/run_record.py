"""A finished run as a report reads it: result, log, recipe and examples of its folder."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailcloud.errors import TailcloudError
from tailcloud.recipe.old_words import check_old_words
from tailcloud.reporting.example_images import Examples, read_examples
from tailcloud.runs.epoch_log import Epoch, damaged_line, parse_epoch
from tailcloud.runs.result import Result, read_result

# keys in which the recipes of one method may differ
RUN_KEYS = {"seed", "root", "device", "logging.gradients", "logging.tensorboard", "logging.examples"}


@dataclass(frozen=True)
class RunRecord:
    """A finished run."""

    folder: Path
    result: Result
    log: tuple[Epoch, ...]
    recipe: str
    examples: Examples = field(default_factory=Examples)

    def settings(self) -> dict[str, Any]:
        """The recipe as dotted keys, without ``RUN_KEYS``."""
        content = _table(self.recipe, self.folder / "recipe.toml")
        return {key: value for key, value in dotted(content).items() if key not in RUN_KEYS}


def read_run(folder: Path) -> RunRecord:
    """The finished run in this folder; an error that says what is missing or damaged."""
    result = folder / "result.json"
    if not result.is_file():
        raise TailcloudError(_why_no_result(folder))
    recipe = _text(folder / "recipe.toml")
    check_old_words(_table(recipe, folder / "recipe.toml"), str(folder / "recipe.toml"))
    parsed = read_result(result)
    classes, log = len(parsed.names), folder / "log.jsonl"
    lines = tuple(_epoch(log, number, line, classes) for number, line in _lines(log))
    examples = read_examples(folder / "examples.safetensors", classes)
    return RunRecord(folder, parsed, lines, recipe, examples)


def _table(recipe: str, file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(recipe)
    except tomllib.TOMLDecodeError:
        raise TailcloudError(f"{file} is damaged: it is not a TOML file") from None


def _why_no_result(folder: Path) -> str:
    if not folder.is_dir():
        return f"{folder} is not a run folder: it does not exist"
    if (folder / "recipe.toml").exists():
        return (
            f"{folder} is an unfinished run (no result.json); continue it with tailcloud train --resume --out {folder}"
        )
    inside = sorted(path.parent.name for path in folder.glob("*/result.json"))
    hint = f"; pass one of the runs in it: {', '.join(inside[:5])}" if inside else ""
    return f"{folder} is not a run folder: it has neither recipe.toml nor result.json{hint}"


def _text(path: Path) -> str:
    if not path.is_file():  # opening a pipe could block for ever
        raise TailcloudError(f"{path} is missing: the run folder is not complete")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TailcloudError(f"{path} is damaged: it is not a text file") from None


def _lines(path: Path) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(_text(path).split("\n"), start=1) if line.strip()]


def _epoch(path: Path, number: int, line: str, classes: int) -> Epoch:
    epoch = parse_epoch(path, number, line)
    if len(epoch.gradients) not in {0, classes}:
        raise damaged_line(path, number)
    return epoch


def dotted(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as one flat dict, with keys such as stage1.loss.name."""
    flat: dict[str, Any] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            flat |= dotted(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
