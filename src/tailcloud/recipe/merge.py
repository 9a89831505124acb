"""Recipe tables: parse a setting, merge two tables, compare two tables."""

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from tailcloud.errors import UsageError
from tailcloud.formatting import shortened
from tailcloud.recipe.schema import named, specified

SHOWN = 40  # characters of a setting in an error
Table = dict[str, Any]


def parse_setting(setting: str) -> Table:
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
    for name in reversed(names):
        value = {name: value}
    table: Table = value
    return table


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
