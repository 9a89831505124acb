"""Recipe tables: parse a setting, merge two tables, compare two tables."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tailcloud.errors import UsageError
from tailcloud.formatting import shortened
from tailcloud.recipe.schema import named, specified

SHOWN = 40  # characters of a setting in an error
FIELD = re.compile(r'(?:there is no field ")?([\w.]+)')  # at the start of an error about a recipe
Table = dict[str, Any]


class Setting(Table):
    """A nested table with the one field that a user set: ``text`` is what was typed, ``key`` the name of the field."""

    def __init__(self, text: str, key: str, value: Any) -> None:
        for name in reversed(key.split(".")[1:]):
            value = {name: value}
        super().__init__({key.partition(".")[0]: value})
        self.text, self.key = text, key

    def is_about(self, field: str) -> bool:
        """Whether this sets the field, a table that has it, or something in it."""
        return f"{field}.".startswith(f"{self.key}.") or f"{self.key}.".startswith(f"{field}.")


def parse_setting(setting: str) -> Setting:
    """``stage1.epochs=10`` as a nested table; a value that is not TOML is a string."""
    key, equals, text = setting.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise UsageError(f'--set takes KEY=VALUE, for example --set stage1.epochs=10, not "{setting}"')
    try:
        value: Any = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    except (ValueError, RecursionError):
        raise UsageError(
            f"--set {shortened(setting, SHOWN)} has a number of too many digits, or lists inside too many lists"
        ) from None
    return Setting(setting, ".".join(names), value)


@contextmanager
def settings_named(recipe: str, settings: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Begin an error about a field that the user set with what was typed, and not with the name of the recipe."""
    try:
        yield
    except UsageError as error:
        sentence = str(error).removeprefix(f"{recipe}: ")
        field = FIELD.match(sentence)
        typed = [each for each in settings if field and isinstance(each, Setting) and each.is_about(field[1])]
        if sentence == str(error) or not typed or field is None:
            raise
        words = " ".join(f"--set {shortened(each.text, SHOWN)}" for each in typed)
        said = sentence.removeprefix(f"{field[1]}: ") if field[1] in {each.key for each in typed} else sentence
        raise UsageError(f"{words}: {said}") from None


def merge(below: Table, above: Mapping[str, Any]) -> Table:
    """``below`` overridden by ``above``, recursively. A part with a new name keeps none of its old options."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        value, old = as_tables(key, value, old)  # noqa: PLW2901
        if isinstance(old, dict) and isinstance(value, Mapping):
            renamed = "name" in value and value["name"] != old.get("name")
            merged[key] = dict(value) if renamed else merge(old, value)
        else:
            merged[key] = value
    return merged


def as_tables(key: str, value: Any, old: Any) -> tuple[Any, Any]:
    """A value and the one that it overrides: if one is a table and the other its short form, both as tables."""
    full = specified if key == "data" else named
    if isinstance(old, Mapping) and ("name" in old or key == "data"):
        value = full(value)
    return value, full(old) if isinstance(value, Mapping) else old


def differences(then: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The fields in which two recipes differ, each with both values."""
    for key in [*then, *(key for key in now if key not in then)]:
        old, new = then.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from differences(old, new, f"{prefix}{key}.")
        elif old != new:
            yield prefix + key, old, new
