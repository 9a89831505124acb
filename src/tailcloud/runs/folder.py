"""The run folder: recipe, log, checkpoints, model, result and report of one run."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

from tailcloud.data import SOURCES
from tailcloud.errors import TailcloudError, UsageError
from tailcloud.files import (
    FORMAT,
    TEMPORARY,
    LineFile,
    check_output,
    check_regular,
    expand_home,
    is_temporary,
    named_in_errors,
    write_atomically,
)
from tailcloud.plugins import loaded_files
from tailcloud.recipe import Recipe, differences, load_recipe, read_toml
from tailcloud.recipe.resolve import spec_of
from tailcloud.runs.result import Result, read_result

LOCK, TENSORBOARD_FOLDER = ".lock", "tensorboard"
MOVE_BACK = "move it back, or run this command from the folder in which the run was trained"
NAME_DATA = "pass where it is now with --data"  # for verbs with that option


class FolderInUse(TailcloudError):
    """Another process trains in this run folder."""


class RunFolder:
    """The files of a run, by name. The constructor reads and writes nothing; ``create`` starts a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe_file = path / "recipe.toml"
        self.log_file = path / "log.jsonl"
        self.result_file = path / "result.json"
        self.weights_file = path / "model.safetensors"
        self.model_file = path / "model.json"
        self.report_file = path / "report.html"
        self.examples_file = path / "examples.safetensors"
        self.checkpoints = path / "checkpoint"

    @property
    def exists(self) -> bool:
        """Whether a run was started here."""
        return self.recipe_file.is_file()

    @property
    def finished(self) -> bool:
        """Whether the run was trained to its end, and its model is still there."""
        return all(file.is_file() for file in (self.result_file, self.weights_file, self.model_file))

    def check_free(self) -> None:
        """Refuse a folder that is not empty."""
        if self.exists:
            raise TailcloudError(
                f"{self.path} already holds a run; continue it with --resume, or choose another folder with --out"
            )
        if os.path.lexists(self.path) and not self.path.is_dir():
            what = "a file" if self.path.exists() else "a link that leads nowhere"
            raise TailcloudError(f"{self.path} is {what}, and a run needs a folder; choose another one with --out")
        check_output("--out", self.path, folder=True)
        if self.path.is_dir() and any(entry.name != LOCK and not is_temporary(entry) for entry in self.path.iterdir()):
            raise TailcloudError(f"{self.path} is not empty and holds no run; choose another folder with --out")

    def create(self, recipe: Recipe, command: str = "") -> None:
        """Start a run here: write its recipe, with the command in the first line."""
        self.check_free()
        self.write_recipe(recipe.to_toml(), command)

    def write_recipe(self, text: str, command: str) -> None:
        """Write a recipe in TOML, with the command in the first line: from now on there is a run here."""
        write_atomically(self.recipe_file, f"# {in_one_line(command)}\n{text}")

    def claim(self, recipe: Recipe, command: str) -> None:
        """Start the run here, or check that the run in this folder has the same recipe. Needs the lock."""
        if not self.exists:
            self.create(recipe, command)
        for field, here, wanted in differences(self.recipe().substance(), recipe.substance()):
            raise TailcloudError(
                f"{self.path} holds another run ({field} = {here}, not {wanted}); choose another folder with --out"
            )

    def command(self) -> str:
        """The command that started the run."""
        return self.recipe_file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")

    def recipe_text(self) -> str:
        """The recipe of the run in TOML, without the command; it is not checked."""
        if not self.exists:
            raise TailcloudError(f"{self.path} holds no run{self._why_no_run()}")
        command, _, text = self.recipe_file.read_text(encoding="utf-8").partition("\n")
        return text if command.startswith("#") else f"{command}\n{text}"

    def recipe(self, settings: Mapping[str, Any] | None = None) -> Recipe:
        """The resolved recipe of the run; ``settings`` override it."""
        if not self.exists:
            raise TailcloudError(f"{self.path} holds no run{self._why_no_run()}")
        try:
            return load_recipe(str(self.recipe_file), [settings or {}])
        except UsageError:
            if not spec_of(settings or {}, ""):
                self.check_data()
            loaded = {Path(file).name for file in loaded_files()}
            missing = [word for file in self.plugins() if Path(file).name not in loaded for word in ("--plugin", file)]
            if not missing:
                raise
            raise UsageError(
                f"{self.path} has parts from a plugin: add {shlex.join(missing)}, with which it was started "
                "(or where that file is now)"
            ) from None

    def check_data(self, data: str | None = None, *, way_out: str = MOVE_BACK) -> None:
        """Refuse the run if its images are no longer where they were, or not at ``data``, where a user moved them.

        ``way_out`` ends the sentence.
        """
        spec = data or spec_of(read_toml(self.recipe_file), "digits-lt")
        place = expand_home(spec)
        if spec.partition(":")[0] not in SOURCES and not place.exists():
            where = "" if place.is_absolute() else f" in {Path.cwd()}"
            raise TailcloudError(f"{spec}, with the images of {self.path}, does not exist{where}; {way_out}")

    def _why_no_run(self) -> str:
        """What this folder has instead of a run."""
        if not self.path.exists():
            return ": there is no such folder"
        runs = sorted(str(path.parent) for path in self.path.glob("*/recipe.toml"))
        if not runs:
            return ": it has no recipe.toml"
        return f" itself; pass {'the one' if len(runs) == 1 else 'one of those'} below it: {', '.join(runs)}"

    def plugins(self) -> list[str]:
        """The plugin files of the command that started the run."""
        try:
            words = shlex.split(original_command(self.command()))
        except ValueError:  # the first line is another comment
            return []
        return [file for option, file in pairwise(words) if option == "--plugin"]

    def result(self) -> Result:
        """The result of the finished run."""
        if not self.finished:
            raise TailcloudError(
                f'{self.path} holds no finished run; continue it with "tailcloud train --resume --out {self.path}"'
            )
        return read_result(self.result_file)

    def append_log(self, line: dict[str, Any]) -> None:
        """Append the line of an epoch. It survives the process; ``sync_log`` makes it survive the machine too."""
        with named_in_errors(self.log_file), LineFile(self.log_file, "ab") as file:
            file.write(json.dumps({"format": FORMAT, **line}) + "\n")

    def sync_log(self) -> None:
        """Wait until the log is on the disk."""
        with named_in_errors(self.log_file), self.log_file.open("ab") as file:
            os.fsync(file.fileno())

    def truncate_log(self, keep: Callable[[dict[str, Any]], bool]) -> None:
        """Drop the lines of epochs that a resumed run will train again, and an incomplete last line."""
        kept = [json.dumps(line) + "\n" for line in self.log() if keep(line)]
        write_atomically(self.log_file, "".join(kept))

    def log(self) -> list[dict[str, Any]]:
        """The complete lines of the log."""
        if not self.log_file.is_file():
            return []
        lines = []
        for text in self.log_file.read_bytes().splitlines():
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):  # incomplete, or not text
                break
            if not isinstance(line, dict) or not _is_epoch(line):
                break
            lines.append(line)
        return lines

    @property
    def is_locked(self) -> bool:
        """Whether a process trains here; always true on Windows, where this cannot be checked."""
        if os.name == "nt":
            return True
        import fcntl

        try:
            with (self.path / LOCK).open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def check_links(self) -> None:
        """Refuse links that lead out of the folder, pipes and devices: its content may be untrusted."""
        inside = self.path.resolve()
        files = (path for path in vars(self).values() if path != self.path)
        for path in (*files, self.path / LOCK, self.path / TENSORBOARD_FOLDER):
            check_regular(path)
            if not path.resolve().is_relative_to(inside):
                raise TailcloudError(
                    f"{path} is a link to {path.resolve()}, and a run writes only inside its folder; remove the link"
                )
        if self.checkpoints.is_file():
            raise TailcloudError(
                f"{self.checkpoints} is a file, and a run keeps its checkpoints in a folder; remove it"
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the folder while training; the system releases it even if the process is killed."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.check_links()
        with (self.path / LOCK).open("ab") as file:
            try:
                _lock(file)
            except (BlockingIOError, PermissionError):
                raise FolderInUse(
                    f"{self.path} is in use by another tailcloud process; wait for it or stop it"
                ) from None
            except OSError as error:
                raise TailcloudError(
                    f"{self.path} cannot be locked ({error.strerror}); choose a folder on another disk with --out"
                ) from None
            for leftover in filter(is_temporary, self.path.rglob(f"{TEMPORARY}*")):  # of a process that was killed
                leftover.unlink(missing_ok=True)
            yield


def _is_epoch(line: Mapping[str, Any]) -> bool:
    """Whether a line of the log says which epoch of which stage it is."""
    return isinstance(line.get("stage"), str) and isinstance(line.get("epoch"), int)


def in_one_line(command: str) -> str:
    """A command of ``shlex.join`` without control characters: each is written as ``$'\\x0a'``, as a shell reads it.

    A comment of a TOML file ends with its line and has no control characters.
    """
    return re.sub(r"[\x00-\x1f\x7f]", lambda found: f"'$'\\x{ord(found[0]):02x}''", command)


def original_command(line: str) -> str:
    """The command of which ``in_one_line`` made this line."""
    return re.sub(r"'\$'\\x([0-9a-f]{2})''", lambda found: chr(int(found[1], 16)), line)


def _lock(file: BinaryIO) -> None:
    if os.name == "nt":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
