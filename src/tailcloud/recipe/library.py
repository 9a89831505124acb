"""Finds recipes and methods: files of the package by name, methods of plugins, composed recipes, and files by path."""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal, Protocol

from tailcloud.data import FILE_SUFFIXES, OWN, SOURCES, parse_spec
from tailcloud.errors import TailcloudError, UsageError, unknown
from tailcloud.recipe.merge import Table

BASELINE = "/ce"  # ends the name of the recipe that methods without a file use
LATER = ("stage2", "stage3")  # the stages that SECOND of FIRST+SECOND replaces


class Readable(Protocol):
    """A file, or an object that is read like one."""

    def read_text(self, encoding: str = "utf-8") -> str:
        """Its text."""


@dataclass(frozen=True)
class PluginMethod:
    """A method that a plugin registers: its TOML text, read like a file."""

    name: str
    text: str

    def __str__(self) -> str:
        """Its name in errors."""
        return f"the method {self.name}"

    def read_text(self, encoding: str = "utf-8") -> str:  # noqa: ARG002
        """The text."""
        return self.text


PLUGIN_METHODS: dict[str, PluginMethod] = {}


def shipped(kind: Literal["methods", "recipes"]) -> dict[str, Readable]:
    """The TOML files that come with the package, by name: ``gcl``, ``cifar10-lt/gcl``; then the methods of plugins."""
    return dict(_package_files(kind)) if kind == "recipes" else {**_package_files(kind), **PLUGIN_METHODS}


@cache  # every recipe asks, and a table has hundreds
def _package_files(kind: str) -> dict[str, Readable]:
    return dict(_toml_files(resources.files("tailcloud") / kind))


def _toml_files(folder: Traversable, prefix: str = "") -> Iterable[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name.removesuffix(".toml")):
        if entry.is_dir():
            yield from _toml_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".toml"):
            yield prefix + entry.name.removesuffix(".toml"), entry


@dataclass(frozen=True)
class ComposedRecipe:
    """A recipe without its own file: the baseline recipe of a data set with another method.

    FIRST+SECOND takes the settings of DATA/FIRST, but those of later stages from DATA/SECOND.
    """

    data: str
    method: str

    def __str__(self) -> str:
        """Its name in errors."""
        return f"{self.data}/{self.method}"

    def read_text(self, encoding: str = "utf-8") -> str:
        """The text of such a file."""
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
        lines[1] = f"# {self.data}/{base} with another method; docs/results.md has the results.\n"
        own, of_base = (f'method = "{name}"\n' for name in (self.method, base))
        return "".join(own if line == of_base else line for line in lines)


@dataclass(frozen=True)
class RecipeOnData:
    """A recipe of a data set, with other data than its file has: ``cifar10-lt:50/gcl``."""

    recipe: Readable
    name: str
    spec: str

    def __str__(self) -> str:
        """Its name in errors."""
        return f"{self.spec}/{self.name.partition('/')[2]}"

    def read_text(self, encoding: str = "utf-8") -> str:
        """The text of such a file; the figures at its head are left out, because they are of other data."""
        text = self.recipe.read_text(encoding)
        of_file, own = (f"data = {json.dumps(spec)}\n" for spec in (tomllib.loads(text)["data"], self.spec))
        if own == of_file:
            return text
        lines = text.splitlines(keepends=True)
        lines[0] = lines[0].replace(self.name, str(self))
        lines[1] = f"# {self.name} with other data; docs/results.md has the results.\n"
        return "".join(own if line == of_file else line for line in lines)


def _lines_of(text: str, *, later: bool) -> str:
    """The lines of a recipe that belong to its later stages, or all others."""
    inside, kept = False, []
    for line in text.splitlines(keepends=True):
        inside = line.startswith(tuple(f"[{stage}" for stage in LATER)) or (inside and not line.startswith("["))
        kept += [line] if inside == later else []
    return "".join(kept)


