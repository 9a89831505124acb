"""How a recipe comes together: the method's fragment, the recipe file, and the settings of the command line.

Each layer overrides the one before. A resolved recipe names everything, so it is the same run again.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import ValidationError

from tailcloud.data import OWN, parse_spec
from tailcloud.errors import TailcloudError, UsageError, unknown
from tailcloud.files import check_format
from tailcloud.recipe.checks import check_parts, complete, explain
from tailcloud.recipe.names import check_names
from tailcloud.recipe.schema import Recipe, named, specified
from tailcloud.recipe.stretching import stretched
from tailcloud.recipe.written import WRITTEN

Table = dict[str, Any]

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


def parse_setting(setting: str) -> Table:
    """``stage1.epochs=10`` as a nested table; the value is read as TOML, else taken as a string."""
    key, equals, text = setting.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise UsageError(f'--set takes KEY=VALUE, for example --set stage1.epochs=10, not "{setting}"')
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    for name in reversed(names):
        value = {name: value}
    table: Table = value
    return table


def merge(below: Table, above: Mapping[str, Any]) -> Table:
    """``above`` laid over ``below``, table by table. A part that changes its name keeps none of its old options."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        value, old = alike(key, value, old)  # noqa: PLW2901
        if isinstance(old, dict) and isinstance(value, Mapping):
            renamed = "name" in value and value["name"] != old.get("name")
            merged[key] = dict(value) if renamed else merge(old, value)
        else:
            merged[key] = value
    return merged


def alike(key: str, value: Any, old: Any) -> tuple[Any, Any]:
    """A value and what it is laid over: if one is a table and the other its short form, both as tables."""
    full = specified if key == "data" else named
    if isinstance(old, Mapping) and ("name" in old or key == "data"):
        value = full(value)
    return value, full(old) if isinstance(value, Mapping) else old


def differences(then: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The fields in which two recipes differ, each with its value then and now."""
    for key in [*then, *(key for key in now if key not in then)]:
        old, new = then.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield prefix + key, old, new


def load_recipe(reference: str | None, settings: Sequence[Mapping[str, Any]] = (), name: str | None = None) -> Recipe:
    """The recipe ``reference`` names, with settings laid over it, resolved and checked.

    Without a reference, the data's own recipe for GCL. ``name`` is what errors call it.
    """
    overrides: Table = {}
    for setting in settings:
        overrides = merge(overrides, setting)
    reference = reference or default_recipe(spec_of(overrides, "digits-lt"))
    file = find_recipe(reference)
    table = read_toml(file)
    if "format" in table:
        check_format(Path(str(file)), table["format"])
    if "data" not in {**table, **overrides}:
        raise UsageError(f'{reference} names no data; add a line such as data = "digits-lt"')
    return resolve(merge(table, overrides), name or reference)


def spec_of(table: Mapping[str, Any], otherwise: str) -> str:
    """The SPEC of the data that a table names, in short or as a table."""
    data = table.get("data")
    return str(data.get("spec", otherwise) if isinstance(data, Mapping) else data or otherwise)


def default_recipe(spec: str) -> str:
    """The shipped GCL recipe for a data set: ``cifar10-lt/gcl`` for ``cifar10-lt:100`` and for ``cifar10``.

    Data that have none take the one for images of one's own.
    """
    name, known = parse_spec(spec)[0], shipped("recipes")
    fitting = (f"{name}/gcl", f"{name.partition('-')[0]}-lt/gcl")
    return next((recipe for recipe in fitting if recipe in known), f"{OWN}/gcl")


def fragment_of(method: str) -> Table:
    """The settings of a method; ``FIRST+SECOND`` has the later stages of SECOND after everything else of FIRST."""
    known = shipped("methods")
    first, plus, second = method.partition("+")
    for part in [first, second] if plus else [first]:
        if part not in known:
            raise unknown("method", part, known)
    fragment = read_toml(known[first])
    if not plus:
        return fragment
    other = read_toml(known[second])
    if "stage2" not in other:
        raise UsageError(f'method "{method}": {second} has no second stage; after the + stands a method that has one')
    first_stage = {key: value for key, value in fragment.items() if key not in LATER}
    return first_stage | {key: other[key] for key in LATER if key in other}


def resolve(table: Table, name: str = "the recipe") -> Recipe:
    """A recipe table on top of its method, validated: every field, every part, every option."""
    method = table.get("method", "gcl")
    fragment = fragment_of(str(method))
    if "stage2" in table and "stage2" not in fragment:
        raise UsageError(f'{name} sets [stage2], which method "{method}" does not have; take that table out')
    if "stage3" not in fragment:
        table = with_third_stage(table, name)
    try:
        written = Recipe.model_validate(merge(fragment, {**table, "method": method}))
    except ValidationError as error:
        raise UsageError(f"{name}: {explain(error, Recipe)}") from None
    recipe = complete(written, name)
    if "+" in written.method and written.stage2:
        recipe = stretched(recipe, written.stage2.loss, name)
    check_parts(recipe, name)
    check_names(recipe, name)
    return recipe


def with_third_stage(table: Table, name: str) -> Table:
    """What a third stage behind a method that has none leaves out: it has no epochs, and the loss of the stage before.

    So it changes the head, by ``stage3.head``, and trains nothing; the loss is there for its scale.
    """
    asked = table.get("stage3")
    if not isinstance(asked, Mapping):
        return table
    before = resolve({key: value for key, value in table.items() if key != "stage3"}, name)
    last = list(before.stages.values())[-1]
    usual = {"epochs": 0, "batch": last.batch, "train": "head", "loss": last.loss.model_dump()}
    return {**table, "stage3": merge(usual, asked)}
