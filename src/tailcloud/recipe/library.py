"""Recipes and methods by name: the TOML files that come with the package, and what is made of them; and by path."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal, Protocol

from tailcloud.data import OWN, parse_spec
from tailcloud.errors import TailcloudError, UsageError, unknown
from tailcloud.recipe.merge import Table
from tailcloud.recipe.plugin_methods import WRITTEN

BASELINE = "/ce"
LATER = ("stage2", "stage3")


class Readable(Protocol):
    """A file, or something that reads like one."""

    def read_text(self, encoding: str = "utf-8") -> str:
        """All of it."""


def shipped(kind: Literal["methods", "recipes"]) -> dict[str, Readable]:
    """The TOML files that come with the package, by name: ``gcl``, ``cifar10-lt/gcl``; then the methods of plugins."""
    files: dict[str, Readable] = dict(_toml_files(resources.files("tailcloud") / kind))
    return files if kind == "recipes" else {**files, **WRITTEN}


def _toml_files(folder: Traversable, prefix: str = "") -> Iterable[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name.removesuffix(".toml")):
        if entry.is_dir():
            yield from _toml_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".toml"):
            yield prefix + entry.name.removesuffix(".toml"), entry


@dataclass(frozen=True)
class Composed:
    """A recipe that has no file of its own: a data set's baseline with another method.

    FIRST+SECOND takes the settings of DATA/FIRST but for what follows its first stage: that is as in DATA/SECOND.
    """

    data: str
    method: str

    def __str__(self) -> str:
        """What errors call it."""
        return f"{self.data}/{self.method}"

    def read_text(self, encoding: str = "utf-8") -> str:
        """The text that its file would have."""
        known = shipped("recipes")
        first, plus, second = self.method.partition("+")
        base = first if f"{self.data}/{first}" in known else BASELINE[1:]
        text = known[f"{self.data}/{base}"].read_text(encoding)
        if plus:
            other = known.get(f"{self.data}/{second}")
            text = _lines_of(text, later=False)
            text += _lines_of(other.read_text(encoding), later=True) if other else ""
        lines = text.splitlines(keepends=True)
        lines[0] = lines[0].replace(f"{self.data}/{base}", str(self))
        lines[1] = f"# {self.data}/{base} with another method; docs/results.md has what was measured.\n"
        ours, theirs = (f'method = "{name}"\n' for name in (self.method, base))
        return "".join(ours if line == theirs else line for line in lines)


def _lines_of(text: str, *, later: bool) -> str:
    """The lines of a recipe that are about its later stages, or all others."""
    inside, kept = False, []
    for line in text.splitlines(keepends=True):
        inside = line.startswith(tuple(f"[{stage}" for stage in LATER)) or (inside and not line.startswith("["))
        kept += [line] if inside == later else []
    return "".join(kept)


def data_sets() -> list[str]:
    """The data sets that recipes are for: each has a baseline, whose settings every method without a file takes."""
    return [name.removesuffix(BASELINE) for name in shipped("recipes") if name.endswith(BASELINE)]


def find_recipe(reference: str) -> Readable:
    """A recipe by name, which is DATA/METHOD, or a file by path."""
    known, methods = shipped("recipes"), shipped("methods")
    if reference in known:
        return known[reference]
    data, slash, method = reference.partition("/")
    strangers = [part for part in method.split("+") if part not in methods]
    if data in data_sets() and not strangers:
        return Composed(data, method)
    path = Path(reference)
    if path.is_dir() and (path / "recipe.toml").is_file():
        path = path / "recipe.toml"
    elif path.exists() and path.suffix != ".toml":
        raise UsageError(f"{reference} is no recipe; to train on the images that are there, write --data {reference}")
    if path.suffix == ".toml":
        if not path.is_file():
            raise TailcloudError(f'there is no recipe file {path}; "tailcloud recipes ls" lists the shipped ones')
        return path
    if (spec := reference.partition(":")[0]) in data_sets():
        raise UsageError(
            f'"{reference}" is data, not a recipe; recipes for it are {spec}/ and one of {", ".join(methods)}'
        )
    if slash and data in data_sets():
        raise unknown("method", strangers[0], methods)
    raise UsageError(f"{unknown('recipe', reference, known)}; images of your own come with --data PATH")


def default_recipe(spec: str) -> str:
    """The shipped GCL recipe for a data set: ``cifar10-lt/gcl`` for ``cifar10-lt:100`` and for ``cifar10``.

    Data that have none take the one for images of one's own.
    """
    name, known = parse_spec(spec)[0], shipped("recipes")
    fitting = (f"{name}/gcl", f"{name.partition('-')[0]}-lt/gcl")
    return next((recipe for recipe in fitting if recipe in known), f"{OWN}/gcl")


def read_toml(file: Readable) -> Table:
    """A TOML file as a table, or a sentence with the line that is wrong."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not valid TOML: {error}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file} is no recipe: a number or nesting in it is beyond all bounds") from None
    except OSError as error:
        raise TailcloudError(f"{file} cannot be read: {error.strerror}") from None