def data_sets() -> list[str]:
    """The data sets with recipes: each has a baseline, whose settings are used for methods without a file."""
    return [name.removesuffix(BASELINE) for name in shipped("recipes") if name.endswith(BASELINE)]


def further_recipes(data: str) -> list[str]:
    """The recipes of a data set that are not named after a method, without its name: ``best``, ``mislas-50``."""
    names = (name.removeprefix(f"{data}/") for name in shipped("recipes") if name.startswith(f"{data}/"))
    return [name for name in names if name not in shipped("methods")]


def find_recipe(reference: str) -> Readable:
    """A recipe by name (DATA/METHOD, or with an imbalance ratio DATA:RATIO/METHOD) or by path."""
    spec, _, method = reference.partition("/")
    data, ratio, _ = spec.partition(":")
    recipe = _named_recipe(data, method)
    if recipe and not ratio:
        return recipe
    if recipe and data in SOURCES:
        parse_spec(spec)
        return RecipeOnData(recipe, f"{data}/{method}", spec)
    path = Path(reference)
    if path.is_dir() and (path / "recipe.toml").is_file():
        path = path / "recipe.toml"
    elif path.exists() and path.suffix != ".toml":
        is_data = path.is_dir() or path.suffix.lower() in FILE_SUFFIXES
        way = f"to train on the images there, use --data {reference}" if is_data else "recipes are TOML files, x.toml"
        raise UsageError(f"{reference} is not a recipe; {way}")
    if path.suffix == ".toml":
        if not path.is_file():
            raise TailcloudError(f'there is no recipe file {path}; "tailcloud recipes ls" lists the shipped ones')
        return path
    if data not in data_sets() or (ratio and data not in SOURCES):
        raise UsageError(f"{unknown('recipe', reference, shipped('recipes'))}; for your own images, use --data PATH")
    if ratio:
        parse_spec(spec)
    if not method:
        raise UsageError(
            f'"{reference}" is data, not a recipe; write {spec}/METHOD, such as {spec}/gcl ("tailcloud recipes ls" '
            "lists the methods)"
        )
    raise _unknown_method(data, method)


def _named_recipe(data: str, method: str) -> Readable | None:
    """The recipe DATA/METHOD, from its file or composed; None if there is none."""
    if file := shipped("recipes").get(f"{data}/{method}"):
        return file
    exists = data in data_sets() and all(part in shipped("methods") for part in method.split("+"))
    return ComposedRecipe(data, method) if exists else None


def _unknown_method(data: str, method: str) -> UsageError:
    """The error for a recipe of a data set that has no such method, and no such recipe of another name."""
    methods = list(shipped("methods"))
    wrong = next(part for part in method.split("+") if part not in methods)
    return unknown("method", wrong, methods if "+" in method else [*methods, *further_recipes(data)])


def default_recipe(spec: str) -> str:
    """The shipped GCL recipe for a data set: ``cifar10-lt/gcl`` for ``cifar10-lt:100`` and for ``cifar10``.

    Other data take the recipe for your own images.
    """
    name, known = parse_spec(spec)[0], shipped("recipes")
    candidates = (f"{name}/gcl", f"{name.partition('-')[0]}-lt/gcl")
    return next((recipe for recipe in candidates if recipe in known), f"{OWN}/gcl")


def read_toml(file: Readable) -> Table:
    """A TOML file as a table; errors name the wrong line."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8").removeprefix("\ufeff"))  # which Windows puts first
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text; save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is not valid TOML: {error}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file} is not a recipe: a number is too large, or tables are nested too deeply") from None
    except OSError as error:
        raise TailcloudError(f"{file} cannot be read: {error.strerror}") from None


def plugin_method(name: str, toml: str | Path) -> PluginMethod:
    """A method from text, or from a file: a ``Path``, or a string of one line that ends in .toml."""
    if isinstance(toml, str) and not ("\n" not in toml and toml.endswith(".toml")):
        return PluginMethod(name, toml)
    try:
        return PluginMethod(name, Path(toml).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"the method {name}: {toml} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"the method {name}: {toml} is not UTF-8 text") from None
